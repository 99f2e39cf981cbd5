"""This host: editor and pager, keyring, the clock that counts suspended time, and who renews with nobody logged in."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from expb_tui.core import logind
from expb_tui.core.doctor.model import Circumstances, Finding, State
from expb_tui.core.errors import ExpbError
from expb_tui.core.keeper.state import KeeperState, look
from expb_tui.core.profiles import secrets
from expb_tui.core.programs import editor_command, pager_command

_KEEPER = "expb-tui keeper install"
_MODELINES = "vim", "nvim", "vi", "view", "vimx", "gvim"


def programs(here: Circumstances) -> list[Finding]:
    """Editor and pager, as the cockpit would start them."""
    ours = here.settings
    return [
        _program("editor", editor_command, ours.editor if ours else "", here.environ),
        _program("pager", pager_command, ours.pager if ours else "", here.environ),
    ]


def _program(
    noun: str,
    command: Callable[[str | None, Mapping[str, str]], list[str]],
    configured: str,
    environ: Mapping[str, str],
) -> Finding:
    try:
        words = command(configured, environ)
    except ExpbError as problem:
        usual = "vi" if noun == "editor" else "less"
        variable = "VISUAL" if noun == "editor" and environ.get("VISUAL") else noun.upper()
        mend = f'{noun} = "{usual}" in config.toml' if configured else f"export {variable}={usual}"
        return Finding(f"programs.{noun}", State.WARN, problem.lines()[0], mend)
    tame = {"less": "; it runs without filters and commands (LESSSECURE)"}.get(Path(words[0]).name, "")
    if Path(words[0]).name in _MODELINES:
        tame = "; settings inside files are broken up before it sees them"
    return Finding(f"programs.{noun}", State.OK, " ".join(words) + tame)


def keyring(here: Circumstances) -> list[Finding]:
    """Whether secrets may go to the system keyring, and whether those that are there can be read."""
    if here.settings is None:
        return []
    state = secrets.probe(fresh=True)
    try:
        saved = here.store.read().by_name.values()
    except ExpbError:
        saved = ()  # type: ignore[assignment]  # told by the profiles' own examination
    inside = sorted(profile.name for profile in saved if profile.in_keyring)
    agents = sorted(profile.name for profile in saved if profile.in_keyring and profile.is_agent)
    if not state.usable and inside:
        says = f"{state.reason}; the credentials of {', '.join(inside)} are in it and cannot be read here"
        mend = "Unlock it, or sign in again: " + _each("expb-tui --profile={} auth login", inside)
        return [Finding("keyring.use", State.BAD, says, mend)]
    if not state.usable:
        return [Finding("keyring.use", State.OK, f"not used: {state.reason}; credentials are in the 0600 file")]
    if agents and not state.unattended:
        says = f"{state.reason}, but only while you are logged in: nobody renews for {', '.join(agents)} after that"
        mend = _each("expb-tui profile unsecure {}", agents)
        return [Finding("keyring.use", State.WARN, says, mend)]
    where = "also with nobody logged in" if state.unattended else "while you are logged in, so agents use the 0600 file"
    return [Finding("keyring.use", State.OK, f"{state.reason}, {where}")]


def _each(command: str, profiles: Sequence[str]) -> str:
    """``command`` for each of the first profiles, as a shell takes it."""
    return "; ".join(command.format(shlex.quote(name)) for name in profiles[:3])


def clock(here: Circumstances) -> list[Finding]:
    """Whether deadlines count the time that the host sleeps (hazards 1)."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return [Finding("clock.suspend", State.OK, "time asleep is counted (CLOCK_BOOTTIME)")]
    says = "this system has no CLOCK_BOOTTIME: time asleep is found by the wall clock, so that must be right"
    return [Finding("clock.suspend", State.WARN, says, "Let the system set its clock by the network (NTP)")]


def keeper(here: Circumstances) -> list[Finding]:
    """Who renews now, and what happens to that when the session ends (hazards 7)."""
    state = look(here.journal.parent)
    return [_keeper(here, state), *_problems(state), *_lent(state), *_afterwards(state)]


def _keeper(here: Circumstances, state: KeeperState) -> Finding:
    name = "keeper.process"
    if state.running and state.silent(here.clock):
        says = f"process {state.pid} holds its lock and gives no sign of life: it was stopped, or hangs"
        return Finding(name, State.BAD, says, f"kill -CONT {state.pid}, or: expb-tui keeper stop")
    if state.running and state.journal_problem:
        says = f"it renews, but what it is told is only in its memory: {state.journal_problem}"
        return Finding(name, State.BAD, says, "Free some space where the journal is; see journal.room")
    if state.running:
        told = f"process {state.pid} keeps {state.keeps} lease{'' if state.keeps == 1 else 's'}"
        return Finding(name, State.OK, told if state.pid else "it runs")
    if here.settings is not None and here.settings.keeper == "off":
        says = f"none is started ({here.settings.source('keeper')}): leases are renewed while a cockpit is open"
        return Finding(name, State.WARN, says, 'unset EXPB_TUI_KEEPER, or keeper = "auto" in config.toml')
    if state.end == "stopped":
        return Finding(
            name, State.WARN, "it was stopped: only an open cockpit renews leases", "expb-tui keeper --detach"
        )
    return Finding(name, State.OK, "none runs; the cockpit and claims start it")


def _problems(state: KeeperState) -> list[Finding]:
    if not state.running:
        return []
    findings = []
    for problem in state.problems[:5]:
        about = problem.package_id or (f"profile {problem.profile}" if problem.profile else "")
        says = ": ".join(part for part in (about, problem.what, problem.cause) if part)
        findings.append(Finding("keeper.problem", State.BAD, says, problem.next_step))
    return findings


def _lent(state: KeeperState) -> list[Finding]:
    if not (state.running and state.lent):
        return []
    says = f"it has the tokens of {', '.join(state.lent)} in its memory only: renewing them ends with it"
    mend = _each("expb-tui profile unsecure {}", state.lent)
    return [Finding("keeper.lent", State.WARN, says, mend)]


def _afterwards(state: KeeperState) -> list[Finding]:
    kills, lingers = logind.kills_user_processes(), logind.lingers()
    if lingers is None:
        says = "no systemd here: a detached keeper outlives the session, and nothing starts it after a reboot"
        return [Finding("keeper.lingering", State.OK, says)]
    findings = []
    if kills:
        says = "the host ends what a session started (KillUserProcesses=yes): only a service outlives it"
        mend = f"{_KEEPER} && {logind.LINGER}"
        findings.append(Finding("keeper.kill-user-processes", State.OK if lingers else State.WARN, says, mend))
    elif kills is None:
        says = "whether the host ends what a session started could not be found out"
        findings.append(
            Finding("keeper.kill-user-processes", State.UNKNOWN, says, "loginctl show-session -p KillUserProcesses")
        )
    else:
        says = "a detached keeper outlives the session (KillUserProcesses=no)"
        findings.append(Finding("keeper.kill-user-processes", State.OK, says))
    if lingers:
        findings.append(Finding("keeper.lingering", State.OK, "your services run with nobody logged in"))
    else:
        says = "your services end with your last session, and do not start at boot"
        findings.append(Finding("keeper.lingering", State.WARN, says, logind.LINGER))
    return findings
