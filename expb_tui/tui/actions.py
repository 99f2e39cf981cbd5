"""The one registry of actions: keys, footer, help, palette, row menu, README and the tests' page object come from it.

Lower-case keys never change remote state; upper-case ones that do ask first. Keys that a terminal cannot tell apart
(ctrl+m, ctrl+h, ctrl+i, ctrl+[), ctrl+a, ctrl+s, alt and function keys beyond F1 are never bound.

This module imports no Textual at the top: the README's table and the tests' driver read it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from textual.binding import BindingType


class Action(NamedTuple):
    """``keys`` are Textual's key names or single characters, the first is the one shown.

    ``footer`` orders actions in the footer, 0 keeps one out; ``urgent`` ones work in text fields and dialogs too.
    """

    id: str
    label: str
    scope: str
    keys: tuple[str, ...]
    help: str
    dangerous: bool = False
    footer: int = 0
    urgent: bool = False


SCOPES = {
    "global": "Everywhere",
    "list": "In every list and text",
    "profiles": "Profiles",
    "work": "Work",
    "leases": "Leases",
    "package": "Package",
    "dialog": "In every dialog",
    "confirm": "Questions",
    "leave": "Question before leaving",
    "notices": "Notices",
    "form": "Forms",
    "doctor": "Doctor",
    "login": "Sign in",
    "whole": "Package on the whole screen",
    "task": "Task",
    "claim": "Claim",
    "unsaved": "Claim that cannot be saved",
    "submit": "Submission",
    "receipt": "Receipt",
}
"""Scope to the heading that help and README show."""

ACTIONS: tuple[Action, ...] = (
    # Everywhere
    Action("pane.profiles", "Profiles", "global", ("1",), "Go to the profiles."),
    Action("pane.work", "Work", "global", ("2",), "Go to the work that is on offer."),
    Action("pane.leases", "Leases", "global", ("3",), "Go to the packages that this host holds."),
    Action("pane.package", "Package", "global", ("4",), "Go to the selected package and its tasks."),
    Action("pane.next", "Next pane", "global", ("tab",), "Go to the next pane."),
    Action("pane.previous", "Previous pane", "global", ("shift+tab",), "Go to the previous pane."),
    Action("pane.full", "Full screen", "global", ("f",), "Show only this pane, or all again."),
    Action("pane.grow", "Next screen mode", "global", ("+",), "Give this pane more room: half, then the whole screen."),
    Action("pane.shrink", "Previous screen mode", "global", ("_",), "Give this pane less room."),
    Action(
        "work.claim", "Claim", "global", ("C",), "Ask for a work package; a form shows what is asked for.", True, 20
    ),
    Action("app.menu", "Menu", "global", ("x",), "Show everything that can be done with this row.", footer=60),
    Action("app.copy", "Copy", "global", ("y",), "Choose what to copy: id, row, command or address.", footer=0),
    Action("app.reload", "Reload", "global", ("r", "ctrl+r"), "Ask the server again, now.", footer=70),
    Action(
        "app.undo", "Undo", "global", ("u",), "Take back the last thing that was done on this host, such as a removal."
    ),
    Action("app.notices", "Notices", "global", ("!",), "Show errors and notices with their next steps."),
    Action(
        "app.doctor",
        "Doctor",
        "global",
        ("ctrl+x",),
        "Tell what terminal, clipboard, keyring, clock, keeper and service can do here, and what mends each.",
    ),
    Action("app.theme", "Theme", "global", ("ctrl+t",), "Choose the colours, with a live preview."),
    Action("app.palette", "Commands", "global", (":", "ctrl+p"), "Find any action by its name.", footer=80),
    Action("app.help", "Help", "global", ("?", "f1"), "Explain this pane and its keys.", footer=90, urgent=True),
    Action("app.back", "Back", "global", ("escape", "q"), "Go back: clear a filter, leave full screen, ask to leave."),
    Action(
        "app.cancel",
        "Cancel",
        "global",
        ("ctrl+c",),
        "Cancel what is running; twice within two seconds asks to leave.",
        urgent=True,
    ),
    Action(
        "app.quit",
        "Leave at once",
        "global",
        ("ctrl+q", "Q"),
        "Leave without a question. Leases stay as they are.",
        urgent=True,
    ),
    Action(
        "app.suspend", "Suspend", "global", ("ctrl+z",), "Give the terminal back to the shell; fg returns.", urgent=True
    ),
    # Lists
    Action("list.down", "Down", "list", ("j", "down"), "Next row or line."),
    Action("list.up", "Up", "list", ("k", "up"), "Previous row or line."),
    Action("list.top", "Top", "list", ("g", "home"), "First row or line."),
    Action("list.bottom", "Bottom", "list", ("G", "end"), "Last row or line."),
    Action("list.page_down", "Page down", "list", ("pagedown", "ctrl+f"), "One page down."),
    Action("list.page_up", "Page up", "list", ("pageup", "ctrl+b"), "One page up."),
    Action("list.half_down", "Half page down", "list", ("ctrl+d",), "Half a page down."),
    Action("list.half_up", "Half page up", "list", ("ctrl+u",), "Half a page up."),
    Action("list.left", "Left", "list", ("h", "left"), "Scroll to the left."),
    Action("list.right", "Right", "list", ("l", "right"), "Scroll to the right, to columns that do not fit."),
    Action("list.filter", "Filter", "list", ("/",), "Show only rows that contain what you type.", footer=50),
    Action("list.next", "Next match", "list", ("n",), "Next match of the last filter."),
    Action("list.previous", "Previous match", "list", ("N",), "Previous match of the last filter."),
    Action("list.mark", "Mark", "list", ("space",), "Mark this row, or take its mark away."),
    Action("list.range", "Mark range", "list", ("v",), "Mark every row from here to where the next v is pressed."),
    Action("list.sort_left", "Sort column left", "list", ("<",), "Sort by the column to the left."),
    Action("list.sort_right", "Sort column right", "list", (">",), "Sort by the column to the right."),
    Action("list.sort_flip", "Reverse order", "list", ("comma",), "Turn the order of the sorted column round."),
    # Profiles
    Action(
        "profile.use", "Use", "profiles", ("enter",), "Make this the profile that panes and commands use.", footer=10
    ),
    Action("profile.details", "Details", "profiles", ("i",), "Show the profile without its credentials.", footer=40),
    Action(
        "profile.login", "Sign in", "profiles", ("L",), "Sign in, or sign in again, by device authorisation.", footer=12
    ),
    Action("profile.add", "New", "profiles", ("a",), "Sign in under a new profile name.", footer=30),
    Action(
        "profile.token", "Save token", "profiles", ("t",), "Save an agent token that you already have as a profile."
    ),
    Action(
        "profile.agent",
        "Register agent",
        "profiles",
        ("A",),
        "Register an agent identity and keep its token as a profile of its own.",
        True,
    ),
    Action(
        "profile.project", "Project", "profiles", ("c",), "Choose the project that this profile works in.", footer=35
    ),
    Action("profile.secret", "Move secret", "profiles", ("s",), "Move the credentials between keyring and file."),
    Action(
        "profile.logout",
        "Sign out",
        "profiles",
        ("O",),
        "End the session on the server and forget the credentials here; names the leases that this strands.",
        True,
        45,
    ),
    Action(
        "profile.remove", "Remove", "profiles", ("d",), "Take the profile out of the file on this host; asks first."
    ),
    # Work
    Action("work.explain", "Explain", "work", ("enter",), "Say why this role has work, or why it has none.", footer=10),
    Action("work.all", "All roles", "work", ("a",), "Show roles without work too, or hide them.", footer=40),
    # Leases
    Action(
        "lease.open", "Open", "leases", ("enter",), "Show the package with its tasks, as the server has it.", footer=10
    ),
    Action("lease.submit", "Submit", "leases", ("U",), "Fill in and submit the open task.", True, 15),
    Action("lease.renew", "Renew", "leases", ("R",), "Renew the lease now.", True, 25),
    Action(
        "lease.keep",
        "Keep on/off",
        "leases",
        ("t",),
        "Have the lease renewed by itself, or not any more: without keeping it runs out. Undo takes it back.",
        footer=32,
    ),
    Action(
        "lease.withdraw",
        "Withdraw",
        "leases",
        ("W",),
        "Withdraw a package whose token is lost, as a member of its project, so that the role is free again.",
        True,
        35,
    ),
    Action(
        "lease.receipts",
        "Receipts",
        "leases",
        ("b",),
        "Show what was submitted from this host, with the server's confirmation.",
        footer=65,
    ),
    Action(
        "lease.keeper",
        "Start keeper",
        "leases",
        ("K",),
        "Start the keeper where none runs: it renews with or without the cockpit.",
    ),
    Action("lease.release", "Release", "leases", ("D",), "Give the package back; open tasks go to others.", True, 30),
    # Package
    Action("package.open", "Open", "package", ("enter",), "Open this task for reading and filling in.", footer=10),
    Action("package.next_task", "Next task", "package", ("]",), "Next task of the package.", footer=12),
    Action("package.previous_task", "Previous task", "package", ("[",), "Previous task of the package."),
    Action("package.submit", "Submit", "package", ("U",), "Fill in and submit this task.", True, 15),
    Action("package.renew", "Renew", "package", ("R",), "Renew the lease of this package now.", True, 25),
    Action(
        "package.keep",
        "Keep on/off",
        "package",
        ("t",),
        "Have its lease renewed by itself, or not any more.",
        footer=32,
    ),
    Action(
        "package.release", "Release", "package", ("D",), "Give this package back; open tasks go to others.", True, 30
    ),
    Action("package.edit", "Editor", "package", ("e",), "Edit the draft of this task in $EDITOR.", footer=40),
    Action("package.fail", "Failed", "package", ("F",), "Report this task as failed, with a reason.", True, 20),
    Action("package.receipts", "Receipts", "package", ("b",), "Show what was submitted of this package.", footer=45),
    Action("package.page", "Pager", "package", ("p",), "Read this task in $PAGER."),
    # Dialogs
    Action("dialog.accept", "Confirm", "dialog", ("enter",), "Do what the dialog offers.", footer=10),
    Action("dialog.close", "Close", "dialog", ("escape", "q"), "Close without doing anything.", footer=20),
    Action("confirm.yes", "Yes", "confirm", ("y",), "Do it."),
    Action("notice.open", "Go there", "notices", ("enter",), "Go to the row that the notice is about.", footer=5),
    Action("notice.copy", "Copy", "notices", ("y",), "Send the notice, whole, to this terminal's clipboard.", footer=8),
    Action("confirm.no", "No", "confirm", ("n",), "Do not do it."),
    Action(
        "leave.keeper",
        "Start keeper",
        "leave",
        ("K",),
        "Start the keeper, which renews after the cockpit is left.",
        footer=15,
    ),
    # Doctor
    Action(
        "doctor.copy", "Copy", "doctor", ("y",), "Send the line that mends it to this terminal's clipboard.", footer=5
    ),
    Action("doctor.again", "Again", "doctor", ("r",), "Examine everything anew.", footer=6),
    # Sign in
    Action("login.copy", "Copy address", "login", ("y",), "Send the address to this terminal's clipboard.", footer=5),
    Action("login.code", "Copy code", "login", ("c",), "Send the code to this terminal's clipboard.", footer=6),
    Action("login.swap", "QR code", "login", ("s",), "Show the QR code instead of the code, or back.", footer=4),
    Action("login.open", "Browser", "login", ("o",), "Open the address in the browser of this desktop.", footer=7),
    Action("login.again", "Start again", "login", ("r",), "Ask for a new code.", footer=3),
    # Package on the whole screen
    Action("whole.copy", "Copy id", "whole", ("y",), "Send the package's id to this terminal's clipboard.", footer=50),
    Action("whole.back", "Back", "whole", ("q",), "Back to the panes.", footer=0),
    # Task
    Action("task.fill", "Fill in", "task", ("enter", "i"), "Go into the form; Esc comes back.", footer=5),
    Action("task.submit", "Submit", "task", ("U",), "Show what would be sent, and ask.", True, 10),
    Action("task.fail", "Failed", "task", ("F",), "Report the task as failed, with a reason.", True, 15),
    Action("task.editor", "Editor", "task", ("e",), "Edit this draft as YAML in $EDITOR.", footer=20),
    Action("task.page", "Pager", "task", ("p",), "Read the task in $PAGER.", footer=30),
    Action("task.versions", "Drafts", "task", ("o",), "Choose among other versions of this draft.", footer=25),
    Action("task.copy", "Copy id", "task", ("y",), "Send the task's id to this terminal's clipboard.", footer=40),
    Action("task.back", "Back", "task", ("q",), "Leave the task; what you typed is saved.", footer=0),
    # Forms
    Action("form.review", "Review", "form", ("ctrl+g",), "Show what would be sent, and ask.", footer=10, urgent=True),
    Action("form.editor", "Editor", "form", ("ctrl+e",), "Go on with this draft in $EDITOR.", footer=20, urgent=True),
    Action("form.look", "Task", "form", ("ctrl+l",), "Show the task, or the form again.", footer=15, urgent=True),
    Action("form.add", "Add", "form", ("ctrl+n",), "Add an entry to the list.", footer=30, urgent=True),
    Action("form.remove", "Take out", "form", ("ctrl+o",), "Take out this entry.", footer=35, urgent=True),
    Action("form.leave", "Back", "form", ("escape",), "Leave the field; what you typed is saved.", footer=40),
    # Claims
    Action("claim.ask", "Claim", "claim", ("enter",), "Ask the service for this work.", True, 1),
    Action("claim.open", "Open", "claim", ("enter",), "Open the package that was assigned.", footer=2),
    Action("claim.again", "Ask again", "claim", ("enter",), "Go back to the form.", footer=3),
    Action(
        "claim.secret",
        "Move secret",
        "claim",
        ("s",),
        "Move the credential to the 0600 file, for the keeper.",
        footer=4,
    ),
    # Claims that cannot be saved
    Action("unsaved.save", "Save again", "unsaved", ("enter",), "Offer it to the journal again.", footer=1),
    Action("unsaved.return", "Give back", "unsaved", ("D",), "Give the package back; its tasks go to others.", True, 2),
    Action("unsaved.copy", "Copy", "unsaved", ("y",), "Copy what adopt takes, token included.", footer=3),
    # Submissions
    Action("submit.send", "Send", "submit", ("enter",), "Send the submission that is shown.", True, 1),
    # Receipts
    Action("receipt.open", "Show", "receipt", ("enter",), "Show the receipt whole.", footer=1),
    Action("receipt.done", "Done", "receipt", ("enter",), "Close the receipt; it is kept.", footer=2),
    Action("receipt.copy", "Copy", "receipt", ("y",), "Send the receipt to this terminal's clipboard.", footer=15),
)

BY_ID: Mapping[str, Action] = {action.id: action for action in ACTIONS}

_AT_ONCE = frozenset({"global", "list", "profiles", "work", "leases", "package"})
"""Scopes whose keys the application takes before it hands them on: keys that come in one read stay in their order."""

_SHOWN = {
    "enter": "Enter",
    "escape": "Esc",
    "space": "Space",
    "tab": "Tab",
    "shift+tab": "Shift+Tab",
    "up": "Up",
    "down": "Down",
    "left": "Left",
    "right": "Right",
    "home": "Home",
    "end": "End",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "backspace": "Backspace",
    "delete": "Del",
    "comma": ",",
    "f1": "F1",
}


def show_key(key: str) -> str:
    """A key as people write it: ``Ctrl+p``, ``Enter``, ``?``."""
    return _SHOWN.get(key) or (f"Ctrl+{key[5:]}" if key.startswith("ctrl+") else key)


class Keymap:
    """The keys in force: the registry's, changed by the settings.

    ``problems`` names ids that do not exist and keys that two actions of one place would share; they are left out.
    """

    def __init__(self, changes: Mapping[str, str | Iterable[str]] | None = None) -> None:
        self._keys = {action.id: action.keys for action in ACTIONS}
        self.changed: dict[str, tuple[str, ...]] = {}
        self.problems: list[str] = []
        for name, value in (changes or {}).items():
            self._change(name, tuple(value.replace(",", " ").split()) if isinstance(value, str) else tuple(value))

    def _change(self, name: str, keys: tuple[str, ...]) -> None:
        if name not in BY_ID:
            near = get_close_matches(name, BY_ID, 1)
            hint = f", did you mean {near[0]}?" if near else ""
            self.problems.append(f"Setting keys: there is no action {name}{hint}")
            return
        if not keys:
            self.problems.append(f"Setting keys: {name} has no key; leave it out to keep {self.shown(name)}")
            return
        scope = BY_ID[name].scope
        for other in ACTIONS:
            shared = set(keys) & set(self._keys[other.id])
            if other.id != name and shared and (other.scope == scope or "global" in (scope, other.scope)):
                key = show_key(min(shared))
                self.problems.append(
                    f"Setting keys: {key} of {name} is the key of {other.id}; {name} keeps {self.shown(name)}"
                )
                return
        self._keys[name] = self.changed[name] = keys

    def keys(self, action_id: str) -> tuple[str, ...]:
        """Every key of an action, the shown one first."""
        return self._keys[action_id]

    def show(self, action_id: str) -> list[str]:
        """Every key, as people write it."""
        return [show_key(key) for key in self._keys[action_id]]

    def shown(self, action_id: str) -> str:
        """The first key, as people write it."""
        return show_key(self._keys[action_id][0])


def bindings(*scopes: str) -> list[BindingType]:
    """Textual's bindings for the actions of ``scopes``; each calls ``act`` with the action's id on its node."""
    from textual.binding import Binding

    return [
        Binding(
            ",".join(action.keys),
            f"act('{action.id}')",
            action.label,
            id=action.id,
            priority=action.urgent or action.scope in _AT_ONCE,
            show=False,
        )
        for action in ACTIONS
        if action.scope in scopes
    ]


def markdown_table(keymap: Keymap | None = None) -> str:
    """The README's key table: one section per scope, generated so that it cannot differ from the program."""
    keymap = keymap or Keymap()
    lines: list[str] = []
    for scope, heading in SCOPES.items():
        actions = [action for action in ACTIONS if action.scope == scope]
        if not actions:
            continue
        lines += [f"**{heading}**", "", "| Key | Action | Id | What it does |", "| --- | --- | --- | --- |"]
        for action in actions:
            keys = " ".join(f"`{show_key(key)}`".replace("|", "\\|") for key in keymap.keys(action.id))
            label = f"{action.label} (asks)" if action.dangerous else action.label
            lines.append(f"| {keys} | {label} | `{action.id}` | {action.help} |")
        lines.append("")
    return "\n".join(lines)
