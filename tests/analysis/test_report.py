import re
from pathlib import Path

import pytest
from recorded import recorded, written

from mgvr_lightning.analysis.report.document import Document, Picture
from mgvr_lightning.analysis.table import Table
from mgvr_lightning.commands.report import main
from mgvr_lightning.errors import InputError

STEPS, LOSSES, BETTER = [10.0, 20.0, 30.0], [5.0, 4.0, 3.0], [4.8, 3.8, 2.8]


def folders(place: Path) -> list[str]:
    coefficients = [{"step": 30, "coefficients/gate/layer1": 0.4, "coefficients/gate/layer2": 0.7}]
    runs = [
        recorded(name, seed, STEPS, losses, extra=coefficients if name == "mgvr" else [])
        for name, losses in (("transformer", LOSSES), ("mgvr", BETTER))
        for seed in (0, 1)
    ]
    return [str(written(run, place).folder) for run in runs]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_page_needs_no_other_file_and_markdown_links_its_pictures(tmp_path: Path) -> None:
    main([*folders(tmp_path), "--output", str(tmp_path / "out")])
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["'](?!data:)""", page)
    for word in (
        "Steps saved",
        "Cost",
        "activations, bytes per token",
        "Proof",
        "Made with",
        "Learned coefficients",
    ):
        assert word in page
    text = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    linked = re.findall(r"\]\((figures/[^)]+)\)", text)
    assert {"figures/comparison.svg", "figures/coefficients_mgvr.svg"} <= set(linked)
    assert all((tmp_path / "out" / path).is_file() for path in linked)


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    given = folders(tmp_path)
    for name in ("one", "two"):
        main([*given, "--output", str(tmp_path / name)])
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_the_parts_of_a_document_are_escaped() -> None:
    document = Document("A < B")
    document.heading("x & y", 3)
    document.add(
        "1 < 2", Table("t <", ("a",), [("<b>",)]), Picture("p", "c <", {"svg": b"<svg/>", "png": b""})
    )
    page = document.html()
    for escaped in ("A &lt; B", "x &amp; y", "1 &lt; 2", "t &lt;", "&lt;b&gt;", "c &lt;"):
        assert escaped in page
    assert "<b>" not in page
    assert document.markdown().startswith("# A < B\n\n### x & y\n")


def test_nothing_to_report_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run here"):
        main([str(tmp_path)])
    (tmp_path / "study.json").write_text('{"jobs": [], "arms": [], "question": ""}', encoding="utf-8")
    with pytest.raises(InputError, match="no run of the study has been validated"):
        main([str(tmp_path)])
    with pytest.raises(InputError, match="is a study"):
        main([str(tmp_path), str(tmp_path)])
    (tmp_path / "study.json").write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match=r"study\.json: not readable"):
        main([str(tmp_path)])
