"""`python -m mgvr_lightning …`."""

import os
import sys
import warnings


def main() -> None:
    """Runs the command line; what the user can set right is told in a few lines, without a traceback."""
    os.environ.setdefault("JSONARGPARSE_DEPRECATION_WARNINGS", "off")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=FutureWarning)
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*no logger configured.*")

    from mgvr_lightning.cli import CommandLine  # noqa: PLC0415  (the filters come first)
    from mgvr_lightning.errors import InputError  # noqa: PLC0415

    try:
        CommandLine()
    except InputError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
