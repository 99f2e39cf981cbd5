"""A thin client for service tests: envelopes, fresh idempotency keys, and problems by their code."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any
from uuid import uuid4

import httpx

from expb_tui.wire.base import IDENTITY_GROUP
from tests.support.server import LocalServer


def envelope(
    kind: str, spec: Mapping[str, Any] | None = None, *, group: str = IDENTITY_GROUP, **metadata: Any
) -> dict[str, Any]:
    """The body of a create."""
    return {"apiVersion": group, "kind": kind, "metadata": metadata, "spec": dict(spec or {})}


class Api:
    """One caller on one server."""

    def __init__(self, server: LocalServer, token: str | None) -> None:
        self.http = server.client(token)

    def __enter__(self) -> Api:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self.http.get(path, params=query)

    def items(self, path: str, **query: Any) -> list[dict[str, Any]]:
        """The items of one page."""
        answer = self.get(path, **query)
        assert answer.status_code == 200, answer.text
        items: list[dict[str, Any]] = answer.json()["items"]
        return items

    def post(self, path: str, body: Any, *, key: str | None = None, **headers: str) -> httpx.Response:
        return self.http.post(path, json=body, headers={"Idempotency-Key": key or str(uuid4()), **headers})

    def make(self, path: str, body: Any) -> dict[str, Any]:
        """A create that must succeed: the resource, out of an operation result too."""
        answer = self.post(path, body)
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made.get("resource", made) if "token" not in made else made

    def patch(self, path: str, body: Any, *, version: int | str | None = 1) -> httpx.Response:
        headers = {} if version is None else {"If-Match": version if isinstance(version, str) else f'"{version}"'}
        return self.http.patch(path, json=body, headers=headers)


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, str]:
    """Check that it is this problem, in every part that problems share; its ``fields``."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert (document["status"], document["code"]) == (status, code), document
    assert document["instance"] == answer.request.url.path
    assert document["requestId"] == answer.headers["x-request-id"]
    assert document.get("type", f"urn:exp-bench:problem:{code}") == f"urn:exp-bench:problem:{code}"
    fields: dict[str, str] = document.get("fields", {})
    return fields
