"""What a study has written down about itself."""

import json
from pathlib import Path
from typing import Any

from mgvr_lightning.errors import InputError

PLAN = "study.json"


def read_plan(folder: Path) -> dict[str, Any]:
    """What study.json holds.

    Raises:
        InputError: it isn't readable.
    """
    try:
        content: dict[str, Any] = json.loads((folder / PLAN).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{folder / PLAN}: not readable ({error}).") from error
    return content


def reported(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs that aren't its pilot's or trials."""
    return [job for job in plan["jobs"] if job["phase"] == "report"]
