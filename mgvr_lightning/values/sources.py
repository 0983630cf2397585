"""Sources S of token identity."""

from typing import ClassVar

from torch import Tensor

from mgvr_lightning.values.identity import Identity, Project
from mgvr_lightning.values.part import Source


class FirstValues(Source):
    """The values of layer 0, V₁ in the papers' numbering, not detached.

    Source: Value Residual Learning, arXiv 2410.17897.

    Args:
        shape: the sizes to build it from.
    """

    earliest: ClassVar[int] = 1
    replayable: ClassVar[bool] = True

    def forward(self, identity: Identity, project: Project) -> Tensor:
        """Returns the first values, (B, T, H, Dh)."""
        assert identity.first is not None, "layer 0 has no first values"
        return identity.first

    def flops(self) -> int:
        """FLOPs per token."""
        return 0


class TokenProjection(Source):
    """The token embedding through the layer's own value projection, x₀ W_V.

    Source: Bank of Values, arXiv 2606.02780 (rows "x₀ W_V").

    Args:
        shape: the sizes to build it from.
    """

    projects: ClassVar[bool] = True

    def forward(self, identity: Identity, project: Project) -> Tensor:
        """Returns x₀ W_V, (B, T, H, Dh)."""
        assert identity.x0 is not None, "a replay has no x0"
        return project(identity.x0)

    def flops(self) -> int:
        """FLOPs per token."""
        return 0
