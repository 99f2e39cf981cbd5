"""The service: its name, the way to it, whether it is an Exp-Bench, how its clock differs, and who we are there."""

from __future__ import annotations

import socket
import threading
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from expb_tui.core import faults
from expb_tui.core.api.endpoint import check_endpoint, is_loopback
from expb_tui.core.api.failures import ApiProblem
from expb_tui.core.doctor.model import Circumstances, Finding, State
from expb_tui.core.errors import ExpbError, SignInNeeded
from expb_tui.core.profiles.environment import endpoint_for
from expb_tui.core.profiles.session import REFRESH_AHEAD, Session
from expb_tui.core.settings import Settings

if TYPE_CHECKING:
    from expb_tui.core.api.answers import Answer

_CONFIGURATION = "/v1/service-configuration"
_PRINCIPAL = "/v1/principal"
_ADDRESS = "Check the address, and whether a proxy answers in its place"
_NAME_LIMIT = 3.0
"""Seconds that the name server has."""
_ANSWER_LIMIT = 4.0
"""Seconds for each of the two questions to the service."""
_SKEWED = 5.0
"""Seconds; dates are told in whole ones, and an answer takes its time."""


def endpoint(here: Circumstances) -> list[Finding]:
    """Everything about the service that the chosen credential is for."""
    ours = here.settings or Settings()
    unusable: Finding | None = None
    session: Session | None = None
    try:
        try:
            session = Session.open(
                here.store,
                profile=here.profile,
                endpoint=here.endpoint,
                token=here.token,
                settings=ours,
                clock=here.clock,
            )
            address = session.endpoint
        except SignInNeeded as problem:
            unusable = Finding.of("endpoint.credential", problem, State.WARN)
            profile = here.profile or here.store.read().default or ""
            named = endpoint_for(here.store, profile, here.endpoint)
            address = check_endpoint(named, insecure_http=ours.insecure_http)
    except ExpbError as problem:
        return [Finding.of("endpoint.address", problem)]
    if (unknown := _name(address)) is not None:
        return [unknown]
    return faults.run(_ask(here, ours, address, session or unusable))


def _name(address: str) -> Finding | None:
    """What is wrong with the name; None where it is known, or where a proxy looks it up.

    In a thread of its own, because a name server that does not answer cannot be interrupted.
    """
    parts = urlsplit(address)
    host = parts.hostname or ""
    if not is_loopback(host) and parts.scheme in getproxies() and not proxy_bypass(host):
        return None
    found: list[OSError | None] = []

    def ask() -> None:
        try:
            socket.getaddrinfo(host, parts.port or parts.scheme, type=socket.SOCK_STREAM)
            found.append(None)
        except OSError as error:
            found.append(error)

    asking = threading.Thread(target=ask, name="doctor-name", daemon=True)
    asking.start()
    asking.join(_NAME_LIMIT)
    name = "endpoint.reachable"
    if not found:
        says = f"the name server gives no answer about {host} within {_NAME_LIMIT:.0f} s"
        return Finding(name, State.BAD, says, "Check the network, and the name server in /etc/resolv.conf")
    if found[0] is not None:
        return Finding(name, State.BAD, f"the name {host} is not known", "Check the address and the name server")
    return None


def _patience(ours: Settings) -> float:
    """Seconds for one question: the doctor is quicker to give up than others."""
    return min(_ANSWER_LIMIT, ours.timeout)


async def _ask(here: Circumstances, ours: Settings, address: str, whom: Session | Finding | None) -> list[Finding]:
    from expb_tui.core.api.transport import Transport

    transport = Transport(address, insecure_http=ours.insecure_http, timeout=_patience(ours), clock=here.clock)
    try:
        answer = await transport.send("GET", _CONFIGURATION)
        took = timedelta(seconds=here.clock.ticks() - answer.sent_ticks)
        asked = here.clock.now() - took / 2
    except ApiProblem as problem:
        return [_refused(address, problem)]
    except ExpbError as problem:
        return [Finding.of("endpoint.reachable", problem)]
    finally:
        await transport.aclose()
    findings = [_reached(address, took), _speaks(answer), _clock(answer, asked)]
    if isinstance(whom, Finding):
        findings.append(whom)
    elif whom is not None:
        findings.append(await _credential(here, ours, whom))
    return findings


def _refused(address: str, problem: ApiProblem) -> Finding:
    """Only a server that is in trouble says so about a question that anybody may ask."""
    if problem.status == 429 or problem.status >= 500:
        return Finding.of("endpoint.service", problem)
    says = f"{address} answers with {problem.status}, not as an Exp-Bench service does"
    return Finding("endpoint.service", State.BAD, says, _ADDRESS)


def _reached(address: str, took: timedelta) -> Finding:
    name = "endpoint.reachable"
    says = f"{address} answers in {took.total_seconds() * 1000:.0f} ms"
    if address.startswith("https:"):
        return Finding(name, State.OK, f"{says}, encrypted")
    if is_loopback(urlsplit(address).hostname or ""):
        return Finding(name, State.OK, f"{says}, on this host")
    says += ", not encrypted: tokens can be read on the way"
    return Finding(name, State.WARN, says, "Use its https address")


def _speaks(answer: Answer) -> Finding:
    versions = answer.body.get("api_versions") if isinstance(answer.body, dict) else None
    if isinstance(versions, list) and "v1" in versions:
        return Finding("endpoint.service", State.OK, "it is an Exp-Bench service with API v1")
    if isinstance(versions, list):
        says = f"it is a service with API {', '.join(map(str, versions[:5]))}; this program speaks v1"
        return Finding("endpoint.service", State.BAD, says, "Install the expb-tui that goes with it")
    says = "something answers, but not as an Exp-Bench service does"
    return Finding("endpoint.service", State.BAD, says, _ADDRESS)


def _clock(answer: Answer, asked: datetime) -> Finding:
    name = "clock.skew"
    if answer.date is None:
        return Finding(name, State.UNKNOWN, "the service tells no time")
    # A date is cut to whole seconds: half of one is the best guess.
    off = (asked - answer.date).total_seconds() - 0.5
    if abs(off) <= _SKEWED:
        return Finding(name, State.OK, "this host and the service agree on the time")
    way = "ahead of" if off > 0 else "behind"
    says = f"this host is {abs(off):,.0f} s {way} the service; leases are judged by the service's clock all the same"
    return Finding(name, State.WARN, says, "sudo timedatectl set-ntp true")


async def _credential(here: Circumstances, ours: Settings, session: Session) -> Finding:
    """The doctor spends no refresh token: an access token that is due is left alone."""
    name = "endpoint.credential"
    saved = session.profile
    due = here.clock.now() + timedelta(seconds=REFRESH_AHEAD)
    if not saved.is_agent and saved.expires_at is not None and saved.expires_at <= due:
        says = f"the access token of {saved.name} is due; the next request replaces it"
        return Finding(name, State.OK, says)
    try:
        answer = await session.request("GET", _PRINCIPAL, within=_patience(ours))
    except ExpbError as problem:
        return Finding.of(name, problem)
    finally:
        await session.aclose()
    kind = answer.body.get("type") if isinstance(answer.body, dict) else None
    if kind not in ("user", "agent"):
        return Finding(name, State.BAD, "the service does not say whom the credential speaks for", _ADDRESS)
    says = f"accepted: {saved.name or 'the token'} speaks for {'an agent' if kind == 'agent' else 'a user'}"
    return Finding(name, State.OK, says)
