"""Text for tests, and folders that last as long as the test process; imports nothing heavy."""

import json
import random
from pathlib import Path
from tempfile import TemporaryDirectory

KEPT: list[TemporaryDirectory[str]] = []


def kept_folder(prefix: str) -> Path:
    """A folder that is deleted when the process ends."""
    KEPT.append(TemporaryDirectory(prefix=prefix))
    return Path(KEPT[-1].name)


def texts(count: int = 150, seed: int = 0) -> list[str]:
    """Word soup."""
    generator = random.Random(seed)
    words = ["".join(generator.choices("abcdefghij", k=generator.randint(2, 6))) for _ in range(60)]
    return [" ".join(generator.choices(words, k=40)) for _ in range(count)]


def write_documents(path: Path, documents: list[str]) -> Path:
    """Writes JSON Lines."""
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents), encoding="utf-8")
    return path
