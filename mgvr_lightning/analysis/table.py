"""A table of texts, for the terminal, Markdown and HTML."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO


@dataclass(frozen=True)
class Table:
    """Rows under named columns; a cell may have several lines.

    Attributes:
        title: what it shows.
        columns: names of the columns.
        rows: the cells, the first of which names the row.
        note: what is to be known about it.
        texts: whether all cells are texts, to be read from the left; otherwise all but the first are numbers.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    texts: bool = False

    def text(self, width: int) -> str:
        """For a terminal of so many columns."""
        from rich import box  # noqa: PLC0415  (other commands need not wait for it)
        from rich.console import Console  # noqa: PLC0415
        from rich.table import Table as RichTable  # noqa: PLC0415

        table = RichTable(title=self.title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for index, name in enumerate(self.columns):
            table.add_column(
                name,
                justify="left" if self.texts or not index else "right",
                no_wrap=index == 0,
                overflow="fold",
            )
        for row in self.rows:
            table.add_row(*row)
        buffer = StringIO()
        console = Console(file=buffer, width=width, markup=False, emoji=False, highlight=False)
        console.print(table)
        if self.note:
            console.print(self.note)
        return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"

    def markdown(self) -> str:
        """For Markdown, without the title."""
        lines = [
            _row(self.columns),
            _row(["---", *["---" if self.texts else "---:"] * (len(self.columns) - 1)]),
        ]
        lines += [_row([cell.replace("\n", "<br>").replace("|", "\\|") for cell in row]) for row in self.rows]
        return "\n".join(lines) + "\n" + (f"\n{self.note}\n" if self.note else "")

    def html(self) -> str:
        """For HTML, without the title."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{_lines(cell)}</td>' for cell in row)}</tr>\n" for row in self.rows
        )
        note = f"<p>{escape(self.note)}</p>\n" if self.note else ""
        kind = ' class="texts"' if self.texts else ""
        return f"<table{kind}>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n{note}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _lines(cell: str) -> str:
    return "<br>".join(escape(line) for line in cell.split("\n"))
