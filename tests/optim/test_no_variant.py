"""Nothing outside the value paths knows a variant's name."""

import inspect
import re
from pathlib import Path

import pytest
from helpers import PRESETS

import mgvr_lightning
from mgvr_lightning import values
from mgvr_lightning.values import Gate, Mix, Source

PACKAGE = Path(mgvr_lightning.__file__).parent
PARTS = sorted(
    name
    for name, part in vars(values).items()
    if inspect.isclass(part) and issubclass(part, Source | Gate | Mix) and not inspect.isabstract(part)
)
CODE = [*(PACKAGE / "optim").glob("*.py"), *(PACKAGE / "model").glob("*.py"), PACKAGE / "module.py"]


@pytest.mark.parametrize("path", CODE, ids=lambda path: path.name)
def test_code_of_network_and_optimizer_names_no_variant(path: Path) -> None:
    words = set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    assert len(PARTS) > 10
    assert not words & set(PARTS)
    assert not words & {preset for preset in PRESETS if preset not in ("transformer", "share")}
