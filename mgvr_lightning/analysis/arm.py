"""The runs of one configuration, one for each seed."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mgvr_lightning.analysis.run import Run
from mgvr_lightning.errors import InputError

Seeds = tuple[int, int]

IRRELEVANT = (
    "ckpt_path",
    "config",
    "data",
    "matching",
    "model.compile",
    "model.sampling",
    "model.seed",
    "run",
    "seed_everything",
    "stop",
    "trainer.accelerator",
    "trainer.callbacks",
    "trainer.default_root_dir",
    "trainer.devices",
    "trainer.enable_checkpointing",
    "trainer.enable_progress_bar",
    "trainer.logger",
    "trainer.log_every_n_steps",
    "trainer.max_steps",
    "trainer.num_nodes",
    "trainer.strategy",
    "weights_only",
)
"""Options in which runs of one arm may differ: seeds, places, and what decides no more than speed or length.

Of the data, provenance.json says more than options do.
"""


@dataclass(frozen=True)
class Arm:
    """What is compared: a configuration, with a run for each pair of seeds.

    Attributes:
        label: what its configuration files are called, and its options where that doesn't tell arms apart.
        runs: seeds of weights and data → run.
    """

    label: str
    runs: dict[Seeds, Run]

    def paired(self, reference: "Arm") -> list[tuple[Run, Run]]:
        """Own run and the reference's of every pair of seeds that both have."""
        return [(self.runs[seeds], reference.runs[seeds]) for seeds in self.runs if seeds in reference.runs]


def arms(runs: Iterable[Run], given: Mapping[Path, str] | None = None) -> list[Arm]:
    """Groups runs by configuration, in the order given.

    Args:
        runs: the runs.
        given: run folder → label of its arm; None to name arms by what they differ in.

    Raises:
        InputError: two runs of an arm have the same seeds, or other options.
    """
    groups: dict[Hashable, dict[Seeds, Run]] = {}
    for run in runs:
        group = groups.setdefault(identity(run) if given is None else given[run.folder], {})
        first = next(iter(group.values()), run)
        if identity(first) != identity(run):
            raise InputError(
                f"{run.folder}: has other options than {first.folder} of the same arm "
                f"({differences(relevant(run), [relevant(first)])})."
            )
        other = group.setdefault(run.seeds, run)
        if other.folder != run.folder:
            raise InputError(
                f"{run.folder}: the same configuration and seeds as {other.folder}. Leave one of them out."
            )
    members = [dict(sorted(group.items())) for group in groups.values()]
    firsts = [next(iter(group.values())) for group in members]
    names = labels(firsts) if given is None else [given[run.folder] for run in firsts]
    return [Arm(label, group) for label, group in zip(names, members, strict=True)]


def identity(run: Run) -> Hashable:
    """What runs of one arm have in common."""
    return tuple(sorted((name, repr(value)) for name, value in relevant(run).items()))


def relevant(run: Run) -> dict[str, Any]:
    """What decides what a run learns: its options, and of the data what they came to, wherever they lie."""
    dropped = tuple(f"{name}." for name in IRRELEVANT)
    options = {
        name: value
        for name, value in run.settings.items()
        if name not in IRRELEVANT and not name.startswith(dropped)
    }
    facts = {f"data.{name}": fact for name, fact in run.provenance["data"].items() if name != "data_seed"}
    return options | facts


def labels(runs: Sequence[Run]) -> list[str]:
    """A name for each of several runs that tells them apart, as short as possible."""
    files = [run.configurations for run in runs]
    shared = set.intersection(*map(set, files)) if len(runs) > 1 else set()
    names = ["-".join(name for name in own if name not in shared) or "-".join(own) or "run" for own in files]
    counts = Counter(names)
    options = [relevant(run) for run in runs]
    found = []
    for name, own in zip(names, options, strict=True):
        rivals = [other for other, rival in zip(options, names, strict=True) if rival == name]
        found.append(name if counts[name] == 1 else f"{name} ({differences(own, rivals)})")
    return found


def differences(own: dict[str, Any], rivals: Sequence[dict[str, Any]]) -> str:
    """The options in which one of several configurations differs from any other."""
    keys = sorted({key for rival in rivals for key in {**own, **rival} if own.get(key) != rival.get(key)})
    shorts = Counter(key.rsplit(".", 1)[-1] for key in keys)
    told = []
    for key in keys:
        short = key.rsplit(".", 1)[-1]
        told.append(f"{short if shorts[short] == 1 else key}={own.get(key)}")
    return ", ".join(told)
