"""The OpenAPI 3.1 document, generated from the registry that also routes and validates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.responses import JSONResponse

import expb_tui
from expb_tui.server.context import Exchange
from expb_tui.server.resources import Patch
from expb_tui.server.routing import (
    FORM_TYPE,
    HTML_TYPE,
    JSON_TYPE,
    MERGE_PATCH_TYPE,
    Operation,
    Operations,
    Param,
    Who,
)
from expb_tui.wire.oauth import OAuthError
from expb_tui.wire.problem import MEDIA_TYPE, Problem

PATH = "/openapi.json"
_TYPES: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer", "minimum": 0, "maximum": 999_999_999},
    "boolean": {"type": "boolean"},
    "instant": {"type": "string", "format": "date-time"},
}


def document_operations(operations: Sequence[Operation]) -> Operations:
    """The operation that answers the document about ``operations`` (and itself)."""
    own = Operations("document")

    @own.get(PATH, "readDocument", "This document", who=Who.ANYONE, raw=True, answers={200: None})
    async def read_document(exchange: Exchange) -> JSONResponse:
        return JSONResponse(document(), headers={"Cache-Control": "no-cache"})

    @cache
    def document() -> dict[str, Any]:
        return build_document([*operations, *own.all])

    return own


def build_document(operations: Sequence[Operation]) -> dict[str, Any]:
    """The document as a JSON value."""
    schemas = _Schemas(operations)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Exp-Bench, local server of expb-tui",
            "version": expb_tui.__version__,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


class _Schemas:
    """JSON schemas of all bodies (strict) and answers, as components."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        bodies: dict[type[BaseModel], None] = {}
        answers: dict[type[BaseModel], None] = {Problem: None, OAuthError: None}
        for operation in operations:
            body = operation.body.edit if isinstance(operation.body, Patch) else operation.body
            if body is not None:
                bodies[body] = None
            answers.update({model: None for model in operation.answers.values() if model is not None})
        self._bodies, strict = models_json_schema(
            [(model, "validation") for model in bodies], ref_template="#/components/schemas/{model}.input"
        )
        self._answers, loose = models_json_schema(
            [(model, "serialization") for model in answers], ref_template="#/components/schemas/{model}"
        )
        forms = {
            operation.body.__name__ for operation in operations if operation.raw and isinstance(operation.body, type)
        }
        self.components = {
            # Unknown fields of a form are ignored, as OAuth wants it (RFC 6749, section 3.2).
            **{
                f"{name}.input": schema if name in forms else _strict(schema)
                for name, schema in strict.get("$defs", {}).items()
            },
            **{name: _readable(schema) for name, schema in loose.get("$defs", {}).items()},
        }

    def body(self, model: type[BaseModel]) -> Any:
        return self._bodies[model, "validation"]

    def answer(self, model: type[BaseModel]) -> Any:
        return self._answers[model, "serialization"]


def _strict(schema: Any) -> Any:
    """The schema of a body, in which unknown keys are refused."""
    if isinstance(schema, list):
        return [_strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _strict(part) for key, part in schema.items() if key != "title" or not isinstance(part, str)}
    if isinstance(schema.get("properties"), dict) or schema.get("additionalProperties") is True:
        made["additionalProperties"] = False
    return made


def _readable(schema: Any) -> Any:
    """The schema of an answer; secrets are write-only for pydantic, but here they are answered once."""
    if isinstance(schema, list):
        return [_readable(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _readable(part) for key, part in schema.items() if key != "writeOnly"}


def _operation(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": _parameters(operation),
        "responses": _responses(operation, schemas),
        "security": [] if operation.who is Who.ANYONE else [{"bearer": []}],
    }
    if operation.body is not None:
        made["requestBody"] = {"required": True, "content": _body_content(operation, schemas)}
    return made


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    parameters = [
        {"name": part[1:-1], "in": "path", "required": True, "schema": {"type": "string", "format": "uuid"}}
        for part in operation.path.split("/")
        if part.startswith("{")
    ]
    parameters += [_parameter(param, "query") for param in operation.query]
    parameters += [_parameter(param, "header") for param in operation.headers]
    if operation.idempotent:
        key = {"type": "string", "minLength": 1, "maxLength": 200}
        parameters.append({"name": "Idempotency-Key", "in": "header", "required": True, "schema": key})
    if operation.method == "PATCH":
        tag = {"type": "string", "pattern": '^"[1-9][0-9]{0,8}"$'}
        parameters.append({"name": "If-Match", "in": "header", "required": True, "schema": tag})
    return parameters


def _parameter(param: Param, place: str) -> dict[str, Any]:
    schema = dict(_TYPES[param.type])
    if param.choices:
        schema["enum"] = list(param.choices)
    made: dict[str, Any] = {"name": param.name, "in": place, "required": param.required, "schema": schema}
    if param.description:
        made["description"] = param.description
    return made


def _body_content(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    body = operation.body
    if isinstance(body, Patch):
        choices = [] if body.edit is None else [schemas.body(body.edit)]
        if body.verbs:
            choices.append(
                {
                    "type": "object",
                    "properties": {"operation": {"type": "string", "enum": list(body.verbs)}},
                    "required": ["operation"],
                    "additionalProperties": False,
                }
            )
        schema = choices[0] if len(choices) == 1 else {"oneOf": choices}
        return {JSON_TYPE: {"schema": schema}, MERGE_PATCH_TYPE: {"schema": schema}}
    assert body is not None
    return {FORM_TYPE if operation.raw else JSON_TYPE: {"schema": schemas.body(body)}}


def _responses(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for status, model in operation.answers.items():
        schema = {} if model is None else {"schema": schemas.answer(model)}
        made[str(status)] = {"description": "Success", "content": {operation.media: schema}}
        if operation.media == JSON_TYPE and not operation.raw:
            made[str(status)]["headers"] = {"X-Request-ID": {"schema": {"type": "string", "format": "uuid"}}}
    for status in sorted(_problem_statuses(operation)):
        made[str(status)] = {"description": "Problem", "content": _problem_content(operation, status, schemas)}
    return made


def _problem_statuses(operation: Operation) -> set[int]:
    if operation.path.startswith("/oauth/"):
        form = {400, 403, 408, 413} if operation.method == "POST" else set()
        return form | {421, 429, 500, 503}
    statuses = {421, 500, 503, *operation.problems}
    if not operation.raw:
        statuses |= {400, 404, 406}
    if operation.query:
        statuses.add(400)
    if operation.who is not Who.ANYONE:
        statuses |= {401, 403, 404}
    if operation.writes:
        statuses |= {408, 409, 413, 415, 422, 429}
    if operation.method == "PATCH":
        statuses |= {412, 428}
    return statuses


def _problem_content(operation: Operation, status: int, schemas: _Schemas) -> dict[str, Any]:
    problem = {MEDIA_TYPE: {"schema": schemas.answer(Problem)}}
    oauth = {JSON_TYPE: {"schema": schemas.answer(OAuthError)}}
    if not operation.path.startswith("/oauth/"):
        return problem
    if status == 429:
        # The gate answers every form in the shape of OAuth; the page has words of its own for too many tries.
        return {**oauth, HTML_TYPE: {}} if operation.media == HTML_TYPE else oauth
    return {HTML_TYPE: {}} if status in (403, 421) or operation.media == HTML_TYPE else oauth
