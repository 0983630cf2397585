from pathlib import Path

import pytest
import torch
from runs import checkpoint, fit, saved

from mgvr_lightning.callbacks import Budget
from mgvr_lightning.errors import InputError

TOKENS = 16 * 32
"""Of a step."""


def test_a_budget_of_tokens_sets_the_steps_and_the_schedule(tmp_path: Path) -> None:
    run = fit(tmp_path, "--budget.tokens", str(3.4 * TOKENS))
    assert list(run.series("train/loss")) == [1, 2, 3]
    plain = fit(tmp_path, "--trainer.max_steps", "3", name="plain")
    for key in ("train/loss", "val/loss", "lr/matrix", "data/hash"):
        assert run.series(key) == plain.series(key)


def test_a_budget_of_flops_is_shared_out_by_the_networks_cost(tmp_path: Path) -> None:
    steps = {}
    for name in ("transformer", "first_values"):
        run = fit(tmp_path, "--budget.flops", "1.2e8", preset=name, name=name)
        cost = run.provenance["network"]["flops_per_token"] * TOKENS
        steps[name] = max(run.series("train/loss"))
        assert steps[name] == round(1.2e8 / cost)
    assert 2 <= steps["transformer"] <= steps["first_values"]


def test_a_run_on_a_budget_goes_on_to_its_end(tmp_path: Path) -> None:
    straight = fit(tmp_path, "--budget.tokens", str(4 * TOKENS), name="straight")
    each_step = """
- class_path: lightning.pytorch.callbacks.ModelCheckpoint
  init_args: {filename: 'at{step}', every_n_train_steps: 1, save_top_k: -1, auto_insert_metric_name: false}
"""
    run = fit(tmp_path, "--budget.tokens", str(4 * TOKENS), "--trainer.callbacks", each_step, name="saved")
    again = fit(
        tmp_path, *saved(run)[:2], "--run", "again", "--ckpt_path", str(checkpoint(run, "at2")), name="again"
    )
    assert again.series("val/loss")[4] == straight.series("val/loss")[4]
    weights = [torch.load(checkpoint(one), weights_only=True)["state_dict"] for one in (straight, again)]
    torch.testing.assert_close(*weights, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"flops": 0.0}, r"budget\.flops: 0\.0"),
        ({"tokens": float("nan")}, r"budget\.tokens: nan"),
        ({"flops": 1e9, "tokens": 1e9}, "both flops and tokens"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, float], told: str) -> None:
    with pytest.raises(InputError, match=told):
        Budget(**options)


def test_a_budget_below_one_step_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"budget\.tokens: 200 pays for no step, which costs 512"):
        fit(tmp_path, "--budget.tokens", "200")
