"""Sending a submission: exactly what goes, where and as whom, one question, and the receipt that stays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult

from expb_tui.core.errors import ExpbError
from expb_tui.core.leases.model import LeaseLost, SubmissionBlocked
from expb_tui.core.submissions.yamlio import write_yaml
from expb_tui.core.text import clean
from expb_tui.present import leases, packages
from expb_tui.present.cells import Cell, Table, Tone, cell
from expb_tui.tui import clipboard
from expb_tui.tui.actions import bindings
from expb_tui.tui.screens.host import host, start
from expb_tui.tui.widgets.dialog import Dialog
from expb_tui.tui.widgets.line_table import LineTable
from expb_tui.tui.widgets.line_text import LineText
from expb_tui.tui.widgets.lines import Line
from expb_tui.tui.widgets.words import Words, error_lines, facts_lines, line
from expb_tui.wire.work import output_digest

if TYPE_CHECKING:
    from expb_tui.core.leases.model import HeldPackage, Receipt
    from expb_tui.launch import House


class SubmitScreen(Dialog["Receipt | None"]):
    """Dismisses with the receipt once the server has confirmed, otherwise with None.

    ``body`` is the wire body; it is shown cleaned and sent as it is. After a refusal ``problems`` holds what was wrong
    by path of the body.
    """

    SCOPES: ClassVar[tuple[str, ...]] = ("submit", "dialog")
    BINDINGS = bindings("submit", "dialog")
    DEFAULT_CSS = """
    SubmitScreen #submit-words, SubmitScreen #submit-facts { margin: 0 0 1 0; }
    SubmitScreen #submit-body { height: 1fr; min-height: 3; background: $surface; }
    """

    def __init__(self, house: House, *, package_uid: str, body: Mapping[str, Any]) -> None:
        failed = body.get("outcome") == "failed"
        super().__init__("Report this task as failed?" if failed else "Submit this?", width=104, tall=True)
        self._house = house
        self._uid = package_uid
        self._body = dict(body)
        self._held: HeldPackage | None = None
        self._sending = False
        self._told: str | None = None
        """The state of the lease that was said to rule sending out."""
        self.problems: dict[str, str] = {}

    def compose_body(self) -> ComposeResult:
        yield Words(widget_id="submit-words")
        yield Words(widget_id="submit-facts")
        yield LineText(title="What is sent", id="submit-body")

    async def on_mount(self) -> None:
        text = clean(write_yaml(self._body), multiline=True)
        self.query_one("#submit-body", LineText).set_lines([_yaml_line(one) for one in text.rstrip("\n").split("\n")])
        self.query_one("#submit-body", LineText).focus()
        self._say()
        try:
            self._held = await self._house.desk.get(self._uid)
        except ExpbError as error:
            self._say(*error_lines(error, host(self).look.glyphs))
            return
        self._tick()
        self.set_interval(1.0, self._tick)

    def _say(self, *lines: Line) -> None:
        words = self.query_one("#submit-words", Words)
        words.set_lines(*lines)
        words.display = bool(lines)

    def _tick(self) -> None:
        known = (item for item in host(self).bridge.held or () if item.uid == self._uid)
        held = self._held = next(known, self._held)
        if held is None:
            return
        if not held.usable and not self._sending and held.state != self._told:
            self._told = held.state
            self._say(
                line(f"{host(self).look.glyphs.bad} The lease is {clean(held.word)}.", Tone.BAD),
                line(f"  {clean(held.reason)}. {clean(held.next_step)}.", Tone.WARN),
                line("  Nothing has been sent. What you typed is kept on this host."),
            )
            self.show_keys()
        left = leases.left(held, self._house.clock)
        facts: list[tuple[str, Cell]] = [
            ("to", cell(held.endpoint, Tone.LINK)),
            ("as", cell(held.profile_name or "a token without a profile")),
            ("project", cell(held.project_name or held.project_id)),
            ("task", cell(f"{self._body.get('taskId')} ({held.role})")),
            ("left", Cell(left.text, leases.urgency(held, self._house.clock, host(self).bridge.keeper.keeping(held)))),
        ]
        if "output" in self._body:
            facts.append(("sha256", cell(output_digest(self._body["output"]), Tone.DIM)))
        self.query_one("#submit-facts", Words).set_lines(*facts_lines(facts))

    def can(self, action_id: str) -> bool:
        return action_id != "submit.send" or (not self._sending and self._held is not None and self._held.usable)

    def act_submit_send(self) -> None:
        if self.can("submit.send") and self._held is not None:
            self._sending = True
            self.show_keys()
            start(self, partial(self._send, self._held), "send", exclusive=False)

    def act_dialog_close(self) -> None:
        if self._sending:
            host(self).say("The submission is on its way; its receipt appears with the package", Tone.WARN)
        self.dismiss(None)

    async def _send(self, held: HeldPackage) -> None:
        glyphs = host(self).look.glyphs
        self._say(line("Sending; nothing counts as submitted before the service confirms it", Tone.INFO))
        try:
            session = await self._house.session(held.profile_name or None)
            outcome = await self._house.desk.submit(session, self._uid, self._body)
        except ExpbError as error:
            self.problems = _problems_of(error)
            lines = [*error_lines(error, glyphs)]
            lines += [line(f"  {clean(path)}: {clean(words)}", Tone.WARN) for path, words in self.problems.items()]
            lines.append(line("  It is not submitted. The draft stays on this host.", Tone.TEXT))
            self._say(*lines)
            if isinstance(error, LeaseLost):
                await host(self).bridge.leases_changed()
        else:
            self.dismiss(outcome.receipt)
            return
        finally:
            self._sending = False
        self.show_keys()


def _yaml_line(text: str) -> Line:
    """Keys in the dim tone, values in the text's."""
    body = text.lstrip(" -")
    lead = text[: len(text) - len(body)]
    key, colon, value = body.partition(":")
    if colon and (not value or value.startswith(" ")) and key.isidentifier():
        return (Cell(f"{lead}{key}{colon}", Tone.DIM), Cell(value))
    return (Cell(text),)


def _problems_of(error: ExpbError) -> dict[str, str]:
    """What is wrong by path of the body: found before sending, or told by the server."""
    if isinstance(error, SubmissionBlocked):
        return dict(error.problems)
    fields = getattr(error, "fields", None)
    return dict(fields) if isinstance(fields, Mapping) else {}


class ReceiptScreen(Dialog[None]):
    """One confirmed submission."""

    DEFAULT_CSS = """
    ReceiptScreen Words { margin: 0 0 1 0; }
    """
    SCOPES: ClassVar[tuple[str, ...]] = ("dialog", "receipt")
    BINDINGS = bindings("dialog", "receipt")

    def __init__(self, receipt: Receipt, *, fresh: bool = False) -> None:
        super().__init__("Receipt", width=96)
        self._receipt = receipt
        self._fresh = fresh

    def compose_body(self) -> ComposeResult:
        glyphs = host(self).look.glyphs
        if self._fresh:
            yield Words(line(f"{glyphs.ok} The service confirmed the submission.", Tone.OK))
        table = packages.receipt_facts(self._receipt, glyphs=glyphs)
        yield Words(*facts_lines([(row.cells[0].text, row.cells[1]) for row in table.rows]))
        yield Words(line("Kept in the journal of this host; the package and the leases pane lead here.", Tone.DIM))

    def can(self, action_id: str) -> bool:
        return action_id in ("receipt.done", "receipt.copy", "dialog.close")

    def act_receipt_done(self) -> None:
        self.dismiss(None)

    async def act_receipt_copy(self) -> None:
        receipt = self._receipt
        text = "\n".join(
            f"{label} {value}"
            for label, value in (
                ("package", receipt.package_id),
                ("task", receipt.task_id),
                ("record", f"{receipt.record_kind} {receipt.record_id}".strip()),
                ("submitted", receipt.submitted_at.isoformat()),
                ("sha256", receipt.output_sha256),
            )
            if value
        )
        host(self).say(f"{await clipboard.copy(self.app, text)}: the receipt")


class ReceiptsScreen(Dialog[None]):
    """What was submitted from this host, of one package or of all, newest first; Enter shows one whole."""

    SCOPES: ClassVar[tuple[str, ...]] = ("receipt", "dialog")
    BINDINGS = bindings("receipt", "dialog")
    DEFAULT_CSS = """
    ReceiptsScreen LineTable { height: 1fr; }
    """

    def __init__(self, house: House, *, package_uid: str | None = None) -> None:
        super().__init__("Receipts", width=130, tall=True)
        self._house = house
        self._uid = package_uid
        self._receipts: dict[str, Receipt] = {}

    def compose_body(self) -> ComposeResult:
        yield LineTable(Table(packages.RECEIPTS, ()), framed=False, id="receipts")

    async def on_mount(self) -> None:
        table = self.query_one(LineTable)
        table.empty = (line("Reading the journal", Tone.DIM),)
        table.focus()
        try:
            found = await self._house.desk.receipts(self._uid)
        except ExpbError as error:
            table.empty = error_lines(error, host(self).look.glyphs)
            table.update()
            return
        self._receipts = {f"{one.package_id}/{one.task_id}": one for one in found}
        table.empty = (line("Nothing has been submitted from this host yet.", Tone.DIM),)
        table.set_table(packages.receipts(found, self._house.clock, glyphs=host(self).look.glyphs))
        table.update()
        self.show_keys()

    def can(self, action_id: str) -> bool:
        return action_id == "dialog.close" or (action_id == "receipt.open" and bool(self._receipts))

    def act_receipt_open(self) -> None:
        key = self.query_one(LineTable).current_key
        if key is not None:
            self.app.push_screen(ReceiptScreen(self._receipts[key]))
