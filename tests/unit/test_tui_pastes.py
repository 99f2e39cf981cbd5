"""What a person pastes is text: no escape sequence in it presses a key, wherever reads cut the stream."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from expb_tui.tui.pastes import END, START, Pastes, Piece

HOSTILE = "Half \x1b]0;evil\x07an \x1b[31midea\x1b\x1bD\x07\x1b[20\x1b[200~"


def fed(pastes: Pastes, parts: list[str]) -> tuple[str, list[str]]:
    pieces = [piece for part in parts for piece in pastes.split(part)]
    keys = "".join(text for kind, text in pieces if kind == "keys")
    return keys, [text for kind, text in pieces if kind == "paste"]


def test_a_paste_is_one_piece_whatever_it_holds() -> None:
    assert Pastes().split(f"ab{START}{HOSTILE}{END}cd") == [
        Piece("keys", "ab"),
        Piece("paste", HOSTILE),
        Piece("keys", "cd"),
    ]


@given(st.lists(st.integers(1, 60), max_size=8))
def test_it_does_not_matter_where_reads_cut_the_stream(cuts: list[int]) -> None:
    stream = f"k{START}{HOSTILE}{END}\x1b[A{START}two{END}q"
    parts, rest = [], stream
    for cut in cuts:
        parts.append(rest[:cut])
        rest = rest[cut:]
    keys, pastes = fed(Pastes(), [*parts, rest])
    assert pastes == [HOSTILE, "two"]
    # Halves of markers that were handed on are completed, so that the parser sees empty pastes and nothing else.
    assert keys.replace(START + END, "") == "k\x1b[Aq"


def test_no_key_is_held_back() -> None:
    pastes = Pastes()
    assert pastes.split("\x1b") == [Piece("keys", "\x1b")]
    assert pastes.split("[2") == [Piece("keys", "[2")]
    assert pastes.split("4~") == [Piece("keys", "4~")]


def test_a_paste_without_an_end_is_given_up() -> None:
    pastes = Pastes()
    assert pastes.split(START + "lost") == []
    assert pastes.inside
    assert pastes.give_up() == [Piece("paste", "lost")]
    assert pastes.split("q") == [Piece("keys", "q")]
    assert pastes.give_up() == []
