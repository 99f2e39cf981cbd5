"""The answer to a task of a role that this version does not know: its body as YAML, checked for shape only."""

from __future__ import annotations

from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from expb_tui.core.errors import UsageError
from expb_tui.core.submissions.fields import wire_problems
from expb_tui.core.submissions.yamlio import read_document, write_yaml
from expb_tui.tui.widgets.controls import ProseArea


class RawForm(Vertical):
    """One text. Posts :class:`Changed` when the operator edits it."""

    DEFAULT_CSS = """
    RawForm { width: 1fr; height: auto; margin: 1 1 1 1; }
    RawForm ProseArea { min-height: 12; max-height: 40; }
    """

    class Changed(Message):
        """The text is another one."""

    def __init__(self, role: str, task_id: str, text: str | None) -> None:
        super().__init__()
        self._role = role
        self._task_id = task_id
        empty = {"taskId": task_id, "outcome": "completed", "output": {}}
        self._area = ProseArea(write_yaml(empty) if text is None else text)

    def compose(self) -> ComposeResult:
        yield self._area

    @property
    def text(self) -> str:
        """What is typed."""
        return self._area.text

    def set_text(self, text: str) -> None:
        """Show another text without saying that the operator typed it."""
        with self.prevent(ProseArea.Changed):
            self._area.load_text(text)

    def focus_text(self) -> None:
        """Put the cursor into the text."""
        self._area.focus()

    def fail(self) -> None:
        """The body of a failed task; what was typed before can be had back with undo."""
        self._area.text = write_yaml({"taskId": self._task_id, "outcome": "failed", "reason": ""})

    def body(self) -> dict[str, Any]:
        """The submission. Raises ``UsageError`` where the text is no submission of this task."""
        body = read_document(self.text, name="The answer")
        if not isinstance(body, dict):
            raise UsageError("The answer is no submission", cause="lines such as outcome: completed are expected")
        if body.get("outcome") == "completed" and not body.get("output"):
            raise UsageError("The answer is still empty", next_step="Write what is to be sent under output")
        problems = wire_problems(self._role, body)
        if body.get("taskId") != self._task_id:
            problems.setdefault("taskId", f"must be {self._task_id}")
        if problems:
            raise UsageError(
                "The answer is no submission", cause="; ".join(f"{path} {words}" for path, words in problems.items())
            )
        return body

    @on(ProseArea.Changed)
    def _edited(self, event: ProseArea.Changed) -> None:
        event.stop()
        self.post_message(self.Changed())
