"""Every action of the screens' scopes is carried out by a node that binds it."""

from __future__ import annotations

import pytest

from expb_tui.tui.actions import ACTIONS, SCOPES
from expb_tui.tui.screens.answer import AnswerPanel
from expb_tui.tui.screens.claim import ClaimScreen
from expb_tui.tui.screens.login import LoginScreen
from expb_tui.tui.screens.notices import NoticesScreen
from expb_tui.tui.screens.package import WholePackage
from expb_tui.tui.screens.submit import ReceiptScreen, ReceiptsScreen, SubmitScreen
from expb_tui.tui.screens.task_text import TaskText
from expb_tui.tui.widgets.acts import Acts, method_name

NODES: dict[str, tuple[type[Acts], ...]] = {
    "login": (LoginScreen,),
    "whole": (WholePackage,),
    "package": (WholePackage,),
    "task": (TaskText,),
    "form": (AnswerPanel,),
    "claim": (ClaimScreen,),
    "submit": (SubmitScreen,),
    "receipt": (ReceiptScreen, ReceiptsScreen),
    "notices": (NoticesScreen,),
}


@pytest.mark.parametrize("scope", NODES)
def test_every_action_of_a_screen_is_carried_out(scope: str) -> None:
    assert scope in SCOPES
    for action in ACTIONS:
        if action.scope == scope:
            able = [node for node in NODES[scope] if hasattr(node, method_name(action.id))]
            assert able, action.id
            assert all(scope in node.SCOPES for node in able)


def test_what_sends_is_hidden_from_readers_only() -> None:
    dangerous = {action.id for action in ACTIONS if action.dangerous}
    assert {"claim.ask", "submit.send", "task.submit", "task.fail", "package.submit", "package.fail"} <= dangerous
