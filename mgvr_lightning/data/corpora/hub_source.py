"""Which files a data set of the Hugging Face hub, or of a folder, is made of."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from traceback import walk_tb
from typing import Any

from mgvr_lightning.errors import InputError

_COMMIT = re.compile(r"[0-9a-f]{40}")
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_PACKED = {".bz2", ".lz4", ".xz", ".zip", ".tar", ".tgz", ".7z", ".rar"}
_CACHED = "Cache"
_MISTAKES = (AssertionError, AttributeError, NameError, TypeError)


@dataclass(frozen=True)
class Source:
    """One split of a data set.

    Attributes:
        where: The data set, configuration and split, for people.
        module: The name of the builder of `datasets` for its format, such as ``parquet``.
        split: The split.
        files: The split's data files: paths, or URLs that name the commit.
        bytes: What the split takes in memory with all columns, if the data set tells; else 0.
        load: What `datasets.load_dataset` gets to load the whole data set.
    """

    where: str
    module: str
    split: str
    files: tuple[str, ...]
    bytes: int
    load: dict[str, Any] = field(repr=False)


def library() -> Any:
    """Import `datasets` (a second, which only this needs) and have it and the hub's client be silent."""
    import datasets  # noqa: PLC0415
    from huggingface_hub.utils.logging import set_verbosity  # noqa: PLC0415
    from huggingface_hub.utils.tqdm import disable_progress_bars  # noqa: PLC0415

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # faults are told once, by `telling`
    disable_progress_bars()
    set_verbosity(logging.CRITICAL)
    return datasets


@contextmanager
def telling(where: str) -> Iterator[None]:
    """Turn whatever `datasets` raises into an ``InputError`` that says what it was about.

    A mistake in this package's own code passes as it is.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # from dozens of packages: network, file systems, formats, YAML
        if isinstance(error, _MISTAKES) and _is_ours(error):
            raise
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        reason = (str(cause).strip().splitlines() or [""])[0].rstrip(".")
        raise InputError(
            f"cannot read {where}: {type(cause).__name__}: {reason}.\n"
            "The data set is damaged, incomplete or of a format that isn't read, or the network failed; try "
            "again, or give its files to `Files`."
        ) from error


def _is_ours(error: Exception) -> bool:
    """Tell whether this package's own code raised it, rather than what that code called."""
    raised = ""
    for frame, _ in walk_tb(error.__traceback__):
        raised = str(frame.f_globals.get("__name__", ""))
    return raised.partition(".")[0] == __name__.partition(".")[0]


def folder(name: str) -> Path | None:
    """Return the local folder of that name, if there is one.

    Raises:
        InputError: If the name can be neither a folder's nor a data set's.
    """
    path = Path(name).expanduser()
    if name and path.is_dir():
        return path
    if not name or path.exists() or not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} is neither a folder nor the name of a data set.\n"
            "Give a name such as HuggingFaceFW/fineweb-edu, or a folder; for single files use `Files`."
        )
    return None


def commit(name: str, revision: str | None) -> str:
    """Return the commit that a revision of a data set stands for; one that is a commit is taken as it is.

    Raises:
        InputError: If the hub cannot be asked, or there is no such data set or revision.
    """
    if revision is not None and _COMMIT.fullmatch(revision):
        return revision
    import huggingface_hub as hub  # noqa: PLC0415

    library()
    at = f" at revision {revision!r}" if revision else ""
    try:
        found = hub.HfApi().dataset_info(name, revision=revision).sha
    except hub.errors.GatedRepoError as error:
        raise InputError(
            f"the data set {name} asks for consent.\nAccept its terms on https://huggingface.co/datasets/{name}"
            " and log in with `hf auth login`."
        ) from error
    except (hub.errors.RepositoryNotFoundError, hub.errors.RevisionNotFoundError) as error:
        raise InputError(
            f"the hub has no data set {name}{at}, or it is private.\n"
            "Check the name and `revision`, or log in with `hf auth login`."
        ) from error
    except Exception as error:  # the network fails in many ways
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise InputError(
            f"cannot ask the hub which commit the data set {name}{at} is: {reason}.\n"
            "Check the network, or pin `revision` to a commit (40 hex digits) to work offline."
        ) from error
    assert found is not None
    return str(found)


def download(url: str) -> str:
    """Bring a file of the hub to the cache of Hugging Face, unless it is there; return its path."""
    import huggingface_hub as hub  # noqa: PLC0415

    found: Any = hub.HfFileSystem().resolve_path(url)
    return str(
        hub.hf_hub_download(found.repo_id, found.path_in_repo, repo_type="dataset", revision=found.revision)
    )


def resolve(
    name: str, config: str | None, split: str, revision: str | None, shards: int | None = None
) -> Source:
    """Find the files of a split, without reading them.

    Args:
        name: Of the data set, or a folder's path.
        config: The configuration; None for the only or default one.
        split: The split.
        revision: The commit; None for a folder.
        shards: How many of its files to take, the first ones; None for all.

    Raises:
        InputError: If the data set cannot be reached, or has no such configuration or split.
    """
    datasets = library()
    load = {"path": name, "name": config, "revision": revision}
    with telling(f"the data set {name}"):
        try:
            builder = datasets.load_dataset_builder(**load)
        except ValueError as error:
            names = datasets.get_dataset_config_names(name, revision=revision)
            if config in names or (config is None and len(names) == 1):
                raise
            asked = f"no configuration {config!r}" if config else "several configurations"
            raise InputError(
                f"the data set {name} has {asked}; there are: {', '.join(names)}.\n"
                "Choose one by the option `config`."
            ) from error
        if type(builder).__name__ == _CACHED or not builder.config.data_files:
            raise InputError(
                f"the data set {name} cannot be reached: the hub didn't answer for commit {revision}.\n"
                "Check the network. What was prepared from this commit before needs no network."
            )
    where = f"{name}, config {builder.config.name}, split {split}"
    files = builder.config.data_files
    if split not in files:
        raise InputError(
            f"the data set {name}, config {builder.config.name}, has no split {split!r}; there are: "
            f"{', '.join(map(str, files))}.\nChoose one by the option `split`."
        )
    if getattr(builder.config, "sample_by", "line") != "line":
        raise InputError(
            f"{where} is text by the {builder.config.sample_by}, but only text by the line is read.\n"
            "Download its files and give them to `Files`, where each is a document."
        )
    every = tuple(map(str, files[split]))
    paths = every[:shards]
    for path in paths:
        if Path(path).suffix.lower() in _PACKED:
            raise InputError(
                f"{where}: {path} is packed in a way that isn't read.\nUnpack it, or pack it as .gz or .zst."
            )
    known = (builder.info.splits or {}).get(split)
    size = int(getattr(known, "num_bytes", 0) or 0) * len(paths) // max(1, len(every))
    return Source(where, str(builder.name), split, paths, size, load)
