"""Cleaning text from outside before a person sees it (hazards.md 17), words for durations, and what a locale shows."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import timedelta

_HOSTILE_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn"}
_PLAIN = re.compile(r"[\x20-\x7e]*\Z")
_CONTROL_PICTURES = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "\u2421"}


def clean(text: str, *, multiline: bool = False) -> str:
    """``text`` with everything that could steer a terminal shown as a symbol.

    Controls become control pictures; bidirectional and other format characters, line and paragraph
    separators, surrogates and unassigned code points become ``\N{REPLACEMENT CHARACTER}``. With ``multiline``
    line feeds stay (CR LF becomes LF) and tabs become four spaces; otherwise both become a space.
    """
    if _PLAIN.match(text):
        return text
    text = text.replace("\r\n", "\n")
    out: list[str] = []
    for char in text:
        if char == "\n":
            out.append("\n" if multiline else " ")
        elif char == "\t":
            out.append("    " if multiline else " ")
        elif (picture := _CONTROL_PICTURES.get(ord(char))) is not None:
            out.append(picture)
        elif unicodedata.category(char) in _HOSTILE_CATEGORIES:
            out.append("\N{REPLACEMENT CHARACTER}")
        else:
            out.append(char)
    return "".join(out)


# CSI with its parameters, OSC and other strings up to their terminator, any other escape, and what is left of a mouse
# report where a terminal swallowed its escape character.
_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
    r"|\[<\d{1,4};\d{1,4};\d{1,4}[Mm]"
)


def typed(text: str, *, multiline: bool = False) -> str:
    """``text`` as a person meant to type or paste it: escape sequences, controls and format characters are left out.

    With ``multiline`` every kind of line break becomes a line feed and tabs become four spaces; otherwise both
    become a space.
    """
    if _PLAIN.match(text) and "[<" not in text:
        return text
    text = _SEQUENCES.sub("", text)
    text = re.sub(r"\r\n|[\r\x85\u2028\u2029]", "\n", text)
    text = text.replace("\t", "    " if multiline else " ")
    if not multiline:
        text = text.replace("\n", " ")
    return "".join(char for char in text if char == "\n" or unicodedata.category(char) not in _HOSTILE_CATEGORIES)


def coarse(span: timedelta | float) -> str:
    """A duration in one unit, rounded down: ``45s``, ``12m``, ``3h``, ``5d`` (contract, section 5)."""
    seconds = int(span.total_seconds() if isinstance(span, timedelta) else span)
    seconds = max(0, seconds)
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


_SPELLED = str.maketrans(
    {
        **dict.fromkeys("\u2500\u2501\u2504\u2505\u2550\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u00b7\u2022", "-"),
        **dict.fromkeys("\u2502\u2503\u2551\u2590\u258c", "|"),
        **dict.fromkeys("\u250c\u2510\u2514\u2518\u251c\u2524\u252c\u2534\u253c\u256d\u256e\u256f\u2570", "+"),
        **dict.fromkeys("\u2018\u2019\u201a\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u2033", '"'),
        **dict.fromkeys("\u2588\u2580\u2584\u25a0\u25b0", "#"),
        "\u2026": "~",
        "\u22ef": "~",
        "\u00a0": " ",
        "\u00d7": "x",
        "\u2192": ">",
        "\u203a": ">",
        "\u25b8": ">",
    }
)


def in_ascii(text: str) -> str:
    """``text`` for a terminal that shows ASCII only, in as many cells: the nearest plain letters or sign, or ``?``.

    Sending UTF-8 there would not only look odd: its bytes hold the controls of an eight-bit terminal.
    """
    if text.isascii():
        return text
    return "".join(char if char.isascii() else _nearest(char) for char in text.translate(_SPELLED))


def _nearest(char: str) -> str:
    cells = 0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
    if unicodedata.category(char) in ("Cf", "Me", "Mn"):
        cells = 0
    near = unicodedata.normalize("NFKD", char).encode("ascii", "ignore").decode()
    return near if len(near) == cells and near.isprintable() else "?" * cells


_FEW_SIGNS = frozenset({"linux", "cons25", "ansi", "vt52", "vt100", "vt102", "vt220"})
"""The consoles of Linux and FreeBSD with their 256 or 512 glyphs, serial lines, and the terminals of old."""


def speaks_ascii_only(environ: Mapping[str, str]) -> bool:
    """Whether the locale names an encoding other than UTF-8; one that names nothing is taken for UTF-8.

    Python itself says UTF-8 for the locale ``C`` (PEP 538 sets ``LC_CTYPE``, PEP 540 its own encoding), so the
    person's words are read instead.
    """
    encoding = _named_encoding(environ)
    return bool(encoding) and encoding.lower().replace("-", "") != "utf8"


def lacks_signs(environ: Mapping[str, str]) -> bool:
    """Whether the terminal is of a kind that shows few signs beyond ASCII, whatever the locale says."""
    return environ.get("TERM", "") in _FEW_SIGNS


def wants_ascii(environ: Mapping[str, str]) -> bool:
    """Whether signs and borders are to be drawn with ASCII on this terminal."""
    return speaks_ascii_only(environ) or lacks_signs(environ)


def spoken_encoding(environ: Mapping[str, str]) -> str:
    """How keys come in: the locale's encoding, where Python knows it and it leaves ASCII alone, else UTF-8."""
    import codecs

    try:
        found = codecs.lookup(_named_encoding(environ) or "utf-8").name
        plain = "\x1b[A~".encode(found) == b"\x1b[A~"
    except (LookupError, UnicodeError):
        return "utf-8"
    return found if plain and found != "ascii" else "utf-8"


def _named_encoding(environ: Mapping[str, str]) -> str:
    said = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    coerced = not environ.get("LC_ALL") and said == "C.UTF-8" and environ.get("LANG") in ("C", "POSIX")
    if coerced or said in ("C", "POSIX"):
        return "ascii"
    encoding = said.partition("@")[0].partition(".")[2]
    if said and not encoding:
        import locale

        encoding = locale.getpreferredencoding(False)
    return encoding
