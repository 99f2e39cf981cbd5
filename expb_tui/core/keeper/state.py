"""What the keeper says of itself, for faces: one small file beside the journal and the lock that the keeper holds.

The file has a fixed size and is overwritten in place with a checksum, so that a full disk does not silence the keeper.
Whether it runs is told by its kernel lock alone, never by the file.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expb_tui.core.clock import Clock, boot_id
from expb_tui.core.errors import SignInNeeded
from expb_tui.core.locks import is_held
from expb_tui.core.paths import state_dir

if TYPE_CHECKING:
    from expb_tui.core.leases.model import HeldPackage

LOCK_NAME = "keeper.lock"
STATE_NAME = "keeper.state"
_ROOM = 32 << 10
"""Bytes of the file, always."""
_MOST_PROBLEMS = 40
_LONGEST_WORDS = 200
_READS = 4
"""How often a file that is being written at this moment is read again."""
_SILENT = 45.0
"""Seconds without a sign of life after which a keeper that holds its lock is not relied on (it was stopped)."""


@dataclass(frozen=True)
class KeeperProblem:
    """Something that the keeper cannot do, in cleaned words without secrets.

    ``package_id`` is empty where it is about all leases of a profile, both where it is about the keeper itself.
    """

    package_id: str
    profile: str
    profile_file: str
    what: str
    cause: str
    next_step: str
    code: str
    since: datetime
    tries: int
    cannot_read: bool = False
    """It has no way to the credential: none of these leases is renewed by it. Otherwise it goes on trying."""

    @property
    def hopeless(self) -> bool:
        """No renewal can be expected of it: it cannot read the credential, or the service refuses it."""
        return self.cannot_read or self.code == SignInNeeded.code


@dataclass(frozen=True)
class KeeperState:
    """The keeper of this host at one moment. Where ``running`` is False the rest is what the last one said."""

    running: bool = False
    pid: int = 0
    since: datetime | None = None
    version: str = ""
    """Of the program that it runs."""
    stay: bool = False
    """It does not end when there is nothing to keep (systemd starts it so)."""
    keeps: int = 0
    """Leases that it renews."""
    next_renewal_at: datetime | None = None
    problems: tuple[KeeperProblem, ...] = ()
    """The oldest ones, at most 40; ``more_problems`` is how many others there are."""
    more_problems: int = 0
    journal_problem: str = ""
    """Why answers are only in its memory now; empty where they are journaled."""
    lent: tuple[str, ...] = ()
    """Profiles whose token it has in its memory only; their renewal ends with it."""
    lent_agents: tuple[tuple[str, str], ...] = ()
    """Endpoint and agent id of every token that it has in its memory only, those of the environment too."""
    idle_end: datetime | None = None
    """When it ends unless a lease to keep appears."""
    end: str = ""
    """How the last one ended: ``idle``, ``stopped``, ``handed over``, ``failed``; empty where it was killed."""
    seen_ticks: float = 0.0
    """Its last sign of life, on the clock that counts suspended time."""
    seen_boot: str = ""
    opaque: str = field(default="", repr=False)
    """Why its state cannot be read although it runs; empty otherwise."""

    def silent(self, clock: Clock) -> bool:
        """It holds its lock and has given no sign of life for a while: it was stopped, or hangs."""
        if not self.running or self.opaque:
            return False
        return self.seen_boot != boot_id() or clock.ticks() - self.seen_ticks > _SILENT

    def problem_of(self, held: HeldPackage) -> KeeperProblem | None:
        """What keeps it from renewing this lease, if anything."""
        for problem in self.problems:
            if problem.package_id:
                if problem.package_id == held.uid:
                    return problem
            elif (problem.profile, problem.profile_file) == (held.profile_name, held.profile_file) != ("", ""):
                return problem
        return None

    def has_token_of(self, held: HeldPackage) -> bool:
        """It has the token of this lease's agent in its memory, lent to it."""
        return self.running and (held.endpoint, held.agent_id) in self.lent_agents

    def keeps_it(self, held: HeldPackage, clock: Clock) -> bool:
        """Whether nobody else needs to renew this lease. False where in doubt: two renewers do no harm."""
        if not self.running or self.opaque or self.silent(clock) or not held.kept:
            return False
        problem = self.problem_of(held)
        if held.state == "renewal overdue" or (problem is not None and problem.hopeless):
            return False
        return bool(held.profile_name) or self.has_token_of(held)


def look(folder: Path | None = None) -> KeeperState:
    """The keeper of this host (of ``folder``, a state folder): at most a file read and a lock probe. Never raises."""
    folder = folder or state_dir()
    running = is_held(folder / LOCK_NAME)
    state, why_not = _read(folder / STATE_NAME)
    if state is None:
        return KeeperState(running=running, opaque=why_not if running else "")
    if running and state.end:  # of the one before: this one has not said anything yet
        return KeeperState(running=True, opaque="it has only just started")
    return replace(state, running=running)


def stamp(folder: Path | None = None) -> object:
    """Changes whenever ``look`` may answer something else; microseconds."""
    folder = folder or state_dir()
    running = is_held(folder / LOCK_NAME)
    try:
        told = os.stat(folder / STATE_NAME)
    except OSError:
        return running, None
    return running, (told.st_ino, told.st_mtime_ns)


def write(folder: Path, state: KeeperState) -> None:
    """Say it; only the keeper that holds the lock does. Blocks briefly. Raises ``OSError``."""
    most = _MOST_PROBLEMS
    while len(content := _content(state, most)) > _ROOM and most:
        most //= 2
    descriptor = os.open(folder / STATE_NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, content.ljust(_ROOM), 0)
    finally:
        os.close(descriptor)


def _content(state: KeeperState, most: int) -> bytes:
    told = replace(
        state,
        problems=tuple(_short(problem) for problem in state.problems[:most]),
        more_problems=state.more_problems + max(0, len(state.problems) - most),
        lent=state.lent[:most],
    )
    body = json.dumps(_plain(told), separators=(",", ":")).encode()
    return b"%08x %d\n" % (zlib.crc32(body), len(body)) + body


def _short(problem: KeeperProblem) -> KeeperProblem:
    return replace(
        problem,
        what=problem.what[:_LONGEST_WORDS],
        cause=problem.cause[:_LONGEST_WORDS],
        next_step=problem.next_step[:_LONGEST_WORDS],
    )


def _plain(state: KeeperState | KeeperProblem) -> dict[str, Any]:
    # Not dataclasses.asdict: it copies deeply, and this is done every second.
    told: dict[str, Any] = {}
    for item in fields(state):
        value = getattr(state, item.name)
        if isinstance(value, datetime):
            value = {"at": value.isoformat()}
        elif item.name == "problems":
            value = [_plain(problem) for problem in value]
        told[item.name] = value
    return told


def _read(path: Path) -> tuple[KeeperState | None, str]:
    for _ in range(_READS):
        try:
            content = path.read_bytes()
        except OSError as error:
            return None, error.strerror or str(error)
        try:
            head, _, rest = content.partition(b"\n")
            digest, size = head.split()
            body = rest[: int(size)]
            if zlib.crc32(body) == int(digest, 16):
                return _state_of(json.loads(body)), ""
        except (ValueError, TypeError, KeyError):
            continue
    return None, "its state file is not readable"


def _state_of(told: dict[str, Any]) -> KeeperState:
    def value(item: Any) -> Any:
        if isinstance(item, dict):
            return datetime.fromisoformat(item["at"])
        return tuple(value(inner) for inner in item) if isinstance(item, list) else item

    # Another version may say more, or less.
    known = {item.name for item in fields(KeeperState)}
    plain = {name: value(item) for name, item in told.items() if name in known and name != "problems"}
    known = {item.name for item in fields(KeeperProblem)}
    problems = tuple(
        KeeperProblem(**{name: value(item) for name, item in problem.items() if name in known})
        for problem in told.get("problems", ())
    )
    return KeeperState(**plain, problems=problems)
