"""Learned gates and mixes of a run, by layer."""

from pathlib import Path

from mgvr_lightning.analysis.run import Run

LABELS = {"gate": "gate a", "mix": "mix M, diagonal", "mix_across": "mix M, |off the diagonal|"}


def last_coefficients(run: Run, kind: str) -> dict[int, float]:
    """Layer → the last value logged under `coefficients/KIND/layerL`."""
    start = f"coefficients/{kind}/layer"
    keys = {key for record in run.records for key in record if key.startswith(start)}
    values = {int(key.removeprefix(start)): list(run.series(key).values())[-1] for key in keys}
    return dict(sorted(values.items()))


def draw(run: Run, path: Path) -> None:
    """Draws the last coefficients against the layer, with their spread over tokens and heads as bars.

    Args:
        run: the run; one that has logged none is drawn nothing of.
        path: where the picture goes.
    """
    curves = {kind: last_coefficients(run, kind) for kind in LABELS}
    if not any(curves.values()):
        return
    from matplotlib.figure import Figure  # noqa: PLC0415  (half a second that other commands need not wait)
    from matplotlib.ticker import MaxNLocator  # noqa: PLC0415

    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    for kind, values in curves.items():
        if values:
            spreads = last_coefficients(run, f"{kind}_spread")
            bars = [spreads.get(layer, 0.0) for layer in values]
            axes.errorbar(
                list(values), list(values.values()), yerr=bars, marker="o", capsize=3, label=LABELS[kind]
            )
    axes.axhline(0, color="0.7", linewidth=0.8)
    axes.set_xlabel("layer, from 0")
    axes.set_ylabel("coefficient")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend()
    figure.savefig(path, dpi=150)
