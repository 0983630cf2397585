"""A document of texts, tables and pictures."""

from base64 import b64encode
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from mgvr_lightning.analysis.table import Table

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; margin: 2rem 0 .6rem; }
h2 { border-bottom: 1px solid #ddd; padding-bottom: .2rem; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #eee; text-align: right; vertical-align: top; }
th:first-child, td:first-child { text-align: left; white-space: pre; }
.texts th, .texts td { text-align: left; }
thead th { border-bottom: 1px solid #999; }
img { max-width: 100%; height: auto; display: block; }
p { color: #555; max-width: 46rem; }
.scroll { overflow-x: auto; }
"""


@dataclass(frozen=True)
class Picture:
    """A picture with what it shows.

    Attributes:
        name: of its files.
        caption: what it shows.
        kinds: `svg` and `png`.
    """

    name: str
    caption: str
    kinds: dict[str, bytes]


@dataclass
class Document:
    """Headings, texts, tables and pictures, in order.

    Attributes:
        title: of the whole.
    """

    title: str
    parts: list[tuple[int, str] | str | Table | Picture] = field(default_factory=list)

    def heading(self, text: str, level: int = 2) -> None:
        """Adds a heading."""
        self.parts.append((level, text))

    def add(self, *parts: str | Table | Picture) -> None:
        """Adds paragraphs, tables and pictures."""
        self.parts += parts

    def html(self) -> str:
        """One page that needs no other file."""
        body = "\n".join(_html(part) for part in self.parts)
        return (
            f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
            f"<h1>{escape(self.title)}</h1>\n{body}\n</body>\n</html>\n"
        )

    def markdown(self) -> str:
        """Markdown, with pictures under figures/."""
        return f"# {self.title}\n\n" + "\n".join(_markdown(part) for part in self.parts)

    def write(self, folder: Path) -> None:
        """Writes report.html, report.md and figures/."""
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        (folder / "report.html").write_text(self.html(), encoding="utf-8")
        (folder / "report.md").write_text(self.markdown(), encoding="utf-8")
        for part in self.parts:
            if isinstance(part, Picture):
                for kind, content in part.kinds.items():
                    (folder / "figures" / f"{part.name}.{kind}").write_bytes(content)


def _html(part: tuple[int, str] | str | Table | Picture) -> str:
    if isinstance(part, str):
        return f"<p>{escape(part)}</p>"
    if isinstance(part, Table):
        return f'<h3>{escape(part.title)}</h3>\n<div class="scroll">\n{part.html()}</div>'
    if isinstance(part, Picture):
        source = f"data:image/svg+xml;base64,{b64encode(part.kinds['svg']).decode()}"
        return f'<h3>{escape(part.caption)}</h3>\n<img alt="{escape(part.caption)}" src="{source}">'
    level, text = part
    return f"<h{level}>{escape(text)}</h{level}>"


def _markdown(part: tuple[int, str] | str | Table | Picture) -> str:
    if isinstance(part, str):
        return f"{part}\n"
    if isinstance(part, Table):
        return f"### {part.title}\n\n{part.markdown()}"
    if isinstance(part, Picture):
        return f"### {part.caption}\n\n![{part.caption}](figures/{part.name}.svg)\n"
    level, text = part
    return f"{'#' * level} {text}\n"
