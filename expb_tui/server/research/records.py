"""Reading what the loop produced: made by submissions, never edited (contract, section 6.2.2)."""

from __future__ import annotations

from collections.abc import Callable

from expb_tui.server import lists
from expb_tui.server.context import Answer, Call, item
from expb_tui.server.identity.access import require_reader
from expb_tui.server.research.kinds import (
    EXPERIMENTS,
    HYPOTHESES,
    HYPOTHESIS_REVIEWS,
    INTEGRATIONS,
    OBJECTIVES,
    RESULT_REVIEWS,
    RESULTS,
)
from expb_tui.server.resources import Kind
from expb_tui.server.routing import LIST_QUERY, Operations, Who
from expb_tui.wire.base import AnyResource, Page
from expb_tui.wire.research import Objective

operations = Operations("research")

_WORDS = {
    OBJECTIVES: ("Objective", "objective", Objective),
    HYPOTHESES: ("Hypothesis", "hypothesis", AnyResource),
    HYPOTHESIS_REVIEWS: ("HypothesisReview", "review of a hypothesis", AnyResource),
    EXPERIMENTS: ("Experiment", "experiment", AnyResource),
    RESULTS: ("Result", "result", AnyResource),
    RESULT_REVIEWS: ("ResultReview", "review of a result", AnyResource),
    INTEGRATIONS: ("Integration", "integration", AnyResource),
}


def _lister(kind: Kind) -> Callable[[Call], Answer]:
    def list_records(call: Call) -> Answer:
        require_reader(call, call.path["project"])
        return lists.page(call, kind, kind.table.c.project_id == call.path["project"])

    return list_records


def _reader(kind: Kind) -> Callable[[Call], Answer]:
    def read_record(call: Call) -> Answer:
        row = call.fetch(kind, call.path["uid"])
        require_reader(call, row.project_id)
        return item(kind, row)

    return read_record


for _kind, (_word, _title, _model) in _WORDS.items():
    operations.get(
        f"/v1/projects/{{project}}/{_kind.name}",
        f"list{_word}s" if _word != "Hypothesis" else "listHypotheses",
        f"The {_kind.name.replace('-', ' ')} of a project",
        who=Who.EITHER,
        query=LIST_QUERY,
        answers={200: Page[_model]},  # type: ignore[valid-type]  # a model chosen at run time
    )(_lister(_kind))
    operations.get(f"/v1/{_kind.name}/{{uid}}", f"read{_word}", f"One {_title}", who=Who.EITHER, answers={200: _model})(
        _reader(_kind)
    )
