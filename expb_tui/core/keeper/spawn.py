"""Starting the keeper so that it outlives whoever started it, and lending it what it cannot read by itself."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from expb_tui.core.errors import ExpbError
from expb_tui.core.paths import pin_folders, state_dir
from expb_tui.core.secret import environ_for_helpers

if TYPE_CHECKING:
    from expb_tui.core.profiles.session import Session
    from expb_tui.core.settings import Settings

_PATIENCE = 35.0
"""Seconds in which a start must have told how it went; a predecessor may take 30 to hand over."""
_NEXT_STEP = "Leases are renewed while a cockpit is open; see why with: expb-tui keeper --detach"


@dataclass(frozen=True)
class Ensured:
    """Whether a keeper runs now. ``problem`` says why not, or why it does not have the token that it needs."""

    kind: Literal["started", "running", "off", "failed"]
    problem: ExpbError | None = None

    @property
    def runs(self) -> bool:
        """A keeper renews leases now."""
        return self.kind in ("started", "running")


async def ensure(settings: Settings, session: Session | None = None, folder: Path | None = None) -> Ensured:
    """Start the keeper where none runs, or only one of an older version; lend it the token of ``session`` if it needs.

    Never raises; waits until it is at work, which takes about a second, and 35 at most.
    """
    folder = folder or state_dir()
    try:
        ensured = await _running(settings, folder)
        if session is not None and ensured.runs:
            await _introduce(folder, session)
    except ExpbError as problem:
        return Ensured("failed", problem) if not _runs(folder) else Ensured("running", problem)
    return ensured


def command(*arguments: str) -> list[str]:
    """This program, started anew with ``arguments``: by this interpreter, whatever the working directory holds."""
    return [sys.executable, "-P", "-m", "expb_tui", *arguments]


def _runs(folder: Path) -> bool:
    from expb_tui.core.keeper.state import look

    return look(folder).running


async def _running(settings: Settings, folder: Path) -> Ensured:
    from expb_tui import __version__
    from expb_tui.core.clock import SYSTEM_CLOCK
    from expb_tui.core.keeper.state import look
    from expb_tui.core.keeper.versions import newer

    state = look(folder)
    if state.silent(SYSTEM_CLOCK):
        raise ExpbError(
            "The keeper gives no sign of life",
            cause=f"process {state.pid} holds its lock and does nothing; it may be stopped",
            next_step=f"Continue it with: kill -CONT {state.pid}; or end it with: kill -9 {state.pid}",
            code="keeper-silent",
        )
    if state.running and not newer(__version__, state.version):
        return Ensured("running")
    if settings.keeper == "off":
        return Ensured("running" if state.running else "off")
    told = await _start(settings)
    return Ensured("running" if told.get("kind") == "running" else "started")


async def _start(settings: Settings) -> dict[str, Any]:
    """What ``keeper --detach`` says: in a unit of its own where systemd gives one, else only in its own session."""
    environ = environ_for_helpers(os.environ)
    pin_folders(environ)
    if settings.insecure_http:
        environ["EXPB_TUI_INSECURE_HTTP"] = "true"
    plain = command("keeper", "--detach", "--output=json")
    if _user_manager(os.environ):
        # KillUserProcesses ends what belongs to a login; a scope of the user's own manager does not (man systemd-run).
        scope = [shutil.which("systemd-run") or "", "--user", "--scope", "--quiet", "--collect", "--"]
        if scope[0] and (told := await _asked([*scope, *plain], environ)):
            return _checked(told)
    return _checked(await _asked(plain, environ))


def _user_manager(environ: Mapping[str, str]) -> bool:
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    return bool(runtime) and Path(runtime, "systemd", "private").exists()


async def _asked(line: list[str], environ: Mapping[str, str]) -> dict[str, Any]:
    """The answer of a start; empty where it gave none."""
    try:
        child = await asyncio.create_subprocess_exec(
            *line,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise ExpbError(
            "The keeper was not started", cause=error.strerror or str(error), next_step=_NEXT_STEP
        ) from error
    try:
        async with asyncio.timeout(_PATIENCE):
            output, _ = await child.communicate()
        told = json.loads(output)
    except (TimeoutError, ValueError):
        told = {}
    finally:
        if child.returncode is None:  # only the messenger: the keeper is in a session of its own by now
            with suppress(ProcessLookupError):
                child.kill()
    return told if isinstance(told, dict) else {}


def _checked(told: dict[str, Any]) -> dict[str, Any]:
    if told.get("kind") in ("started", "running"):
        return told
    raise ExpbError(
        str(told.get("what") or "The keeper was not started"),
        cause=str(told.get("cause") or "it ended without a word"),
        next_step=str(told.get("next_step") or _NEXT_STEP),
        code=str(told.get("code") or "keeper"),
    )


async def _introduce(folder: Path, session: Session) -> None:
    """Have the keeper look at what was claimed, and lend it the token where it cannot read it (hazards 7)."""
    from expb_tui.core.keeper.control import ask
    from expb_tui.core.keeper.tokens import LentToken

    profile = session.profile
    if not profile.is_agent:
        return
    if session.explicit or not (profile.account_id and profile.agent_id):
        who = await session.principal()
        profile = replace(profile, account_id=who.account_id, agent_id=who.agent_id)
    named = {
        "file": "" if session.explicit else session.profile_file,
        "profile": profile.name,
        "endpoint": session.endpoint,
        "agent": profile.agent_id,
    }
    told = await ask(folder, "speak", named, limit=15.0)
    if told.get("can") or not told.get("known"):
        return
    lent = LentToken(
        session.endpoint, profile.account_id or "", profile.agent_id or "", profile.name, await session.token()
    )
    told = await ask(folder, "lend", lent.plain(), limit=15.0)
    if not told.get("ok"):
        raise ExpbError("The token was not lent to the keeper", cause=str(told.get("why", "")), next_step=_NEXT_STEP)
