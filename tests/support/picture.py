"""What a terminal would show, as a picture: for tests that read the screen as a phone's camera does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyte
import zxingcpp
from numpy.typing import NDArray
from rich.console import Console
from textual.app import App

CELL = (8, 16)
"""Pixels of a cell: width and height."""
_NAMED = {
    "black": 0x000000,
    "red": 0xCD0000,
    "green": 0x00CD00,
    "brown": 0xCDCD00,
    "blue": 0x0000EE,
    "magenta": 0xCD00CD,
    "cyan": 0x00CDCD,
    "white": 0xE5E5E5,
    "brightblack": 0x7F7F7F,
    "brightwhite": 0xFFFFFF,
}
_BLOCKS = {"▀": (True, False), "▄": (False, True), "█": (True, True), " ": (False, False)}


def drawn(app: App[Any], *, color_system: str) -> pyte.Screen:
    """The application's present frame on a model of a terminal; colours as ``color_system`` of Rich sends them."""
    width, height = app.size
    # For mypy: a name from the caller.
    console = Console(color_system=color_system, force_terminal=True, _environ={}, width=width)  # type: ignore[arg-type]
    lines = [strip.render(console) for strip in app.screen._compositor.render_strips()]
    return feed(("\r\n".join(lines),), columns=width, lines=height)


def feed(output: Iterable[str], *, columns: int, lines: int) -> pyte.Screen:
    """A terminal that has received ``output``."""
    screen = pyte.Screen(columns, lines)
    stream = pyte.Stream(screen)
    for text in output:
        stream.feed(text)
    return screen


def _rgb(color: str, default: int) -> tuple[int, int, int]:
    number = default if color == "default" else _NAMED.get(color)
    if number is None:
        number = int(color, 16)
    return (number >> 16, number >> 8 & 0xFF, number & 0xFF)


def image(screen: pyte.Screen, *, dark_terminal: bool = True) -> NDArray[np.uint8]:
    """The picture: backgrounds and half blocks as they are, other characters as a smear of their colour."""
    ink, ground = (0xE5E5E5, 0x000000) if dark_terminal else (0x000000, 0xFFFFFF)
    wide, high = CELL
    picture = np.zeros((screen.lines * high, screen.columns * wide, 3), dtype=np.uint8)
    for row in range(screen.lines):
        for column in range(screen.columns):
            char = screen.buffer[row][column]
            front, back = _rgb(char.fg, ink), _rgb(char.bg, ground)
            if char.reverse:
                front, back = back, front
            cell = picture[row * high : (row + 1) * high, column * wide : (column + 1) * wide]
            cell[:] = back
            upper, lower = _BLOCKS.get(char.data, (False, False))
            if upper:
                cell[: high // 2] = front
            if lower:
                cell[high // 2 :] = front
            if char.data not in _BLOCKS:
                cell[high // 4 : -high // 4, 1:-1] = front
    return picture


def codes(picture: NDArray[np.uint8]) -> Sequence[str]:
    """The texts of the QR codes that a reader finds; dark on light only, because not every phone reads the inverse."""
    wanted = zxingcpp.BarcodeFormats([zxingcpp.BarcodeFormat.QRCode])
    found = zxingcpp.read_barcodes(picture, formats=wanted, try_invert=False)
    return [barcode.text for barcode in found]
