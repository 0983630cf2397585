"""Initial values of parameters, as data: said where a parameter is declared, drawn elsewhere."""

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Draws(Protocol):
    """What an initial value may be made from, supplied by whoever initialises the network."""

    def generator(self) -> torch.Generator:
        """A generator keyed by the seed and the name of the tensor that is being drawn."""

    def tokens(self) -> Tensor:
        """(vocabulary, D) x0 of every token id at initialisation."""

    def projection(self, layer: int) -> Tensor:
        """(H·Dh, D) W_V of `layer` as the Transformer draws it, whether or not the layer builds it."""


class Initial(Protocol):
    """An initial value."""

    def __call__(self, size: tuple[int, ...], draws: Draws) -> Tensor:
        """Makes the tensor.

        Args:
            size: the parameter's size.
            draws: what it may be made from.

        Returns:
            An fp32 tensor of `size` on the CPU.
        """


@dataclass(frozen=True)
class Constant:
    """Every element is `value`."""

    value: float

    def __call__(self, size: tuple[int, ...], draws: Draws) -> Tensor:
        """Makes the tensor."""
        return torch.full(size, self.value, dtype=torch.float32)


@dataclass(frozen=True)
class Diagonal:
    """`value` times the identity matrix; size (n, n)."""

    value: float

    def __call__(self, size: tuple[int, ...], draws: Draws) -> Tensor:
        """Makes the tensor."""
        return self.value * torch.eye(*size, dtype=torch.float32)


@dataclass(frozen=True)
class ProjectedTokens:
    """x0 of every token through W_V of `layer`; size (V, H·Dh)."""

    layer: int

    def __call__(self, size: tuple[int, ...], draws: Draws) -> Tensor:
        """Makes the tensor."""
        table = F.linear(draws.tokens(), draws.projection(self.layer))
        assert table.shape == size, (table.shape, size)
        return table


@dataclass(frozen=True)
class Normal:
    """Normal with mean 0 and standard deviation `std`."""

    std: float

    def __call__(self, size: tuple[int, ...], draws: Draws) -> Tensor:
        """Makes the tensor."""
        return torch.empty(size, dtype=torch.float32).normal_(0.0, self.std, generator=draws.generator())


@dataclass(frozen=True)
class Uniform:
    """Uniform with mean 0 and standard deviation `std`, that is, within ± √3·std."""

    std: float

    def __call__(self, size: tuple[int, ...], draws: Draws) -> Tensor:
        """Makes the tensor."""
        bound = 3**0.5 * self.std
        return torch.empty(size, dtype=torch.float32).uniform_(-bound, bound, generator=draws.generator())


@dataclass(frozen=True)
class Between:
    """Uniform from `low` to `high`."""

    low: float
    high: float

    def __call__(self, size: tuple[int, ...], draws: Draws) -> Tensor:
        """Makes the tensor."""
        return torch.empty(size, dtype=torch.float32).uniform_(
            self.low, self.high, generator=draws.generator()
        )
