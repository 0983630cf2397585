import pytest
import torch
from helpers import VOCABULARY, perturbed, preset, tiny, tiny_config, tokens
from torch import Tensor

from mgvr_lightning.model.activations import activation_bytes


def really_saved(name: str, sequences: int) -> int:
    """Bytes that a forward pass with data keeps."""
    network, kept = perturbed(tiny(name)), {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    ids = tokens(sequences, 12)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = network(ids, ids)
    assert loss is not None
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


@pytest.mark.parametrize("name", ["transformer", "value_residual", "mgvr", "bank_of_values", "mix_only"])
def test_counted_bytes_are_those_that_are_kept(name: str) -> None:
    counted = activation_bytes(tiny_config(), preset(name), VOCABULARY, 12, bf16=False)
    assert counted == (really_saved(name, 9) - really_saved(name, 5)) / 4


def test_bf16_keeps_less() -> None:
    sizes = [activation_bytes(tiny_config(), preset("mgvr"), VOCABULARY, 12, bf16) for bf16 in (False, True)]
    assert sizes[1] < sizes[0]
