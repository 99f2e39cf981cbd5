"""The registry of actions: keys that a terminal can send, no clash on the way outwards, and everything made from it."""

from __future__ import annotations

import re

import pytest

from expb_tui.tui.actions import ACTIONS, BY_ID, SCOPES, Keymap, bindings, markdown_table, show_key
from expb_tui.tui.app import CockpitApp
from expb_tui.tui.panes.leases import LeasesPane
from expb_tui.tui.panes.package import PackagePane
from expb_tui.tui.panes.profiles import ProfilesPane
from expb_tui.tui.panes.work import WorkPane
from expb_tui.tui.screens.cockpit import CockpitScreen
from expb_tui.tui.screens.confirm import ConfirmScreen
from expb_tui.tui.widgets.acts import Acts, method_name

SAME_BYTES_AS_OTHERS = {"ctrl+m", "ctrl+h", "ctrl+i", "ctrl+[", "ctrl+a", "ctrl+s", "ctrl+enter"}
"""Style, section 7: what a terminal cannot tell apart, and what screen and XON take."""

NODES: tuple[type[Acts], ...] = (
    CockpitApp,
    CockpitScreen,
    ProfilesPane,
    WorkPane,
    LeasesPane,
    PackagePane,
    ConfirmScreen,
)


def test_ids_and_scopes_are_known_and_unique() -> None:
    assert len({action.id for action in ACTIONS}) == len(ACTIONS)
    assert {action.scope for action in ACTIONS} <= set(SCOPES)
    assert all(action.help.endswith(".") for action in ACTIONS)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.id)
def test_keys_can_be_sent_by_any_terminal(action: object) -> None:
    keys = BY_ID[action.id].keys  # type: ignore[attr-defined]  # parametrized with actions
    assert keys
    for key in keys:
        assert key not in SAME_BYTES_AS_OTHERS
        assert not key.startswith(("alt+", "ctrl+shift+"))
        assert not re.fullmatch(r"f(?!1$)\d+", key)


def test_lower_case_keys_never_change_remote_state() -> None:
    """Outside dialogs, which are the question themselves."""
    for action in ACTIONS:
        if action.dangerous and action.scope in ("global", "profiles", "work", "leases", "package", "task"):
            assert all(len(key) == 1 and key.isupper() for key in action.keys), action.id


@pytest.mark.parametrize("scope", [scope for scope in SCOPES if scope in ("profiles", "work", "leases", "package")])
def test_no_key_means_two_things_in_a_pane(scope: str) -> None:
    seen: dict[str, str] = {}
    for action in ACTIONS:
        if action.scope in (scope, "list", "global"):
            for key in action.keys:
                assert key not in seen, f"{key}: {seen.get(key)} and {action.id}"
                seen[key] = action.id


@pytest.mark.parametrize("node", NODES, ids=lambda node: node.__name__)
def test_every_action_of_a_scope_is_carried_out_by_its_node(node: type[Acts]) -> None:
    for action in ACTIONS:
        if action.scope in node.SCOPES and action.scope != "list":
            if node is PackagePane and action.id in ("package.edit", "package.fail", "package.receipts"):
                continue  # of the package's own screen
            assert hasattr(node, method_name(action.id)), action.id


def test_bindings_carry_the_ids_that_a_keymap_changes() -> None:
    # For mypy: ours are Bindings, never tuples.
    bound = {binding.id: binding for binding in bindings("leases")}  # type: ignore[union-attr]
    assert bound["lease.renew"].key == "R"  # type: ignore[union-attr]  # ours are Bindings, never tuples
    # For mypy: ours are Bindings, never tuples.
    assert bound["lease.renew"].action == "act('lease.renew')"  # type: ignore[union-attr]


def test_a_keymap_says_what_it_cannot_take() -> None:
    keymap = Keymap({"lease.renw": "z", "lease.renew": "C", "lease.release": "Z", "list.filter": ""})
    assert [problem.split(";")[0] for problem in keymap.problems] == [
        "Setting keys: there is no action lease.renw, did you mean lease.renew?",
        "Setting keys: C of lease.renew is the key of work.claim",
        "Setting keys: list.filter has no key",
    ]
    assert keymap.shown("lease.renew") == "R"
    assert keymap.shown("lease.release") == "Z"
    assert keymap.changed == {"lease.release": ("Z",)}


def test_the_key_table_names_every_action_once() -> None:
    table = markdown_table()
    for action in ACTIONS:
        assert table.count(f"| {action.help} |") >= 1
    assert "| `R` | Renew (asks) | `lease.renew` |" in table
    assert show_key("ctrl+p") == "Ctrl+p"
