from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import VOCABULARY, tiny
from runs import fit
from torch import Tensor

from mgvr_lightning.callbacks.induction import Induction, repeated_tokens, scores
from mgvr_lightning.errors import InputError
from mgvr_lightning.model import IGNORE


class Copier(torch.nn.Module):
    """Predicts what followed the last occurrence of a token, and attends there."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        super().__init__()
        self.network = self

    def token_losses(self, ids: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        predictions = torch.zeros_like(ids)
        for row, tokens in enumerate(ids.tolist()):
            for t, token in enumerate(tokens):
                earlier = [s for s in range(t) if tokens[s] == token]
                predictions[row, t] = tokens[earlier[-1] + 1] if earlier else 0
        return (predictions != targets).float(), predictions

    def attention_maps(self, ids: Tensor) -> Tensor:
        weights = torch.zeros(2, len(ids), 1, ids.size(1), ids.size(1))
        for row, tokens in enumerate(ids.tolist()):
            for t, token in enumerate(tokens):
                earlier = [s for s in range(t) if tokens[s] == token]
                weights[1, row, 0, t, earlier[-1] + 1 if earlier else 0] = 1
        return weights


@pytest.mark.parametrize("separator", [0, 7, 36])
def test_random_tokens_repeat_behind_the_separator(separator: int) -> None:
    ids, targets = repeated_tokens(8, 24, VOCABULARY, separator)
    assert (ids[:, 0] == separator).all()
    assert (ids[:, 1:] != separator).all()
    assert ids.max() < VOCABULARY
    for row, wanted in zip(ids.tolist(), targets.tolist(), strict=True):
        for t, target in enumerate(wanted):
            earlier = [s for s in range(1, t) if row[s] == row[t]]
            assert (target == IGNORE) == (not earlier)
            if earlier:
                assert target == row[earlier[-1] + 1]
    assert len(set(map(tuple, ids.tolist()))) == 8
    assert (repeated_tokens(8, 24, VOCABULARY, separator)[0] == ids).all()


def test_a_copier_scores_one_and_an_untrained_network_scores_chance() -> None:
    ids, targets = (torch.from_numpy(part) for part in repeated_tokens(8, 24, VOCABULARY, 0))
    copier = scores(Copier(), ids, targets)  # type: ignore[arg-type]
    assert copier["induction/copy_accuracy"] == 1
    assert copier["induction/loss"] == 0
    assert copier["induction/prefix_matching/max"] == copier["induction/prefix_matching/layer1_head0"] == 1
    assert copier["induction/prefix_matching/layer0_head0"] == 0
    holder = Copier()
    holder.network = tiny("transformer")  # type: ignore[assignment]
    untrained = scores(holder, ids, targets)  # type: ignore[arg-type]
    assert untrained["induction/copy_accuracy"] < 0.2
    assert untrained["induction/loss"] == pytest.approx(np.log(VOCABULARY), abs=0.5)
    assert untrained["induction/prefix_matching/max"] < 0.3


def test_it_is_logged_on_text_and_leaves_training_as_it_is(tmp_path: Path) -> None:
    run = fit(tmp_path)
    assert list(run.series("induction/copy_accuracy")) == [2, 4, 6]
    assert "induction/prefix_matching/layer2_head1" in run.metrics
    without = fit(tmp_path, "--induction.sequences", "0", name="without")
    assert "induction/copy_accuracy" not in without.metrics
    assert run.series("val/loss") == without.series("val/loss")


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match=r"induction\.sequences: -1"):
        Induction(sequences=-1)
    with pytest.raises(InputError, match=r"induction\.length: 4 tokens"):
        Induction(length=4)
