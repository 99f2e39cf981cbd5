"""Answers as they come over the wire: bounded, parsed, dated, and without the credential that was sent."""

from __future__ import annotations

import asyncio
import json as jsonlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from expb_tui.core.api.failures import BadAnswer, bad_answer

if TYPE_CHECKING:
    import httpx

LARGEST_ANSWER = 32 * 1024 * 1024
"""Bytes; the kit's own client stops there too (contract, section 1.9)."""
_PARSED_IN_THREAD = 256 * 1024
_HARMLESS = frozenset({"accept", "cache-control", "idempotency-key", "if-match", "last-event-id"})
_SECRET_FIELDS = ("device_code", "refresh_token", "token")
_SHORTEST_SECRET = 12
"""Characters; what is shorter would be found in ordinary words."""
_HIDDEN = "(hidden)"


@dataclass(frozen=True, slots=True)
class Answer:
    """A 2xx answer. ``body`` is the parsed JSON, None where there is none."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Any = field(repr=False)
    sent_ticks: float
    """``clock.ticks()`` just before the request was sent: lease arithmetic counts from here (hazards 1)."""
    date: datetime | None
    """The server's ``Date``, aware and in UTC."""
    request_id: str = ""
    request: str = ""
    """Method and path, for words about the answer."""

    @property
    def etag(self) -> str | None:
        return self.headers.get("etag")


class Secrets:
    """The credentials of one request, to be taken out of what a server says about it: some repeat what they got."""

    def __init__(self, token: str, headers: Mapping[str, str], form: Mapping[str, str]) -> None:
        """``headers`` are those beside the bearer: any that is not known to be harmless counts as a credential."""
        found = [token, *(value for name, value in headers.items() if name.lower() not in _HARMLESS)]
        found += [form[name] for name in _SECRET_FIELDS if name in form]
        self._found = [value for value in found if len(value) >= _SHORTEST_SECRET]

    def hidden(self, text: str) -> str:
        """``text`` without them."""
        for value in self._found:
            text = text.replace(value, _HIDDEN)
        return text

    def hidden_in(self, content: bytes) -> bytes:
        """``content`` without them."""
        for value in self._found:
            content = content.replace(value.encode(), _HIDDEN.encode())
        return content


async def content_of(name: str, response: httpx.Response) -> bytes:
    """The whole body. Raises ``BadAnswer`` (too-large)."""
    announced = response.headers.get("content-length", "")
    if announced.isascii() and announced.isdigit() and int(announced[:12]) > LARGEST_ANSWER:
        raise bad_answer(name, "too-large", "it is announced as larger than 32 MiB")
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > LARGEST_ANSWER:
            raise too_large(name)
        parts.append(part)
    return b"".join(parts)


def too_large(name: str) -> BadAnswer:
    """The words for an answer that goes on and on."""
    return bad_answer(name, "too-large", "it is larger than 32 MiB; reading was stopped")


async def parsed(name: str, status: int, content: bytes) -> Any:
    """The JSON value, None where there is none. Raises ``BadAnswer``: html, truncated or not-json."""
    text = content.strip()
    if not text:
        return None
    if text.startswith(b"<"):
        raise bad_answer(name, "html", "it is a web page, not JSON", status)
    try:
        if len(text) > _PARSED_IN_THREAD:
            return await asyncio.to_thread(jsonlib.loads, text)
        return jsonlib.loads(text)
    except RecursionError:
        raise bad_answer(name, "not-json", "it is nested too deeply", status) from None
    except ValueError:
        if text[:1] in b'{["' and text[-1:] not in b'}]"':
            raise bad_answer(name, "truncated", "it ends in the middle", status) from None
        raise bad_answer(name, "not-json", "it is not JSON", status) from None


def date_of(headers: Mapping[str, str]) -> datetime | None:
    """The ``Date`` header, aware and in UTC."""
    from email.utils import parsedate_to_datetime

    try:
        value = parsedate_to_datetime(headers["date"])
    except (KeyError, ValueError, TypeError):
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
