"""Request bodies: read within their bound, parsed, and validated by the model that the operation names."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.types import Message, Receive

from expb_tui.server.problems import Problem, shape_problem
from expb_tui.server.resources import Command, Patch
from expb_tui.server.store.columns import is_storable


def read_body(body: type[BaseModel] | Patch, raw: bytes) -> Any:
    """The validated body: a model, an ``Edit`` or a ``Command``. Raises 400 ``invalid-json`` or 422 ``validation``."""
    if isinstance(body, Patch):
        return _read_patch(body, raw)
    _json_object(raw)
    return _validated(body, raw)


def _read_patch(patch: Patch, raw: bytes) -> Any:
    value = _json_object(raw)
    if "operation" not in value:
        if patch.edit is None:
            raise Problem(422, "validation", "Send a command.", fields={"operation": "is required"}, shape=True)
        return _validated(patch.edit, raw)
    extra = {key: "is not known here" for key in value if key != "operation"}
    if extra:
        raise Problem(422, "validation", "A command has one key.", fields=extra, shape=True)
    verb = value["operation"]
    if not isinstance(verb, str) or verb not in patch.verbs:
        known = ", ".join(patch.verbs) or "none"
        raise Problem(
            422, "validation", "Unknown command.", fields={"operation": f"must be one of: {known}"}, shape=True
        )
    return Command(verb, patch.verbs[verb])


def _json_object(raw: bytes) -> dict[str, Any]:
    try:
        value = from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise invalid_json() from error
    if not isinstance(value, dict):
        raise Problem(
            422, "validation", "The body must be an object.", fields={"body": "must be an object"}, shape=True
        )
    # Half a surrogate pair is no JSON for the parser; a NUL comes in only as this escape.
    if b"\\u0000" in raw and (place := _unstorable_at(value, "body")) is not None:
        fields = {place: "holds a character that cannot be stored"}
        raise Problem(422, "validation", "The input is not valid.", fields=fields, shape=True)
    return value


def _unstorable_at(value: Any, path: str) -> str | None:
    """Where the first text is that cannot be stored."""
    if isinstance(value, str):
        return None if is_storable(value) else path
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        if not all(is_storable(key) for key in value):
            return path
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    for key, part in parts:
        found = _unstorable_at(part, str(key) if path == "body" else f"{path}.{key}")
        if found is not None:
            return found
    return None


def _validated(model: type[BaseModel], raw: bytes) -> BaseModel:
    try:
        return model.model_validate_json(raw, strict=True, extra="forbid")
    except ValidationError as error:
        raise shape_problem(error) from None


async def read_bytes(receive: Receive, headers: Mapping[str, str], limit: int, seconds: float) -> bytes:
    """The request body. Raises 413 as soon as it is known to be too long, 408 where it does not come in time."""
    declared = headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            while True:
                message: Message = await receive()
                if message["type"] == "http.disconnect":
                    raise Problem(400, "invalid-json", "The request ended before its body.", shape=True)
                body += message.get("body", b"")
                if len(body) > limit:
                    raise _too_large(limit)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        late = f"The body did not come within {seconds:g} s."
        raise Problem(408, "request-timeout", late, headers={"Connection": "close"}, shape=True) from None


def _too_large(limit: int) -> Problem:
    return Problem(413, "body-too-large", f"A body may have {limit} bytes.", shape=True)


def invalid_json() -> Problem:
    """400: the body is not JSON at all."""
    return Problem(400, "invalid-json", "The body is not valid JSON.", fields={"body": "is not valid JSON"}, shape=True)
