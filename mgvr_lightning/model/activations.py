"""What a training step keeps for its backward pass."""

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from mgvr_lightning.model.config import TransformerConfig
from mgvr_lightning.model.transformer import Transformer
from mgvr_lightning.values import ValueSpec


def activation_bytes(
    config: TransformerConfig, values: ValueSpec, vocabulary: int, context: int, bf16: bool
) -> int:
    """Bytes that autograd saves for the backward pass of each sequence in a batch.

    Counted on tensors without data, in eager execution; a compiled network keeps less. Parameters, and copies
    of them in another dtype, are left out: they are kept once, however many sequences there are.

    Args:
        config: the network's shape.
        values: its value paths.
        vocabulary: number of token ids.
        context: T, tokens of a sequence.
        bf16: whether matrix products run in bf16, under autocast.
    """
    with FakeTensorMode():
        network = Transformer(config, values, vocabulary)
        one, two = (_saved_bytes(network, sequences, context, bf16) for sequences in (1, 2))
    return two - one


def _saved_bytes(network: Transformer, sequences: int, context: int, bf16: bool) -> int:
    saved: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved[storage._cdata] = storage
        return tensor

    ids = torch.zeros(sequences, context, dtype=torch.int64)
    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=bf16),
    ):
        network(ids, ids)
    return sum(storage.nbytes() for storage in saved.values())
