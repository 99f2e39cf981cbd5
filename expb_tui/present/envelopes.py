"""Product envelopes as rows: NAME KIND AGE, and more when wide (contract, section 5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from expb_tui.present.cells import Row, Table, Tone, cell, columns
from expb_tui.present.times import since

LISTING = columns(("NAME", "KIND", "AGE"))
LISTING_WIDE = columns(("NAME", "KIND", "UID", "VERSION", "LABELS", "AGE"))


def _instant(value: object) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _labels(value: object) -> str | None:
    if not isinstance(value, Mapping) or not value:
        return None
    return ",".join(f"{key}={value[key]}" for key in value)


def table(envelopes: Iterable[Mapping[str, Any]], now: datetime, *, wide: bool = False, footer: str = "") -> Table:
    """Resources as they came from the server; unknown kinds look like known ones."""
    rows = []
    for envelope in envelopes:
        found = envelope.get("metadata")
        metadata: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
        uid = metadata.get("uid")
        by_title = {
            "NAME": cell(metadata.get("name") or uid, Tone.ACCENT),
            "KIND": cell(envelope.get("kind")),
            "UID": cell(uid),
            "VERSION": cell(metadata.get("version")),
            "LABELS": cell(_labels(metadata.get("labels"))),
            "AGE": cell(since(_instant(metadata.get("creationTimestamp")), now)),
        }
        titles = LISTING_WIDE if wide else LISTING
        rows.append(Row(str(uid or ""), tuple(by_title[column.title] for column in titles)))
    return Table(LISTING_WIDE if wide else LISTING, tuple(rows), footer)
