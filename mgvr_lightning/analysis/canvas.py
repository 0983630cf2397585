"""Where pictures are drawn; the same picture gives the same bytes."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@contextmanager
def canvas(width: float = 6.4, height: float = 3.9, columns: int = 1) -> Iterator[tuple["Figure", Any]]:
    """A figure with its axes; several side by side are an array."""
    from matplotlib import rc_context  # noqa: PLC0415  (half a second that other commands need not wait)
    from matplotlib.figure import Figure  # noqa: PLC0415

    with rc_context({"svg.hashsalt": "mgvr_lightning", "svg.fonttype": "path"}):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(ncols=columns)
        for one in figure.axes:
            one.spines[["top", "right"]].set_visible(False)
        yield figure, axes


def rendered(figure: "Figure") -> dict[str, bytes]:
    """The picture as `svg` and `png`, without date and versions."""
    found = {}
    for kind, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
        buffer = BytesIO()
        figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
        found[kind] = buffer.getvalue()
    return found
