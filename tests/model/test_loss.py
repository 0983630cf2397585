"""The loss in chunks is the loss at once, without its logits."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers import perturbed, tiny, tokens
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mgvr_lightning.model.loss import IGNORE, head_logits, scored_alone, summed_loss, token_losses

COUNT, WIDTH, VOCABULARY = 23, 5, 97

chunks = pytest.mark.parametrize("chunk", [1, 4, 7, COUNT, 100])
softcaps = pytest.mark.parametrize("softcap", [None, 1.5])
target_kinds = pytest.mark.parametrize("scored", ["all", "some", "none"])


def example(scored: str, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    """hidden (N, D), weight (V, D) and targets (N,), a few of which are the most likely token."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(COUNT, WIDTH, dtype=dtype, generator=generator)
    weight = torch.randn(VOCABULARY, WIDTH, dtype=dtype, generator=generator)
    targets = torch.randint(0, VOCABULARY, (COUNT,), generator=generator)
    targets[::3] = (hidden @ weight.T).argmax(-1)[::3]
    if scored != "all":
        targets[torch.arange(COUNT) % 4 != 2 if scored == "some" else slice(None)] = IGNORE
    return hidden.requires_grad_(), weight.requires_grad_(), targets


def naive_logits(hidden: Tensor, weight: Tensor, softcap: float | None) -> Tensor:
    logits = F.linear(hidden, weight).to(torch.promote_types(weight.dtype, torch.float32))
    return logits if softcap is None else softcap * torch.tanh(logits / softcap)


def naive_sum(hidden: Tensor, weight: Tensor, targets: Tensor, softcap: float | None) -> Tensor:
    logits = naive_logits(hidden, weight, softcap)
    return F.cross_entropy(logits, targets, ignore_index=IGNORE, reduction="sum")


@chunks
@softcaps
@target_kinds
@pytest.mark.parametrize("upstream", [1.0, -0.37])
def test_sum_and_its_gradients(scored: str, softcap: float | None, chunk: int, upstream: float) -> None:
    hidden, weight, targets = example(scored)
    sums = summed_loss(hidden, weight, targets, softcap, chunk)
    expected = naive_sum(hidden, weight, targets, softcap)
    torch.testing.assert_close(sums.nll, expected, rtol=1e-10, atol=1e-10)
    gradients, naive = (
        torch.autograd.grad(upstream * loss, (hidden, weight)) for loss in (sums.nll, expected)
    )
    torch.testing.assert_close(gradients, naive, rtol=1e-10, atol=1e-10)
    assert (naive[0].abs().sum() > 0) == (scored != "none")


@chunks
@softcaps
@target_kinds
def test_counts(scored: str, softcap: float | None, chunk: int) -> None:
    hidden, weight, targets = example(scored)
    sums = summed_loss(hidden, weight, targets, softcap, chunk)
    predictions = naive_logits(hidden, weight, softcap).argmax(-1)
    assert sums.correct.item() == (predictions == targets).sum().item()
    assert sums.targets.item() == {"all": COUNT, "some": 6, "none": 0}[scored]
    assert (sums.correct.item() > 0) == (scored != "none")
    assert sums.correct.dtype == sums.targets.dtype == torch.int64
    assert not sums.correct.requires_grad


@chunks
@softcaps
@target_kinds
def test_losses_of_tokens(scored: str, softcap: float | None, chunk: int) -> None:
    hidden, weight, targets = example(scored)
    nll, predictions = token_losses(hidden, weight, targets, softcap, chunk)
    logits = naive_logits(hidden, weight, softcap)
    expected = F.cross_entropy(logits, targets, ignore_index=IGNORE, reduction="none")
    torch.testing.assert_close(nll, expected, rtol=1e-10, atol=1e-10)
    assert (nll[targets == IGNORE] == 0).all()
    assert torch.equal(predictions, logits.argmax(-1))


@softcaps
def test_gradients_pass_gradcheck(softcap: float | None) -> None:
    hidden, weight, targets = example("some")
    assert torch.autograd.gradcheck(
        lambda hidden, weight: summed_loss(hidden, weight, targets, softcap, 4).nll, (hidden, weight)
    )


@softcaps
@pytest.mark.parametrize("chunk", [4, 100])
def test_bf16_autocast_is_close_to_cross_entropy_under_autocast(softcap: float | None, chunk: int) -> None:
    hidden, weight, targets = example("some", torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        sums = summed_loss(hidden, weight, targets, softcap, chunk)
        expected = naive_sum(hidden, weight, targets, softcap)
    assert sums.nll.dtype == torch.float32
    torch.testing.assert_close(sums.nll, expected, rtol=1e-5, atol=0)
    gradients, naive = (torch.autograd.grad(loss, (hidden, weight)) for loss in (sums.nll, expected))
    for gradient, other in zip(gradients, naive, strict=True):
        assert gradient.dtype == torch.float32
        assert (gradient - other).norm() < 0.01 * other.norm()


def test_logits_of_half_precision_are_fp32() -> None:
    hidden, weight, _ = example("all", torch.bfloat16)
    assert head_logits(hidden, weight, None).dtype == torch.float32


class LargestTensor(TorchDispatchMode):
    """Notes the most elements of any tensor that an operation returns."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        outputs = func(*args, **(kwargs or {}))
        for output in tree_leaves(outputs):
            if isinstance(output, Tensor):
                self.elements = max(self.elements, output.numel())
        return outputs


def measured(call: Callable[[], Tensor]) -> tuple[int, list[torch.Size]]:
    """Elements of the largest tensor made, there and back, and sizes of the tensors kept in between."""
    kept: list[torch.Size] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor.shape)
        return tensor

    with LargestTensor() as largest, saved_tensors_hooks(pack, lambda tensor: tensor):
        result = call()
        if result.requires_grad:
            result.backward()
    return largest.elements, kept


@softcaps
def test_no_more_than_a_chunk_of_logits_ever_exists(softcap: float | None) -> None:
    hidden, weight, targets = example("some")
    chunk = 6
    assert chunk * VOCABULARY > VOCABULARY * WIDTH
    largest, kept = measured(lambda: summed_loss(hidden, weight, targets, softcap, chunk).nll)
    assert largest == chunk * VOCABULARY
    assert set(kept) == {hidden.shape, weight.shape}
    with torch.no_grad():
        largest, _ = measured(lambda: token_losses(hidden, weight, targets, softcap, chunk)[0])
    assert largest == chunk * VOCABULARY


def test_measurement_sees_the_logits_of_plain_cross_entropy() -> None:
    hidden, weight, targets = example("some")
    largest, kept = measured(lambda: naive_sum(hidden, weight, targets, None))
    assert largest == COUNT * VOCABULARY
    assert torch.Size((COUNT, VOCABULARY)) in kept


@pytest.mark.parametrize("shape", [{}, {"tied": True}, {"softcap": 0.5}])
def test_network_sums_what_its_logits_say(shape: dict[str, Any]) -> None:
    network = perturbed(tiny("mgvr", dtype=torch.float64, **shape))
    ids, targets = tokens(3, 8), tokens(3, 8, seed=1)
    targets[:, :3] = IGNORE
    logits = network.logits(ids).flatten(0, 1)
    expected = F.cross_entropy(logits, targets.flatten(), ignore_index=IGNORE, reduction="sum")
    sums = network(ids, targets)
    torch.testing.assert_close(sums.nll, expected)
    assert sums.targets.item() == 15
    parameters = list(network.parameters())
    for one, other in zip(
        torch.autograd.grad(sums.nll, parameters), torch.autograd.grad(expected, parameters), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)
    nll, predictions = network.token_losses(ids, targets)
    assert nll.shape == predictions.shape == ids.shape
    torch.testing.assert_close(nll.sum(), expected)
    assert torch.equal(predictions.flatten(), logits.argmax(-1))
    assert (predictions == targets).sum() == sums.correct


@pytest.mark.parametrize("most", [0, 1, 3, 5, 6])
def test_positions_that_are_not_scored_can_be_left_out(most: int) -> None:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(4, 6, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(11, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    targets = torch.full((4, 6), IGNORE)
    for row in range(4):
        places = torch.randperm(6, generator=generator)[: max(0, most - row % 2)]
        targets[row, places] = torch.randint(0, 11, (len(places),), generator=generator)
    kept, kept_targets = scored_alone(hidden, targets, most)
    assert kept.shape == (4, most, 3)
    for row in range(4):
        scored = targets[row] != IGNORE
        count = int(scored.sum())
        assert torch.equal(kept[row, :count], hidden[row, scored])
        assert torch.equal(kept_targets[row, :count], targets[row, scored])
        assert (kept_targets[row, count:] == IGNORE).all()
    results = []
    for states, wanted in ((hidden, targets), (kept, kept_targets)):
        sums = summed_loss(states.flatten(0, 1), weight, wanted.flatten(), None, 5)
        results.append((sums, torch.autograd.grad(sums.nll, (hidden, weight), retain_graph=True)))
    (all_sums, all_grads), (sums, grads) = results
    assert (sums.correct, sums.targets) == (all_sums.correct, all_sums.targets)
    torch.testing.assert_close(sums.nll, all_sums.nll, atol=1e-12, rtol=0)
    torch.testing.assert_close(grads, all_grads, atol=1e-12, rtol=0)
