"""Reading what the loop produced: made by submissions, never edited (contract, section 6.2.2)."""

from __future__ import annotations

from sqlalchemy import ColumnElement

from expb_tui.server.context import Call
from expb_tui.server.identity.access import require_reader
from expb_tui.server.offers import offer_list, offer_read
from expb_tui.server.research.editing import rows_of_project, shown_to
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
from expb_tui.server.routing import Operations
from expb_tui.wire.base import AnyResource, WireModel
from expb_tui.wire.research import Objective

operations = Operations("research")


def _offer(kind: Kind, one: str, many: str, answer: type[WireModel] = AnyResource) -> None:
    """A collection of a project and its items; ``one`` and ``many`` are the words of the document."""

    def readable(call: Call) -> list[ColumnElement[bool]]:
        require_reader(call, call.path["project"])
        return rows_of_project(kind, call)

    words = kind.name.replace("-", " ")
    path = f"/v1/projects/{{project}}/{kind.name}"
    summary = f"The {words} of a project"
    offer_list(operations, kind, path, id=f"list{many}", summary=summary, answer=answer, where=readable)
    offer_read(
        operations,
        kind,
        see=shown_to(kind, require_reader),
        id=f"read{one}",
        summary=f"One of the {words}",
        answer=answer,
    )


_offer(OBJECTIVES, "Objective", "Objectives", Objective)
_offer(HYPOTHESES, "Hypothesis", "Hypotheses")
_offer(HYPOTHESIS_REVIEWS, "HypothesisReview", "HypothesisReviews")
_offer(EXPERIMENTS, "Experiment", "Experiments")
_offer(RESULTS, "Result", "Results")
_offer(RESULT_REVIEWS, "ResultReview", "ResultReviews")
_offer(INTEGRATIONS, "Integration", "Integrations")
