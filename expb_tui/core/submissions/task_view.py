"""A task's input laid out for reading, every text cleaned (hazards 17)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from expb_tui.core.submissions.parts import part
from expb_tui.core.text import clean

MAX_TEXT = 20_000
"""Characters of one text that are shown; the rest is counted."""


@dataclass(frozen=True)
class Fact:
    """One line: a short label and a value of one line."""

    label: str
    value: str


@dataclass(frozen=True)
class Section:
    """A titled block, to be read in this order: paragraphs (each may hold line feeds), facts, bullet points, and in
    small print the ``quiet`` facts, such as ids."""

    title: str
    facts: tuple[Fact, ...] = ()
    prose: tuple[str, ...] = ()
    bullets: tuple[str, ...] = ()
    quiet: tuple[Fact, ...] = ()


def sections(role: str, task_input: Mapping[str, Any]) -> list[Section]:
    """The sections of a task, what to do first; what this version does not know comes last, as it was sent.

    ``role`` is not needed to read an input: what is there is shown, whoever it is for.
    """
    rest = dict(task_input)
    out: list[Section] = []
    bullets = _Bullets(out)
    bullets.add("Instructions", _take(rest, "instructions"))
    if objective := _take(rest, "objective"):
        out.extend(_objective(objective))
    if hypothesis := _take(rest, "hypothesis"):
        out.append(_hypothesis(hypothesis))
    bullets.add("Evidence requested", _take(rest, "evidenceRequests", "evidence_requests"))
    if result := _take(rest, "result"):
        out.append(_result("Result under review", result))
    results = _take(rest, "results")
    for number, item in enumerate(results if isinstance(results, list) else [], 1):
        out.append(_result(f"Accepted result {number}", item))
    if target := _take(rest, "target"):
        out.append(Section("Target", prose=(_line(target),)))
    bullets.add("Candidates to combine with", _take(rest, "candidates"), _brief)
    bullets.add("Known hypotheses", _take(rest, "knownHypotheses", "known_hypotheses"), _brief)
    if experiment := _take(rest, "experiment"):
        out.append(_record("Experiment", experiment, ("hypothesisId", "objectiveId")))
    context = _take(rest, "contextId", "context_id")
    out += [_raw(_label(key), value) for key, value in rest.items()]
    if context:
        out.append(Section("Project context", quiet=(Fact("Id", _line(context)),)))
    return out


def number_text(value: Any) -> str:
    """A number without a needless fraction; anything else as one cleaned line."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return _line(value)
    return str(int(value)) if abs(value) < 1e15 and value == int(value) else repr(value)


class _Bullets:
    """Adds a section of bullet points where there are any."""

    def __init__(self, out: list[Section]) -> None:
        self._out = out

    def add(self, title: str, items: Any, words: Any = None) -> None:
        if isinstance(items, list) and items:
            self._out.append(Section(title, bullets=tuple((words or _block)(item) for item in items)))
        elif items:
            self._out.append(_raw(title, items))


def _take(rest: dict[str, Any], *keys: str) -> Any:
    found = None
    for key in keys:
        if key in rest:
            found = rest.pop(key)
    return found


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} … {len(text) - MAX_TEXT} more characters"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def _line(value: Any) -> str:
    return clean(_cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))).strip()


def _block(value: Any) -> str:
    return clean(_cut(_text(value)), multiline=True).strip("\n")


def _label(key: str) -> str:
    """A key of the contract as words: ``hypothesisId`` becomes ``Hypothesis id``."""
    words = re.sub(r"(?<=[a-z0-9])([A-Z])", r" \1", _line(key)).replace("_", " ").lower()
    return words[:1].upper() + words[1:]


def _raw(key: str, value: Any) -> Section:
    return Section(_line(key), prose=(_block(value),))


def _facts(*pairs: tuple[str, Any]) -> tuple[Fact, ...]:
    return tuple(Fact(label, number_text(value)) for label, value in pairs if value not in (None, "", [], {}))


def _prose(*pairs: tuple[str, Any]) -> tuple[str, ...]:
    """Paragraphs; all but the first of them carry their label."""
    shown = [(label, _block(value)) for label, value in pairs if value not in (None, "", [], {})]
    return tuple(f"{label}: {text}" if label else text for label, text in shown)


def _leftover(record: Any, known: tuple[str, ...]) -> tuple[Fact, ...]:
    """Spec fields of a later contract, as they were sent."""
    spec = part(record, "spec")
    if not isinstance(spec, Mapping):
        return ()
    squeezed = {key.lower() for key in known}
    return tuple(
        Fact(_label(key), number_text(value))
        for key, value in spec.items()
        if key.replace("_", "").lower() not in squeezed and value not in (None, "", [], {})
    )


def _quiet(record: Any, *more: tuple[str, Any]) -> tuple[Fact, ...]:
    return _facts(("Phase", part(record, "status", "phase")), *more, ("Id", part(record, "metadata", "uid")))


def _record(title: str, record: Any, known: tuple[str, ...]) -> Section:
    if not isinstance(record, Mapping):
        return _raw(title, record)
    return Section(title, facts=_leftover(record, known), quiet=_quiet(record))


def _quantity(value: Any, unit: Any) -> str:
    return f"{number_text(value)} {_line(unit)}".strip() if value is not None else ""


def _objective(record: Any) -> list[Section]:
    if not isinstance(record, Mapping):
        return [_raw("Objective", record)]
    measure = part(record, "spec", "measure") or {}
    unit = part(measure, "unit") or ""
    section = Section(
        "Objective",
        facts=(
            *_facts(
                ("Name", part(record, "metadata", "name")),
                ("Measure", part(measure, "name")),
                ("Direction", part(measure, "direction")),
                ("Unit", unit),
                ("Baseline", _quantity(part(measure, "baseline"), unit)),
                ("Target", _quantity(part(measure, "target"), unit)),
                ("Best so far", _quantity(part(record, "status", "best", "value"), unit)),
            ),
            *_leftover(record, ("description", "measure", "constraints")),
        ),
        quiet=_quiet(record),
        prose=_prose(("", part(record, "spec", "description"))),
    )
    out = [section]
    constraints = part(record, "spec", "constraints")
    if isinstance(constraints, list) and constraints:
        out.append(Section("Constraints", bullets=tuple(_constraint(item) for item in constraints)))
    return out


def _constraint(item: Any) -> str:
    if not isinstance(item, Mapping):
        return _line(item)
    words = (part(item, "name"), part(item, "operator"), number_text(part(item, "value")), part(item, "unit"))
    return " ".join(_line(word) for word in words if word)


def _hypothesis(record: Any) -> Section:
    if not isinstance(record, Mapping):
        return _raw("Hypothesis", record)
    spec = part(record, "spec") or {}
    effect = part(spec, "expectedEffect")
    risks = part(spec, "risks")
    known = ("statement", "rationale", "plan", "risks", "expectedEffect", "objectiveId", "parentIds")
    return Section(
        "Hypothesis",
        facts=(
            *_facts(
                ("Expected effect", _quantity(part(effect, "value"), part(effect, "unit") or "")),
            ),
            *_leftover(record, known),
        ),
        quiet=_quiet(record, ("Made from", part(spec, "parentIds"))),
        prose=_prose(
            ("", part(spec, "statement")),
            ("Plan", part(spec, "plan")),
            ("Rationale", part(spec, "rationale")),
        ),
        bullets=tuple(f"Risk: {_block(risk)}" for risk in risks) if isinstance(risks, list) else (),
    )


def _result(title: str, record: Any) -> Section:
    if not isinstance(record, Mapping):
        return _raw(title, record)
    spec = part(record, "spec") or {}
    measured = part(spec, "measurement") or {}
    unit = part(measured, "unit") or ""
    known = (
        "conclusion",
        "summary",
        "measurement",
        "constraints",
        "evidence",
        "experimentId",
        "hypothesisId",
        "objectiveId",
    )
    answers = part(spec, "constraints")
    evidence = part(spec, "evidence")
    return Section(
        title,
        facts=(
            *_facts(
                ("Conclusion", part(spec, "conclusion")),
                (_line(part(measured, "name") or "Measured"), _quantity(part(measured, "value"), unit)),
                ("Baseline", _quantity(part(measured, "baseline"), unit)),
                ("Samples", part(measured, "samples")),
                ("Uncertainty", _quantity(part(measured, "uncertainty"), unit)),
                ("Measured at", part(measured, "measuredAt")),
            ),
            *_leftover(record, known),
        ),
        quiet=_quiet(record),
        prose=_prose(("", part(spec, "summary"))),
        bullets=(
            *(_answer(item) for item in (answers if isinstance(answers, list) else [])),
            *(_evidence(item) for item in (evidence if isinstance(evidence, list) else [])),
        ),
    )


def _answer(item: Any) -> str:
    satisfied = part(item, "satisfied")
    verdict = {True: "satisfied", False: "NOT satisfied"}.get(satisfied, "") if isinstance(satisfied, bool) else ""
    value = _quantity(part(item, "value"), part(item, "unit") or "")
    return f"Constraint {_line(part(item, 'name') or '')}: {value} {verdict}".strip()


def _evidence(item: Any) -> str:
    if not isinstance(item, Mapping):
        return _line(item)
    size = part(item, "sizeBytes")
    described = (
        _line(part(item, "uri") or ""),
        _worded("revision", part(item, "revision")),
        _line(part(item, "mediaType") or ""),
        f"{number_text(size)} bytes" if size is not None else "",
        _worded("SHA-256", part(item, "sha256")),
        _line(part(item, "note") or ""),
    )
    head = f"Evidence, {_line(part(item, 'kind') or 'unknown kind')}: {_line(part(item, 'name') or 'without name')}"
    return " · ".join([head, *(words for words in described if words)])


def _worded(word: str, value: Any) -> str:
    return f"{word} {_line(value)}" if value else ""


def _brief(item: Any) -> str:
    """One line about another hypothesis: id, phase, statement."""
    if not isinstance(item, Mapping):
        return _line(item)
    uid, phase = part(item, "uid") or "", part(item, "phase")
    head = f"{_line(uid)} ({_line(phase)})" if phase else _line(uid)
    statement = part(item, "statement")
    return f"{head}: {_line(statement)}" if statement else f"{head} {_line(dict(item))}"
