"""The integrator's form: a change set as a patch file or as a reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from expb_tui.core.submissions.fields import Choice, Condition, Field, Kind
from expb_tui.core.submissions.parts import Built, part, short, word

_ACTIONS = {"a": "add", "m": "modify", "d": "delete", "r": "rename"}


def change_of(line: str) -> dict[str, str]:
    """One changed file: ``modify cache/lookup.py``, ``rename old.py -> new.py``; git's letters are understood too."""
    word, _, rest = line.strip().partition(" ")
    action = _ACTIONS.get(word.lower(), word.lower())
    path = rest.strip()
    if action not in _ACTIONS.values() or not path:
        raise ValueError("it should read like: modify cache/lookup.py")
    if action != "rename":
        return {"path": path, "action": action}
    old, arrow, new = path.partition(" -> ")
    if not arrow or not old.strip() or not new.strip():
        raise ValueError("it should read like: rename old.py -> new.py")
    return {"path": new.strip(), "action": action, "fromPath": old.strip()}


def integrator(task: Mapping[str, Any]) -> Built:
    base = "output.integration"
    results = tuple(
        Choice(uid, short(f"{uid} {word(part(result, 'spec', 'summary') or part(result, 'spec', 'conclusion'))}"))
        for result in part(task, "results") or []
        if (uid := word(part(result, "metadata", "uid")))
    )
    by_patch = (Condition("delivery", frozenset({"patch"})),)
    by_reference = (Condition("delivery", frozenset({"reference"})),)
    fields = [
        Field(
            "result_ids",
            "Results",
            Kind.LIST,
            required=True,
            choices=results,
            default=tuple(choice.value for choice in results),
            wire_path=f"{base}.resultIds",
            help="The accepted results that this change set is made of.",
        ),
        Field(
            "summary",
            "Summary",
            Kind.PROSE,
            required=True,
            wire_path=f"{base}.summary",
            help="What the change does, for the people who will apply it.",
        ),
        Field(
            "target",
            "Target",
            Kind.TEXT,
            required=True,
            default=word(part(task, "target")) or None,
            wire_path=f"{base}.changeSet.target",
            help="The repository that the change is for.",
        ),
        Field(
            "base_revision",
            "Base revision",
            Kind.TEXT,
            required=True,
            wire_path=f"{base}.changeSet.baseRevision",
            help="The commit that the change starts from.",
        ),
        Field(
            "delivery",
            "Delivered as",
            Kind.CHOICE,
            required=True,
            default="patch",
            choices=(
                Choice("patch", "patch file", "The diff itself is sent."),
                Choice("reference", "reference", "A branch, pull request or commit that holds it."),
            ),
        ),
        Field(
            "patch_file",
            "Patch file",
            Kind.FILE,
            required=True,
            wire_path=f"{base}.changeSet.patch",
            visible_when=by_patch,
            help="A unified diff on this host, at most 900000 characters.",
        ),
        Field(
            "reference_uri",
            "Reference",
            Kind.TEXT,
            required=True,
            wire_path=f"{base}.changeSet.reference.uri",
            visible_when=by_reference,
            help="e.g. https://git.example.test/shop/pull/77",
        ),
        Field(
            "reference_revision",
            "Reference revision",
            Kind.TEXT,
            required=True,
            wire_path=f"{base}.changeSet.reference.revision",
            visible_when=by_reference,
            help="The commit there.",
        ),
        Field(
            "changes",
            "Changes",
            Kind.LIST,
            wire_path=f"{base}.changeSet.changes",
            item=change_of,
            help="One file a line: add, modify, delete or rename, e.g. modify cache/lookup.py or rename a.py -> b.py. "
            "Left empty beside a patch file, it is read from there.",
        ),
        Field(
            "verification",
            "Verification",
            Kind.PROSE,
            wire_path=f"{base}.verification",
            help="How you know that it works.",
        ),
    ]
    return fields, [], {}
