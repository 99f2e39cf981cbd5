"""The experimenter's form: one measurement, constraint by constraint, and evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from expb_tui.core.submissions.fields import Choice, Field, Fixed, Kind, read_number
from expb_tui.core.submissions.parts import Built, measure, part, settled, short, word
from expb_tui.wire.research import Constraint


def _constraint_fields(task: Mapping[str, Any]) -> Built:
    fields: list[Field] = []
    fixed: list[Fixed] = []
    known: dict[str, Constraint] = {}
    listed = part(task, "objective", "spec", "constraints")
    for index, item in enumerate(listed if isinstance(listed, list) else []):
        key, path = f"constraint_{index + 1}", f"output.result.constraints.{index}"
        name, unit = word(part(item, "name")), word(part(item, "unit"))
        bound = " ".join(str(part(item, side)) for side in ("operator", "value") if part(item, side) is not None)
        fields.append(
            Field(
                key,
                short(f"{name} {bound} {unit}"),
                Kind.NUMBER,
                required=True,
                unit=short(unit),
                group="Constraints",
                wire_path=f"{path}.value",
                help="The value that you measured; whether it satisfies the constraint is computed.",
            )
        )
        fixed += [Fixed(f"{path}.name", name), Fixed(f"{path}.unit", unit)]
        try:
            known[key] = Constraint.model_validate(item)
        except ValidationError:
            # An operator of a later contract: only the operator can say whether it is satisfied.
            fields.append(
                Field(
                    f"{key}_satisfied",
                    short(f"{name} satisfied"),
                    Kind.BOOL,
                    group="Constraints",
                    wire_path=f"{path}.satisfied",
                )
            )
    return fields, fixed, known


EVIDENCE_COLUMNS = (
    Field(
        "kind",
        "Kind",
        Kind.CHOICE,
        required=True,
        default="artifact",
        choices=tuple(Choice(word, word) for word in ("artifact", "log", "metric", "revision", "note")),
    ),
    Field("name", "Name", Kind.TEXT, help="Taken from the file where it is empty."),
    Field(
        "path", "File", Kind.FILE, help="A file on this host: digest, size and type are computed, the bytes stay here."
    ),
    Field("uri", "Address", Kind.TEXT, help="Where others can get it, e.g. https://artifacts.example.test/r/881"),
    Field("revision", "Revision", Kind.TEXT, help="A commit or version."),
    Field("note", "Note", Kind.PROSE),
)
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+\Z")


def _address_problem(text: str) -> str:
    return "" if _ADDRESS.match(text) else "an address such as https://example.test/report is expected"


def _evidence_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """What is sent for one entry; ``evidence.complete`` has filled in what a file tells."""
    if not any(str(row.get(key) or "").strip() for key in ("path", "uri", "revision", "note", "sha256")):
        raise ValueError("it needs a file, an address, a revision or a note")
    uri = str(row.get("uri") or "").strip()
    if uri and _address_problem(uri):
        raise ValueError(_address_problem(uri))
    name = str(row.get("name") or "").strip() or str(row.get("path") or "").strip().rsplit("/", 1)[-1]
    if not name:
        raise ValueError("it needs a name")
    sent = {
        "kind": row.get("kind"),
        "name": name,
        "uri": uri,
        "mediaType": row.get("media_type"),
        "sizeBytes": row.get("size_bytes"),
        "sha256": row.get("sha256"),
        "revision": str(row.get("revision") or "").strip(),
        "note": str(row.get("note") or "").strip(),
    }
    return {key: value for key, value in sent.items() if value not in (None, "")}


def experimenter(task: Mapping[str, Any]) -> Built:
    base = "output.result"
    asked, fixed = settled(
        f"{base}.experimentId", part(task, "experiment", "metadata", "uid"), "experiment_id", "Experiment id"
    )
    name, fixed_name = settled(f"{base}.measurement.name", measure(task, "name"), "measure_name", "Measure")
    unit, fixed_unit = settled(f"{base}.measurement.unit", measure(task, "unit"), "measure_unit", "Unit")
    shown_unit = short(word(measure(task, "unit")))
    baseline = measure(task, "baseline")
    bounds, fixed_bounds, constraints = _constraint_fields(task)
    fields = [
        *asked,
        Field(
            "conclusion",
            "Conclusion",
            Kind.CHOICE,
            required=True,
            wire_path=f"{base}.conclusion",
            choices=(
                Choice("supported", "supported", "The measurement agrees with the hypothesis."),
                Choice("refuted", "refuted", "The measurement contradicts it."),
                Choice("inconclusive", "inconclusive", "The measurement cannot tell."),
            ),
            help="What the experiment says about the hypothesis.",
        ),
        Field(
            "summary",
            "Summary",
            Kind.PROSE,
            required=True,
            wire_path=f"{base}.summary",
            help="What was done and seen, in a few sentences.",
        ),
        *name,
        Field(
            "value",
            short(f"{word(measure(task, 'name')) or 'Measured value'}"),
            Kind.NUMBER,
            required=True,
            unit=shown_unit,
            group="Measurement",
            wire_path=f"{base}.measurement.value",
            help="The value that you measured, in the objective's unit.",
        ),
        *unit,
        Field(
            "baseline",
            "Baseline",
            Kind.NUMBER,
            unit=shown_unit,
            group="Measurement",
            default=read_number(baseline),
            wire_path=f"{base}.measurement.baseline",
            help="The value without the change.",
        ),
        Field(
            "samples",
            "Samples",
            Kind.NUMBER,
            whole=True,
            group="Measurement",
            wire_path=f"{base}.measurement.samples",
            help="How many runs stand behind the value.",
        ),
        Field(
            "uncertainty",
            "Uncertainty",
            Kind.NUMBER,
            unit=shown_unit,
            group="Measurement",
            wire_path=f"{base}.measurement.uncertainty",
        ),
        Field(
            "measured_at",
            "Measured at",
            Kind.TEXT,
            group="Measurement",
            wire_path=f"{base}.measurement.measuredAt",
            help="An instant with its offset, e.g. 2026-10-05T09:12:30Z",
        ),
        *bounds,
        Field(
            "evidence",
            "Evidence",
            Kind.FILES,
            required=True,
            columns=EVIDENCE_COLUMNS,
            wire_path=f"{base}.evidence",
            item=_evidence_row,
            help="At least one entry. Only references and digests are sent.",
        ),
    ]
    return fields, [*fixed, *fixed_name, *fixed_unit, *fixed_bounds], constraints
