"""Draws `loss_matching.png` from the run folders beside it: `python docs/results/default_run/plot.py`."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from mgvr_lightning.analysis.curve import matches
from mgvr_lightning.analysis.run import Run

HERE = Path(__file__).parent
NAMES = {"transformer": "Transformer", "value_residual": "static value residual", "mgvr": "MGVR"}
COLOURS = {"transformer": "#555555", "value_residual": "#2a7fb8", "mgvr": "#d1495b"}


def main() -> None:
    """Draws validation loss and steps saved against optimizer steps."""
    runs = {name: Run(HERE / name) for name in NAMES if (HERE / name).is_dir()}
    reference = runs["transformer"].curve()
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for name, run in runs.items():
        curve = run.curve()
        left.plot(curve.steps, curve.losses, "o-", ms=3, color=COLOURS[name], label=NAMES[name])
        if name != "transformer":
            points = matches(curve, reference)
            saved = [100 * point.steps_saved for point in points]
            right.plot(
                [point.step for point in points], saved, "o-", ms=3, color=COLOURS[name], label=NAMES[name]
            )
    left.set(xlabel="optimizer step", ylabel="validation loss, nats per token", ylim=(4.3, 6.8))
    right.set(xlabel="Transformer's step s", ylabel="steps saved at its loss, %")
    right.axhline(0, color=COLOURS["transformer"], lw=1)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    figure.savefig(HERE / "loss_matching.png", dpi=130)


if __name__ == "__main__":
    main()
