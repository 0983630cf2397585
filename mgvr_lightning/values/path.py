"""The value path of a layer: equation (0) composed from its parts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from mgvr_lightning.errors import InputError
from mgvr_lightning.values.identity import Identity, Project
from mgvr_lightning.values.layers import Layers, selected
from mgvr_lightning.values.part import Gate, Mix, Source
from mgvr_lightning.values.shape import Shape


class OwnValues(nn.Module):
    """V' = V: the Transformer, and every layer where equation (0) doesn't hold."""

    projections = 1
    replayable = False

    def forward(self, x: Tensor, identity: Identity, project: Project) -> Tensor:
        """Returns V, (B, T, H, Dh)."""
        return project(x)

    def flops(self) -> int:
        """FLOPs of a forward pass per token, applications of W_V aside."""
        return 0


class ValuePath(nn.Module):
    """V' = a·V + M S.

    Args:
        source: S, or None for V' = a·V.
        gate: a.
        mix: M, exactly where there is a source.
    """

    def __init__(self, source: Source | None, gate: Gate, mix: Mix | None) -> None:
        super().__init__()
        assert (source is None) == (mix is None)
        self.source, self.gate, self.mix = source, gate, mix
        parts = [part for part in (source, gate, mix) if part is not None]
        self.projections = sum(part.projects for part in parts)  # applications of W_V per token
        self.replayable: bool = all(part.replayable for part in parts)

    def forward(self, x: Tensor, identity: Identity, project: Project) -> Tensor:
        """Computes the values that attention sees.

        Args:
            x: (B, T, D) the layer's normalised input.
            identity: what is known about the tokens. A replayable path may be given a longer past than x.
            project: the layer's own W_V.

        Returns:
            V', (B, T, H, Dh).
        """
        gate = self.gate(x)
        own: Tensor | None = None if gate is None else gate * project(x)
        if self.source is None or self.mix is None:
            assert own is not None
            return own
        mixed: Tensor = self.mix(x, self.source(identity, project))
        return mixed if own is None else own + mixed

    def flops(self) -> int:
        """FLOPs of a forward pass per token, applications of W_V aside."""
        sizes = self.gate.shape
        sums = sizes.kv_heads * sizes.head_width if self.source is not None and self.gate.projects else 0
        return sums + sum(part.flops() for part in (self.source, self.gate, self.mix) if part is not None)


@dataclass
class ValueSpec:
    """A choice of parts: what makes one variant differ from another.

    Args:
        source: where token identity is read from; null for nowhere.
        gate: how much of its own values a layer keeps.
        mix: which heads of the source reach which head of the values; null exactly where the source is.
        layers: the layers that the choice holds in: all, none, every_second (the last one included),
            last_third, or a list of indices from 0. The others keep their own values.
    """

    source: Callable[[Shape], Source] | None
    gate: Callable[[Shape], Gate]
    mix: Callable[[Shape], Mix] | None
    layers: Layers

    def __post_init__(self) -> None:
        if (self.source is None) != (self.mix is None):
            given, missing = ("mix", "source") if self.source is None else ("source", "mix")
            raise InputError(f"values: {given} is set but {missing} is null. Set both, or neither.")

    def build(self, shapes: Sequence[Shape]) -> list[ValuePath | OwnValues]:
        """Builds the value path of every layer of a network.

        Raises:
            InputError: the layers don't exist, or nothing replaces the values that a gate drops.
        """
        chosen = selected(self.layers, len(shapes))
        paths = [self._path(shape) if shape.layer in chosen else OwnValues() for shape in shapes]
        sources = [path.source for path in paths if isinstance(path, ValuePath) and path.source is not None]
        for source in sources:
            source.join(sources[0])
        return paths

    def _path(self, shape: Shape) -> ValuePath | OwnValues:
        source = None if self.source is None else self.source(shape)
        if source is not None and shape.layer < source.earliest:
            return OwnValues()
        gate = self.gate(shape)
        if source is None and not gate.projects:
            raise InputError("values: without a source the gate can't drop the layer's own values.")
        return ValuePath(source, gate, None if self.mix is None else self.mix(shape))
