"""Profiles as rows: the listing of ``profile list`` (contract, section 5) and the profiles pane."""

from __future__ import annotations

from collections.abc import Container, Iterable
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from expb_tui.present.cells import MISSING, UNICODE, Cell, Column, Glyphs, Row, Table, Tone, cell, columns, shown
from expb_tui.present.times import Words, expiry

if TYPE_CHECKING:
    from expb_tui.core.profiles.store import Profile, Profiles

_EXPIRY_TONES = {"signed out": Tone.DIM, "expired": Tone.WARN}

LISTING = columns(("NAME", "DEFAULT", "TYPE", "SCOPE", "ENDPOINT", "PROJECT", "EXPIRES"))
LISTING_WIDE = columns(("NAME", "DEFAULT", "TYPE", "SCOPE", "ENDPOINT", "ACCOUNT", "PROJECT", "AGENT", "EXPIRES"))


def signed_out(profile: Profile) -> bool:
    """Neither a credential nor an expiry."""
    return not profile.signed_in and profile.expires_at is None


def expires(profile: Profile, now: datetime) -> Words:
    """EXPIRES of the contract: ``signed out``, ``-``, ``expired`` or ``in 12m``."""
    return Words("signed out", None) if signed_out(profile) else expiry(profile.expires_at, now)


def listing(
    profiles: Iterable[Profile], default: str | None, now: datetime, *, wide: bool = False, footer: bool = True
) -> Table:
    """``profile list`` and ``profile show``: sorted by name."""
    rows = []
    for profile in sorted(profiles, key=lambda profile: profile.name):
        words = expires(profile, now)
        by_title = {
            "NAME": cell(profile.name, Tone.ACCENT),
            "DEFAULT": cell("*" if profile.name == default else None),
            "TYPE": cell(profile.type),
            "SCOPE": cell(profile.scope),
            "ENDPOINT": cell(profile.endpoint),
            "ACCOUNT": cell(profile.account_id),
            "PROJECT": cell(profile.project_name or profile.project_id),
            "AGENT": cell(profile.agent_id),
            "EXPIRES": cell(words.text, _EXPIRY_TONES.get(words.text, Tone.TEXT)),
        }
        titles = LISTING_WIDE if wide else LISTING
        rows.append(Row(profile.name, tuple(by_title[column.title] for column in titles), words.next_change))
    return Table(LISTING_WIDE if wide else LISTING, tuple(rows), shown(len(rows)) if footer else "")


def state(profile: Profile, now: datetime, glyphs: Glyphs = UNICODE, *, refused: bool = False) -> Cell:
    """Whether the profile can act: ``signed in``, ``refused`` (by the service), ``expired`` (and not refreshable),
    ``signed out``; with a sign."""
    if signed_out(profile):
        return Cell(f"{glyphs.idle} signed out", Tone.DIM)
    if refused:
        return Cell(f"{glyphs.bad} refused", Tone.BAD)
    over = profile.expires_at is not None and profile.expires_at <= now
    # A user's access token is replaced with the refresh token, unseen; the keyring is not asked at each repaint.
    if over and (profile.is_agent or not (profile.refresh_token or profile.in_keyring)):
        return Cell(f"{glyphs.warn} expired", Tone.WARN)
    return Cell(f"{glyphs.ok} signed in", Tone.OK)


def host(endpoint: str) -> str:
    """An endpoint for a narrow column: host, port and path without the scheme."""
    parts = urlsplit(endpoint)
    return (parts.netloc + parts.path) or endpoint


PANE = (
    Column("", 1),
    Column("NAME", 14),
    Column("STATE", 12),
    Column("TYPE", 5),
    Column("PROJECT", 18),
    Column("ENDPOINT", 24),
    Column("EXPIRES", 10),
    Column("SECRET", 7),
    Column("ACCOUNT", 36),
)


def pane(
    profiles: Profiles,
    now: datetime,
    *,
    selected: str | None = None,
    refused: Container[str] = (),
    glyphs: Glyphs = UNICODE,
) -> Table:
    """The profiles pane, most important columns first: a face leaves out the last ones where there is no room.

    ``selected`` is the profile that the cockpit acts as, ``refused`` are those whose credential the service does not
    accept; the default carries ``*`` in its name.
    """
    rows = []
    for name in sorted(profiles.by_name):
        profile = profiles.by_name[name]
        words = expires(profile, now)
        cells = (
            Cell(glyphs.live if name == selected else " ", Tone.ACCENT),
            cell(f"{name} *" if name == profiles.default else name, Tone.ACCENT if name == selected else Tone.TEXT),
            state(profile, now, glyphs, refused=name in refused),
            cell(profile.type, Tone.INFO if profile.is_agent else Tone.TEXT),
            cell(profile.project_name or profile.project_id),
            cell(host(profile.endpoint), Tone.DIM),
            cell(MISSING if words.text == "signed out" else words.text, Tone.DIM),
            cell(profile.secret_place, Tone.DIM),
            cell(profile.account_id, Tone.DIM),
        )
        rows.append(Row(name, cells, words.next_change))
    return Table(PANE, tuple(rows), shown(len(rows), noun="profiles"))


def details(
    profile: Profile, now: datetime, *, default: bool, refused: bool = False, glyphs: Glyphs = UNICODE
) -> Table:
    """One profile as label and value, without credentials."""
    words = expires(profile, now)
    pairs = (
        ("profile", cell(profile.name, Tone.ACCENT)),
        ("default", cell("yes" if default else "no")),
        ("state", state(profile, now, glyphs, refused=refused)),
        ("type", cell(profile.type)),
        ("scope", cell(profile.scope)),
        ("endpoint", cell(profile.endpoint, Tone.LINK)),
        ("account", cell(profile.account_id)),
        ("agent", cell(profile.agent_id)),
        ("project", cell(profile.project_name or profile.project_id)),
        ("project id", cell(profile.project_id)),
        ("expires", cell(words.text)),
        ("secret kept in", cell(profile.kept_in)),
    )
    rows = tuple(Row(label, (Cell(label, Tone.DIM), value)) for label, value in pairs)
    return Table((Column("", 14), Column("")), rows)
