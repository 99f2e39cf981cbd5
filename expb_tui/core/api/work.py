"""Opportunities and work packages as typed calls over a ``Session`` (contract, section 6.2).

Nothing public fixes these paths, so they stand in one table that settings may override (section 7, item 1), and every
answer is read tolerantly: either spelling, wrapped or bare, a lease token in any of the known places.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pydantic import ValidationError

from expb_tui.core.api.failures import ApiProblem, BadAnswer, bad_answer
from expb_tui.core.api.lists import pages
from expb_tui.core.api.offers import OPPORTUNITIES, Offer, OfferPage, offer_pages
from expb_tui.core.errors import UsageError
from expb_tui.core.secret import SecretStr, is_token
from expb_tui.core.text import clean
from expb_tui.wire.base import RESEARCH_GROUP
from expb_tui.wire.work import LEASE_HEADER, WorkPackage

if TYPE_CHECKING:
    from expb_tui.core.api.transport import Answer
    from expb_tui.core.profiles.session import Session

ROUTES: Mapping[str, str] = {
    "opportunities": OPPORTUNITIES,
    "claim": "/v1/projects/{project}/work-packages",
    "claim-alias": "/v1/work-packages",
    "packages": "/v1/projects/{project}/work-packages",
    "package": "/v1/work-packages/{package}",
    "renewals": "/v1/work-packages/{package}/renewals",
    "submissions": "/v1/work-packages/{package}/submissions",
}
"""The paths of the work API by what they are for; the settings' table ``routes`` overrides them by these names."""

LARGEST_COUNT = 2**53
"""A version or count beyond it says nothing: it is no number that JSON carries safely."""
_TOKEN_KEYS = ("leaseToken", "lease_token", "token")
_WRAPPERS = ("resource", "package")


@dataclass(frozen=True)
class PackageAnswer:
    """An answer about one package. ``package`` is None for the empty package.

    ``document`` is the envelope without any lease token, ``raw`` the whole answer as it came, token included.
    """

    package: WorkPackage | None
    document: dict[str, Any]
    token: SecretStr | None
    raw: Any = field(repr=False)
    answer: Answer

    @property
    def version(self) -> int:
        """From the envelope, else from the ETag; 0 where neither tells."""
        if self.package is not None and self.package.metadata.version is not None:
            told = self.package.metadata.version
        else:
            digits = (self.answer.etag or "").strip('"')
            told = int(digits) if digits.isdecimal() and len(digits) < 20 else 0
        return told if 0 <= told <= LARGEST_COUNT else 0

    @property
    def says_empty(self) -> bool:
        """This answer to a claim says that there is no work; others without a package say nothing at all."""
        if not isinstance(self.raw, dict):
            return self.answer.status == 204
        inner = _inner(self.raw)
        enveloped = isinstance(inner, dict) and (inner is not self.raw or "metadata" in inner)
        return inner is None or (enveloped and not self.document["metadata"].get("uid"))


@dataclass(frozen=True)
class SubmissionAnswer:
    """The record that a submission made (kind and id are empty where the answer names none), and its package."""

    record_kind: str
    record_id: str
    package: PackageAnswer | None
    raw: Any = field(repr=False)
    answer: Answer


class WorkApi:
    """The work routes with one set of paths and one lease header. Every method may raise a ``RequestFailure``."""

    def __init__(self, *, lease_header: str = LEASE_HEADER, routes: Mapping[str, str] | None = None) -> None:
        self._header = lease_header
        self._routes = {**ROUTES, **(routes or {})}

    def path(self, name: str, *, project: str = "", package: str = "") -> str:
        """The path of a route; ids are escaped."""
        return self._routes[name].format(project=quote(project, safe=""), package=quote(package, safe=""))

    async def opportunities(self, session: Session, *, follow: bool = False, **wanted: Any) -> OfferPage:
        """One page of ``offers.offer_pages``, whose words it takes; ``follow`` reads all of them into one."""
        items: list[Offer] = []
        raw: list[dict[str, Any]] = []
        async for page in offer_pages(session, self.path("opportunities"), **wanted):
            items += page.items
            raw += page.raw_items
            if not follow:
                break
        return OfferPage(tuple(items), tuple(raw), page.next, page.total, page.answer)

    async def claim(self, session: Session, project_id: str, role: str, max_tasks: int, *, key: str) -> PackageAnswer:
        """Request work in the documented snake_case; by the alias where the project's route does not exist (6.2.2)."""
        body = {"project_id": project_id, "role": role, "max_tasks": max_tasks}
        try:
            answer = await session.request(
                "POST", self.path("claim", project=project_id), json=body, idempotency_key=key
            )
        except ApiProblem as problem:
            if problem.status not in (404, 405) or problem.documented:
                raise
            answer = await session.request("POST", self.path("claim-alias"), json=body, idempotency_key=key)
        found = package_answer(answer)
        if found.package is None and answer.status not in (200, 204):
            raise _odd(answer, "it names no work package")
        return found

    async def packages(
        self, session: Session, project_id: str, *, query: Mapping[str, Any] | None = None
    ) -> list[PackageAnswer]:
        """Every package of a project that this credential sees; an agent sees its own. Newest first."""
        found: list[PackageAnswer] = []
        async for page in pages(session, self.path("packages", project=project_id), query):
            for item in page.items:
                try:
                    found.append(_read_package({"resource": item}, page.answer))
                except BadAnswer:
                    continue
        return [item for item in found if item.package is not None]

    async def read(self, session: Session, package_id: str, *, in_bulk: bool = False) -> PackageAnswer:
        """The package as it is now; never with a token. ``in_bulk``: one of very many reads."""
        answer = await session.request("GET", self.path("package", package=package_id), in_bulk=in_bulk)
        return _about(package_id, answer)

    async def renew(
        self, session: Session, package_id: str, token: SecretStr, *, key: str, within: float | None = None
    ) -> PackageAnswer:
        """Extend the lease; a token in the answer replaces the old one. ``within``: seconds for an answer."""
        answer = await session.request(
            "POST",
            self.path("renewals", package=package_id),
            json={},
            headers=self._lease(token),
            idempotency_key=key,
            within=within,
            in_bulk=True,
        )
        return _about(package_id, answer)

    async def submit(
        self, session: Session, package_id: str, token: SecretStr, body: Mapping[str, Any], *, key: str
    ) -> SubmissionAnswer:
        """Send one submission, word for word. A 2xx alone confirms nothing: ``confirming.took`` judges the answer."""
        answer = await session.request(
            "POST",
            self.path("submissions", package=package_id),
            json=dict(body),
            headers=self._lease(token),
            idempotency_key=key,
        )
        told = answer.body if isinstance(answer.body, dict) else {}
        kind, uid = _record_in(told)
        package = None
        if isinstance(told.get("package"), dict):
            package = _read_package({"resource": told["package"], **_tokens(told)}, answer)
        elif kind == "work-packages":
            package, kind, uid = _read_package(told, answer), "", ""
        return SubmissionAnswer(kind, uid, package, answer.body, answer)

    async def release(self, session: Session, package_id: str, token: SecretStr, *, version: int) -> PackageAnswer:
        """Give the package back; ``version`` is what was read last (ETag)."""
        answer = await session.request(
            "PATCH",
            self.path("package", package=package_id),
            json={"operation": "release"},
            headers=self._lease(token),
            if_match=f'"{version}"',
        )
        return _about(package_id, answer)

    async def withdraw(self, session: Session, package_id: str, *, version: int) -> PackageAnswer:
        """Take the package away from its agent, as a member of the project (hazards 16)."""
        answer = await session.request(
            "PATCH",
            self.path("package", package=package_id),
            json={"operation": "revoke"},
            if_match=f'"{version}"',
        )
        return _about(package_id, answer)

    def _lease(self, token: SecretStr) -> dict[str, str]:
        return {self._header: token.get_secret_value()}


def package_answer(answer: Answer, *, listed: bool = False) -> PackageAnswer:
    """Read a claim's answer, or with ``listed`` any other answer about a package, where no token is expected."""
    if answer.status == 204 or answer.body is None:
        return PackageAnswer(None, {}, None, answer.body, answer)
    if not isinstance(answer.body, dict):
        raise _odd(answer, "it is not a work package")
    return _read_package(answer.body, answer, listed=listed)


def saved_answer(value: Any) -> tuple[str, SecretStr]:
    """Package id and lease token of a saved answer of ``work request``. Raises ``UsageError`` where one is missing."""
    body = value if isinstance(value, dict) else {}
    inner = next((body[key] for key in _WRAPPERS if isinstance(body.get(key), dict)), body)
    token = _token(body) or _token(inner)
    uid = _envelope(inner)["metadata"].get("uid")
    if not isinstance(uid, str) or not uid:
        raise UsageError("This is no saved answer of work request", cause="it names no package", next_step=_SAVE)
    if token is None:
        raise UsageError(f"The saved answer for {clean(uid)} holds no lease token", next_step=_SAVE, code="token-lost")
    return uid, token


_SAVE = "Save the answer with: agent work request -o json"


def _read_package(body: dict[str, Any], answer: Answer, *, listed: bool = True) -> PackageAnswer:
    """6.2.3: unwrap, find the token, and tell the empty package from a real one."""
    inner = _inner(body)
    token = _token(body)
    if not isinstance(inner, dict):
        return PackageAnswer(None, {}, None, body, answer)
    token = token or _token(inner)
    document = {key: value for key, value in _envelope(inner).items() if key not in _TOKEN_KEYS}
    try:
        package = WorkPackage.model_validate(document)
    except ValidationError:
        raise _odd(answer, "it is not a work package") from None
    empty = not package.uid or (not listed and token is None and not package.status.tasks)
    return PackageAnswer(None if empty else package, document, token, body, answer)


def _record_in(body: dict[str, Any]) -> tuple[str, str]:
    """Kind and id of the record in an answer, wrapped or bare (section 7, items 6 and 7); empty where there is none."""
    record = body.get("resource") if "resource" in body or "metadata" not in body else body
    if not isinstance(record, dict):
        return "", ""
    metadata = record.get("metadata")
    uid = metadata.get("uid") if isinstance(metadata, dict) else record.get("uid") or record.get("id")
    return str(record.get("kind") or ""), uid if isinstance(uid, str) else ""


def _inner(body: dict[str, Any]) -> Any:
    return next((body[key] for key in _WRAPPERS if key in body), body)


def _about(package_id: str, answer: Answer) -> PackageAnswer:
    """An answer about one package; of another one it would be believed about this."""
    found = package_answer(answer, listed=True)
    if found.package is None:
        raise _odd(answer, "it is not a work package")
    if found.package.uid != package_id:
        raise _odd(answer, f"it is about another package, {clean(found.package.uid)[:80]}")
    return found


def _tokens(body: Mapping[str, Any]) -> dict[str, Any]:
    return {key: body[key] for key in _TOKEN_KEYS if key in body}


def _token(body: Mapping[str, Any]) -> SecretStr | None:
    for key in _TOKEN_KEYS:
        value = body.get(key)
        if isinstance(value, str) and is_token(value):
            return SecretStr(value)
    return None


def _envelope(raw: dict[str, Any]) -> dict[str, Any]:
    """A flat object from before the envelope, as an envelope (section 7, item 6); an envelope as it is."""
    if isinstance(raw.get("metadata"), dict):
        spec, status = raw.get("spec"), raw.get("status")
        return {
            "apiVersion": RESEARCH_GROUP,
            "kind": "work-packages",
            **raw,
            "spec": {"role": "", **spec} if isinstance(spec, dict) else {"role": ""},
            "status": status if isinstance(status, dict) else {},
        }
    moved = {
        "uid": raw.get("uid") or raw.get("id"),
        "name": raw.get("name"),
        "account": raw.get("account_id"),
        "project": raw.get("project_id"),
        "version": raw.get("version", raw.get("revision")),
        "creationTimestamp": raw.get("created_at"),
        "updateTimestamp": raw.get("updated_at"),
    }
    phase = raw.get("status") if isinstance(raw.get("status"), str) else raw.get("phase", "")
    return {
        "apiVersion": RESEARCH_GROUP,
        "kind": "work-packages",
        "metadata": {key: value for key, value in moved.items() if value is not None},
        "spec": {"role": raw.get("role") or "", "agentId": raw.get("agent_id"), "maxTasks": raw.get("max_tasks")},
        "status": {"phase": phase, "lease": raw.get("lease"), "tasks": raw.get("tasks") or []},
    }


def _odd(answer: Answer, cause: str) -> BadAnswer:
    failure = bad_answer(answer.request, "unexpected-shape", f"{cause} (request {answer.request_id or 'without id'})")
    failure.next_step = "Check the endpoint, and the routes in config.toml, if you changed them"
    return failure
