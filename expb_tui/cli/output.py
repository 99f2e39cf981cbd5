"""The only writer of standard output: tables, JSON, YAML and plain lines, cleaned where a terminal reads them."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any, Literal

from expb_tui.cli import diagnostics
from expb_tui.core.errors import ExpbError, UsageError
from expb_tui.core.text import clean, in_ascii, lacks_signs, speaks_ascii_only

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from expb_tui.present.cells import Cell, Glyphs, Table

Format = Literal["table", "wide", "json", "yaml"]
_SPELLINGS: dict[str, Format] = {"table": "table", "wide": "wide", "json": "json", "yaml": "yaml", "yml": "yaml"}
FORMATS = tuple(_SPELLINGS)

GAP = "   "

_UNUSUAL = re.compile(r"[^\x20-\x7e\n]")
_SURROGATE = re.compile("[\ud800-\udfff]")

_INK = {"ok": "32", "warn": "33", "bad": "31", "info": "36", "accent": "1", "dim": "2", "link": "4"}
"""SGR parameters by tone; the sixteen colours are the terminal's own."""


def parse_format(text: str | None) -> Format:
    """The output format that a word names; ``table`` where there is none. Raises ``UsageError``."""
    if text is None:
        return "table"
    try:
        return _SPELLINGS[text.strip().lower()]
    except KeyError:
        raise UsageError(f"unknown output format {text!r}", next_step="Use table, wide, json or yaml") from None


def _hostile(char: str) -> bool:
    return clean(char, multiline=True) != char


def _json_escape(match: re.Match[str]) -> str:
    char = match.group()
    if not _hostile(char) or char == "\t":
        return char
    pairs = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{pairs[index] << 8 | pairs[index + 1]:04x}" for index in range(0, len(pairs), 2))


def _yaml_escape(match: re.Match[str]) -> str:
    char = match.group()
    if not _hostile(char):
        return char
    return f"\\u{ord(char):04X}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08X}"


def json_text(data: Any, *, terminal: bool, ascii_only: bool = False) -> str:
    """Tab-indented JSON. For a terminal, what could steer it or cannot be shown is escaped, which loses nothing."""
    import json

    text = json.dumps(data, indent="\t", ensure_ascii=ascii_only)
    # A lone surrogate cannot be written as UTF-8 anywhere, so it is escaped in pipes too.
    return (_UNUSUAL if terminal else _SURROGATE).sub(_json_escape, text) + "\n"


def yaml_text(data: Any, *, terminal: bool, ascii_only: bool = False) -> str:
    """Block-style YAML, two spaces, keys in the order of the JSON."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Long text in literal blocks; what could steer a terminal, or is folded, in double quotes, to be escaped."""

    def text_node(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = None
        if any(_hostile(found) for found in _UNUSUAL.findall(value)):
            style = '"'
        elif "\n" in value:
            style = "|"
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text_node)
    text = yaml.dump(
        data,
        Dumper=Dumper,
        sort_keys=False,
        default_flow_style=False,
        indent=2,
        allow_unicode=not ascii_only,
        width=1 << 30,
    )
    return (_UNUSUAL if terminal else _SURROGATE).sub(_yaml_escape, str(text))


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def _inked(cell: Cell, text: str, *, colour: bool) -> str:
    ink = _INK.get(cell.tone)
    return f"\x1b[{ink}m{text}\x1b[0m" if colour and ink and text.strip() else text


def table_lines(table: Table, *, colour: bool = False) -> list[str]:
    """Borderless: upper-case headers, columns padded by three spaces, then the footer; an empty table is its footer."""
    lines: list[str] = []
    if table.rows:
        heads = [column.title.upper() for column in table.columns]
        widths = [
            max([_width(head), *(_width(row.cells[place].text) for row in table.rows)])
            for place, head in enumerate(heads)
        ]
        lines.append(GAP.join(head.ljust(width) for head, width in zip(heads, widths, strict=True)).rstrip())
        for row in table.rows:
            parts = []
            for cell, width in zip(row.cells, widths, strict=True):
                parts.append(_inked(cell, cell.text, colour=colour) + " " * (width - _width(cell.text)))
            lines.append(GAP.join(parts).rstrip())
    if table.footer:
        lines.append(table.footer)
    return lines


def _put(text: str) -> None:
    """Raises ``ExpbError`` where standard output takes nothing."""
    if cause := _lost(text):
        raise ExpbError(
            "Standard output cannot be written",
            cause=cause,
            next_step="Only the words are lost: what the command has changed stays so; look before you repeat it",
            code="output",
        )


def _lost(text: str) -> str:
    """Why the text was not written; empty where it was.

    A reader that has seen enough, such as ``head``, is no failure: the command goes on, and ends, as without it.
    """
    if sys.stdout is None:
        return "it is closed"
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        diagnostics.discard(sys.stdout)
    except OSError as error:
        diagnostics.discard(sys.stdout)
        return error.strerror or type(error).__name__
    return ""


class Output:
    """Standard output in the format that was asked for."""

    def __init__(self, form: Format = "table") -> None:
        self.format = form

    @property
    def structured(self) -> bool:
        """Whether programs read it: JSON or YAML."""
        return self.format in ("json", "yaml")

    @property
    def wide(self) -> bool:
        """Whether tables show every column."""
        return self.format == "wide"

    @property
    def terminal(self) -> bool:
        """Whether a terminal shows it."""
        return diagnostics.terminal(sys.stdout)

    @property
    def unicode(self) -> bool:
        """Whether every character can be written. A terminal is believed what its locale says, whatever Python does."""
        if self.terminal and speaks_ascii_only(os.environ):
            return False
        return sys.stdout is None or (sys.stdout.encoding or "utf-8").lower().startswith("utf")

    @property
    def glyphs(self) -> Glyphs:
        """The signs that can be written, and that the person's locale shows."""
        from expb_tui.present.cells import ASCII, UNICODE

        few = speaks_ascii_only(os.environ) or (self.terminal and lacks_signs(os.environ))
        return UNICODE if self.unicode and not few else ASCII

    def _write(self, text: str) -> None:
        if not self.unicode:
            encoding = sys.stdout.encoding
            text = in_ascii(text) if self.terminal else text.encode(encoding, "replace").decode(encoding)
        _put(text)

    def data(self, data: Any) -> None:
        """Structured output of an answer as given."""
        make = yaml_text if self.format == "yaml" else json_text
        self._write(make(data, terminal=self.terminal, ascii_only=self.terminal and not self.unicode))

    def line_of_json(self, data: Any) -> None:
        """One object on one line, for a program that reads the first line of something that goes on."""
        import json

        self._write(json.dumps(data) + "\n")

    @property
    def colour(self) -> bool:
        """Whether tones are shown in colour."""
        return self.terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"

    @property
    def columns(self) -> int | None:
        """The width of the terminal that shows it; None where programs read it."""
        if not self.terminal:
            return None
        from shutil import get_terminal_size

        return get_terminal_size().columns

    def toned(self, lines: Iterable[Sequence[Cell]]) -> None:
        """Lines of pieces; they are cleaned by their presenters."""
        colour = self.colour
        text = "\n".join("".join(_inked(cell, cell.text, colour=colour) for cell in line).rstrip() for line in lines)
        self._write(text + "\n")

    def table(self, table: Table) -> None:
        """A table; cells are cleaned by their presenters."""
        lines = table_lines(table, colour=self.colour)
        if lines:
            self._write("\n".join(lines) + "\n")

    def show(self, data: Callable[[], Any], table: Callable[[], Table]) -> None:
        """Whichever of the two the format asks for; the other is not made."""
        if self.structured:
            self.data(data())
        else:
            self.table(table())

    def lines(self, lines: Iterable[str]) -> None:
        """Plain lines for a person, cleaned."""
        for line in lines:
            self._write(clean(line) + "\n")

    def text(self, text: str) -> None:
        """Text of our own: help, completion scripts."""
        self._write(text.rstrip("\n") + "\n")
