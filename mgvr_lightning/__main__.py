"""`python -m mgvr_lightning …`."""

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module

COMMANDS = ("benchmark", "compare", "core", "memory", "prepare", "report", "study")
"""Those that aren't LightningCLI's; each is a module of `commands`."""

NOISE = (
    "`isinstance\\(treespec, LeafSpec\\)`",
    "does not have many workers",  # tokens are read from memory maps
    "no logger configured",  # validate prints a table
    "is not resumable",  # batches are a function of the step
    "Checkpoint directory .* exists and is not empty",  # a resumed run goes on in its folder
    "Be aware that when using `ckpt_path`, callbacks used to create the checkpoint",  # fit has more of them
)
"""Warnings of libraries that don't apply here."""


def main() -> None:
    """Runs the command line; what the user can set right is told in a few lines, without a traceback."""
    os.environ.setdefault("JSONARGPARSE_DEPRECATION_WARNINGS", "off")
    for message in NOISE:
        warnings.filterwarnings("ignore", message=f".*{message}")
    for name in ("lightning.pytorch.utilities.rank_zero", "lightning.fabric.utilities.rank_zero"):
        logging.getLogger(name).addFilter(lambda record: "Tip: " not in record.getMessage())

    from lightning.fabric.utilities.exceptions import MisconfigurationException  # noqa: PLC0415

    from mgvr_lightning.errors import InputError  # noqa: PLC0415  (the filters come first)

    try:
        if sys.argv[1:2] and sys.argv[1] in COMMANDS:
            import_module(f"mgvr_lightning.commands.{sys.argv[1]}").main(sys.argv[2:])
        else:
            from mgvr_lightning.cli import CommandLine  # noqa: PLC0415

            CommandLine()
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(130)
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except (ValueError, MisconfigurationException) as error:
        # jsonargparse wraps what a constructor raises
        told = next((cause for cause in causes(error) if isinstance(cause, InputError)), error)
        if not isinstance(told, InputError | MisconfigurationException):
            raise
        if os.environ.get("LOCAL_RANK", "0") == os.environ.get("RANK", "0") == "0":
            sys.stderr.write(f"error: {told}\n")
        sys.exit(2)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and those that it was raised from."""
    while error is not None:
        yield error
        error = error.__cause__


if __name__ == "__main__":
    main()
