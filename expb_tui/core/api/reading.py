"""Answers as models: tolerant, and with words where one does not fit (contract, section 7)."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from expb_tui.core.api.failures import bad_answer
from expb_tui.core.text import clean

ModelT = TypeVar("ModelT", bound=BaseModel)


def read(model: type[ModelT], body: Any, request: str) -> ModelT:
    """``body`` as a model. Raises ``BadAnswer`` (unexpected-shape), which names places, never values (secrets).

    ``request`` is method and path, for the words.
    """
    try:
        return model.model_validate(body)
    except ValidationError as error:
        places = {".".join(str(part) for part in item["loc"]) or "the whole" for item in error.errors()}
        cause = f"these parts are missing or of another kind: {clean(', '.join(sorted(places)))}"
        raise bad_answer(request, "unexpected-shape", cause) from None


def resource_of(body: Any) -> Any:
    """The envelope in an answer to a write, wrapped as an operation result or bare (section 7, item 7)."""
    return body["resource"] if isinstance(body, dict) and isinstance(body.get("resource"), dict) else body
