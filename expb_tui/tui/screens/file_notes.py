"""What is known of the files that a form names, read before anything is sent, so that digests can be looked at."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from expb_tui.core.errors import UsageError
from expb_tui.core.submissions import evidence
from expb_tui.core.submissions.fields import Field, Form, Kind
from expb_tui.core.text import clean
from expb_tui.present.cells import Cell, Glyphs, Tone
from expb_tui.tui.widgets.lines import Line


class FileNotes:
    """A line for every file of the form, by field and path. ``on_change`` is called after each that was read."""

    def __init__(self, form: Form, glyphs: Glyphs, on_change: Callable[[], None]) -> None:
        self._form = form
        self._glyphs = glyphs
        self._tell = on_change
        self._lines: dict[tuple[str, str], Line] = {}
        self._stop = threading.Event()

    def stop(self) -> None:
        """Give up reading."""
        self._stop.set()

    def _named(self, values: Mapping[str, Any]) -> Iterator[tuple[Field, list[str]]]:
        """Every visible field that names files, with their paths; the empty path where none is named yet."""
        for one in self._form.visible(values):
            if one.kind is Kind.FILE:
                yield one, [str(values.get(one.key) or "")]
            elif one.kind is Kind.FILES:
                yield one, [str(row.get("path") or "") for row in values.get(one.key) or ()]

    async def read(self, values: Mapping[str, Any]) -> None:
        """Read the files that are not known yet, and again those that could not be read."""
        for one, named in list(self._named(values)):
            for path in named:
                known = self._lines.get((one.key, path))
                if not path or (known and known[0].tone is Tone.OK):
                    continue
                self._lines[one.key, path] = (Cell("reading the file", Tone.DIM),)
                self._tell()
                self._lines[one.key, path] = await asyncio.to_thread(self._line, path)
                self._tell()

    def _line(self, path: str) -> Line:
        try:
            facts = evidence.facts_of(path, folder=Path.cwd(), stop=self._stop)
        except UsageError as error:
            return (Cell(f"{self._glyphs.bad} {clean(error.lines()[0])}", Tone.BAD),)
        return (
            Cell(f"{self._glyphs.ok} {facts.size:,} bytes, {clean(facts.media_type)}, sha256 ", Tone.OK),
            Cell(facts.sha256, Tone.DIM),
        )

    def of_rows(self, values: Mapping[str, Any]) -> dict[str, list[Line]]:
        """For fields that repeat: a line for each entry, empty where nothing is known."""
        return {
            one.key: [self._lines.get((one.key, path), ()) for path in named]
            for one, named in self._named(values)
            if one.kind is Kind.FILES
        }

    def of_fields(self, values: Mapping[str, Any]) -> dict[str, Line]:
        """For single files."""
        return {
            one.key: self._lines.get((one.key, named[0]), ())
            for one, named in self._named(values)
            if one.kind is Kind.FILE
        }
