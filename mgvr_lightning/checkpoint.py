"""A checkpoint file, before anything is built from it."""

from pathlib import Path

import torch

from mgvr_lightning.errors import InputError

RUNS = "checkpoints"


def check_checkpoint(path: Path) -> int:
    """Refuses what isn't a checkpoint before anything else is done.

    Returns:
        The number of optimizer steps that it was made after.

    Raises:
        InputError: the file is missing, or isn't a checkpoint of plain tensors and plain types.
    """
    if not path.is_file():
        raise InputError(
            f"{path}: no checkpoint here. Runs keep theirs in {RUNS}/NAME/version_K/checkpoints/."
        )
    try:
        step: int = torch.load(path, map_location="meta", weights_only=True, mmap=True)["global_step"]
    except Exception as error:  # torch.load raises what its parsers do
        raise InputError(
            f"{path}: not a checkpoint, or one that holds more than tensors and plain types. "
            f"Runs keep theirs in {RUNS}/NAME/version_K/checkpoints/."
        ) from error
    return step
