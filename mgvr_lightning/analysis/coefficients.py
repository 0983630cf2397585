"""Learned gates and mixes of a run, by layer."""

from mgvr_lightning.analysis.canvas import canvas, rendered
from mgvr_lightning.analysis.run import Run

LABELS = {"gate": "gate a", "mix": "mix M, diagonal", "mix_across": "mix M, |off the diagonal|"}


def last_coefficients(run: Run, kind: str) -> dict[int, float]:
    """Layer → the last value logged under `coefficients/KIND/layerL`."""
    start = f"coefficients/{kind}/layer"
    keys = {key for record in run.records for key in record if key.startswith(start)}
    values = {int(key.removeprefix(start)): list(run.series(key).values())[-1] for key in keys}
    return dict(sorted(values.items()))


def draw(run: Run) -> dict[str, bytes] | None:
    """The last coefficients against the layer, with their spread over tokens and heads as bars.

    Returns:
        The picture as `svg` and `png`; None of a run that has logged none.
    """
    curves = {kind: last_coefficients(run, kind) for kind in LABELS}
    if not any(curves.values()):
        return None
    with canvas(6, 3.6) as (figure, axes):
        for kind, values in curves.items():
            if values:
                spreads = last_coefficients(run, f"{kind}_spread")
                bars = [spreads.get(layer, 0.0) for layer in values]
                heights = list(values.values())
                axes.errorbar(list(values), heights, yerr=bars, marker="o", capsize=3, label=LABELS[kind])
        axes.axhline(0, color="0.7", linewidth=0.8)
        axes.set(xlabel="layer, from 0", ylabel="coefficient")
        axes.locator_params(axis="x", integer=True)
        axes.legend(frameon=False)
        return rendered(figure)
