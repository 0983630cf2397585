"""Modules that declare their parameters: size, initial value and role in one place."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import nn

from mgvr_lightning.values.initial import Constant, Diagonal, Initial


class Role(StrEnum):
    """What a parameter is for. The optimizer forms its groups by role and never by variant."""

    EMBEDDING = "embedding"
    """token id → x0"""
    HEAD = "head"
    """last hidden state → logits, where it isn't tied to the embedding"""
    MATRIX = "matrix"
    """hidden → hidden"""
    OWN_SCALAR = "own_scalar"
    """static coefficients of the layer's own values"""
    SOURCE_SCALAR = "source_scalar"
    """static coefficients of the source, matrices over heads included"""
    TOKEN_DEPENDENT = "token_dependent"
    """hidden → the coefficients of one token"""
    TABLE = "table"
    """token id → values"""


@dataclass(frozen=True)
class Declaration:
    """How a parameter starts and what it is for."""

    size: tuple[int, ...]
    initial: Initial
    role: Role
    dtype: torch.dtype = torch.float32


class Declared(nn.Module):
    """A module whose parameters are declared.

    Constant initial values hold from construction on. Random ones are drawn by whoever initialises the
    network, from generators keyed by the parameter's name, so that no module shifts another's draw.
    """

    def __init__(self) -> None:
        super().__init__()
        self.declared: dict[str, Declaration] = {}

    def declare(
        self,
        name: str,
        size: tuple[int, ...],
        initial: Initial,
        role: Role,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Registers parameter `name`."""
        self.declared[name] = Declaration(size, initial, role, dtype)
        parameter = nn.Parameter(torch.empty(size, dtype=dtype))
        if isinstance(initial, Constant):
            nn.init.constant_(parameter, initial.value)
        elif isinstance(initial, Diagonal):
            with torch.no_grad():
                parameter.copy_(initial.value * torch.eye(*size))
        self.register_parameter(name, parameter)

    def withdraw(self, name: str) -> None:
        """Takes a declared parameter back."""
        del self.declared[name], self._parameters[name]


def declarations(module: nn.Module) -> Iterator[tuple[str, Declaration]]:
    """Yields qualified name and declaration of every declared parameter inside `module`, once each."""
    for prefix, child in module.named_modules():
        if isinstance(child, Declared):
            for name, declaration in child.declared.items():
                yield f"{prefix}.{name}" if prefix else name, declaration
