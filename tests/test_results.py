"""What is committed under docs/results/ follows from the raw rows beside it."""

from importlib.metadata import version
from pathlib import Path

import pytest

from mgvr_lightning.commands.report import main

ROOT = Path(__file__).parents[1]
STUDIES = sorted(path.parent for path in (ROOT / "docs" / "results").glob("*/study.json"))
DRAWN_WITH = "matplotlib==" + version("matplotlib")


def test_there_are_studies() -> None:
    assert STUDIES


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.name)
def test_a_committed_report_is_written_again_to_the_byte(study: Path, tmp_path: Path) -> None:
    if DRAWN_WITH not in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        pytest.skip(f"pictures were drawn with another version than {DRAWN_WITH}")
    main([str(study), "--output", str(tmp_path)])
    for path in (path for path in (study / "report").rglob("*") if path.is_file()):
        assert path.read_bytes() == (tmp_path / path.relative_to(study / "report")).read_bytes(), path.name
