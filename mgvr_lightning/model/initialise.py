"""The one place that gives parameters their initial values.

| tensor | initial value | role |
|---|---|---|
| embedding | N(0, embedding_std²) | embedding |
| head | N(0, head_std²) | head |
| W_Q, W_K, W_V | uniform, std width^-½ | matrix |
| W₁, W₃ | uniform, std mlp_scale · width^-½ | matrix |
| W_O, W₂ | uniform, std (2 · layers · inputs)^-½; zero with zero_outputs | matrix |
| gates and mixes | as each part declares | as each part declares |

Every tensor is drawn by itself from a generator keyed by (seed, qualified name), on the CPU in fp32: a tensor
that two networks share is equal bit for bit in both, whatever else they contain, and in whatever order they
were built.
"""

from hashlib import blake2b

import torch
from torch import Tensor

from mgvr_lightning.model.attention import value_initial
from mgvr_lightning.model.layers import norm
from mgvr_lightning.model.transformer import Transformer
from mgvr_lightning.values import declarations

EMBEDDING = "embedding.weight"
VALUE = "blocks.{layer}.attention.value.weight"


def keyed_generator(seed: int, name: str) -> torch.Generator:
    """A generator that depends on `seed` and `name` alone."""
    digest = blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "little", signed=True))


class NetworkDraws:
    """The draws of one network: see `mgvr_lightning.values.Draws`.

    Args:
        network: the network whose tensors are drawn.
        seed: the seed.
        name: qualified name of the tensor that is being drawn.
    """

    def __init__(self, network: Transformer, seed: int, name: str) -> None:
        self.network, self.seed, self.name = network, seed, name

    def generator(self) -> torch.Generator:
        """A generator keyed by the seed and the tensor's name."""
        return keyed_generator(self.seed, self.name)

    def tokens(self) -> Tensor:
        """(V, D) x0 of every token id."""
        embedding = self.network.embedding.declared["weight"]
        draws = NetworkDraws(self.network, self.seed, EMBEDDING)
        return norm(norm(embedding.initial(embedding.size, draws)))

    def projection(self, layer: int) -> Tensor:
        """(H·Dh, D) W_V of a layer as the Transformer draws it, whether or not the layer builds it."""
        config = self.network.config
        size = (config.key_value_heads * config.head_width, config.width)
        draws = NetworkDraws(self.network, self.seed, VALUE.format(layer=layer))
        return value_initial(config)(size, draws)


@torch.no_grad()
def initialise(network: Transformer, seed: int) -> None:
    """Gives every parameter of a network its initial value, in place.

    Args:
        network: the network, on any device but meta.
        seed: the seed of all draws.
    """
    parameters = dict(network.named_parameters())
    declared = dict(declarations(network))
    assert parameters.keys() == declared.keys(), parameters.keys() ^ declared.keys()
    for name, declaration in declared.items():
        parameters[name].copy_(declaration.initial(declaration.size, NetworkDraws(network, seed, name)))
