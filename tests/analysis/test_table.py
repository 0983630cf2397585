import pytest

from mgvr_lightning.analysis.table import Table

TABLE = Table(
    "A title",
    ("arm", "steps saved", "effective compute", "nats", "bits/byte", "verdict"),
    [("a_rather_long_label", "14.8%\n12.4% to 17.1%", "1.139\n1.108 to 1.171", "-0.060", "a|b", "<lower>")],
    "A note that is longer than any terminal is wide, so that it has to be broken into lines somewhere.",
)


@pytest.mark.parametrize("width", [80, 100])
def test_a_terminal_is_never_overrun(width: int) -> None:
    lines = TABLE.text(width).splitlines()
    assert max(map(len, lines)) <= width
    assert any("a_rather_long_label" in line for line in lines)
    assert "\x1b" not in TABLE.text(width)


def test_markdown_keeps_one_line_a_row() -> None:
    head, rule, row, _, note = TABLE.markdown().splitlines()
    assert head.startswith("| arm | steps saved |")
    assert rule.count("---:") == 5
    assert "14.8%<br>12.4% to 17.1%" in row
    assert "a\\|b" in row
    assert note.startswith("A note")


def test_html_is_escaped() -> None:
    assert "&lt;lower&gt;" in TABLE.html()
    assert "14.8%<br>12.4% to 17.1%" in TABLE.html()
