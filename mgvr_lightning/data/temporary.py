"""Names for what is written aside and renamed when it is complete."""

import os
import socket
from pathlib import Path


def aside(path: Path) -> Path:
    """Return a hidden name beside ``path`` that no other process on any machine uses."""
    return path.with_name(f".{path.name}-{socket.gethostname()}-{os.getpid()}")
