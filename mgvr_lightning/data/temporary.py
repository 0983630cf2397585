"""Names for what is written aside and renamed when it is complete."""

from pathlib import Path
from uuid import uuid4


def aside(path: Path) -> Path:
    """Return a hidden name beside ``path`` that nobody else uses, on no machine."""
    return path.with_name(f".{path.name}-{uuid4().hex[:12]}")
