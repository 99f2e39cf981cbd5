"""The link between the registry and a node: an action's id names the method that carries it out."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, ClassVar

from expb_tui.tui.actions import ACTIONS, BY_ID, Action

if TYPE_CHECKING:
    from textual.dom import DOMNode

    _Node = DOMNode
else:
    _Node = object


class Acts(_Node):
    """Mixin for widgets, screens and the application.

    ``lease.renew`` is carried out by ``act_lease_renew``; ``SCOPES`` says which part of the registry is bound here
    (with ``BINDINGS = bindings(...)``). Override ``can`` for actions that are not possible just now.
    """

    SCOPES: ClassVar[tuple[str, ...]] = ()

    def action_act(self, action_id: str) -> Awaitable[None] | None:
        """Called by Textual for a bound key, and by menus."""
        method = getattr(self, method_name(action_id))
        result: Awaitable[None] | None = method()
        return result

    def can(self, action_id: str) -> bool:
        """Whether the action is possible now; the answer shows in footer, menu and palette."""
        return True

    def can_act(self, action_id: str) -> bool:
        """Whether this node carries the action out, now and in this application."""
        action = BY_ID[action_id]
        if action.dangerous and getattr(self.app, "read_only", False):
            return False
        return hasattr(self, method_name(action_id)) and self.can(action_id)

    def check_action(self, action: str, parameters: tuple[Any, ...]) -> bool | None:
        """Textual asks before it runs a bound action; False lets the key go on to the next node."""
        if action == "act":
            return self.can_act(str(parameters[0]))
        return super().check_action(action, parameters)

    def actions_here(self) -> list[Action]:
        """What this node offers at this moment, in the registry's order."""
        return [action for action in ACTIONS if action.scope in self.SCOPES and self.can_act(action.id)]


def method_name(action_id: str) -> str:
    """``lease.renew`` becomes ``act_lease_renew``."""
    return "act_" + action_id.replace(".", "_")
