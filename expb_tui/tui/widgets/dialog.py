"""The look of every dialog: a titled frame over the cockpit, a body, and a line of the keys that work in it."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.reactive import Reactive
from textual.screen import ModalScreen
from textual.widget import Widget

from expb_tui.tui.actions import Action, bindings
from expb_tui.tui.widgets.acts import Acts
from expb_tui.tui.widgets.one_line import KeyLine

Result = TypeVar("Result")


class Dialog(Acts, ModalScreen[Result]):
    """Override ``compose_body``; dismiss with the result, or let Esc dismiss with None.

    ``title`` may hold text from outside: it is cleaned by the caller and never read as markup. ``width`` is a wish in
    cells; narrow terminals give what they have. With ``tall`` the dialog takes the whole height.
    """

    SCOPES: ClassVar[tuple[str, ...]] = ("dialog",)
    BINDINGS = bindings("dialog")
    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    """As Textual's own, but without its repaint of the whole screen at every change of focus."""
    LABELS: ClassVar[dict[str, str]] = {}
    """What an action is called in the key line of this dialog, where its own label says too little."""
    DEFAULT_CSS = """
    Dialog {
        align: center middle;
        background: $surface 40%;
        &:ansi { background: transparent; }
        #dialog-box {
            width: 72; max-width: 100%; height: auto; max-height: 100%;
            background: $surface; border: round $accent; padding: 0 1;
            border-title-color: $accent; border-title-style: bold; border-title-background: $surface;
        }
        #dialog-box.-ascii { border: ascii $accent; }
        #dialog-box.-tall { height: 100%; }
        #dialog-body { height: auto; max-height: 1fr; }
        #dialog-box.-tall #dialog-body { height: 1fr; }
        KeyLine { margin-top: 1; background: $surface; }
    }
    """

    def __init__(self, title: str, *, width: int = 72, tall: bool = False) -> None:
        super().__init__()
        self._title = title
        self._width = width
        self._tall = tall

    def compose(self) -> ComposeResult:
        box = Vertical(id="dialog-box")
        box.border_title = Content(self._title)
        box.styles.width = self._width
        box.set_class(self._tall, "-tall")
        box.set_class(bool(getattr(self.app, "ascii_only", False)), "-ascii")
        with box:
            with Vertical(id="dialog-body"):
                yield from self.compose_body()
            yield KeyLine(on="surface", id="dialog-keys")

    def compose_body(self) -> ComposeResult:
        """What stands between the title and the keys."""
        yield from ()

    @on(events.Mount)
    def show_keys_first(self) -> None:
        """The key line stands with the first frame."""
        self.show_keys()

    def show_keys(self) -> None:
        """Draw the key line anew; call it when what is possible has changed."""
        self.query_one("#dialog-keys", KeyLine).show(self.hints())

    def hints(self) -> list[Action]:
        """The actions in the key line: those of this dialog."""
        return [action._replace(label=self.LABELS.get(action.id, action.label)) for action in self.actions_here()]

    def act_dialog_close(self) -> None:
        self.dismiss(None)
