"""Keepers on their own: no desktop, no parent, no files of the program, a home that others use (hazards 7, 8)."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import expb_tui
from expb_tui.core.errors import FileProblem
from expb_tui.core.keeper.control import ask
from expb_tui.core.keeper.state import look
from expb_tui.core.locks import take
from expb_tui.core.profiles import secrets
from expb_tui.launch import House, open_house
from tests.support.desk import AGENT
from tests.support.keeper import (
    PATIENCE,
    PROGRAM,
    Operator,
    keeper,
    keeper_environment,
    no_keeper_left,
    operator,
    state_folder,
    until,
    until_async,
)
from tests.support.loopback import Reply, problem

SUPPORT = Path(__file__).parents[1] / "support" / "keyrings"
BUS = {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent"}
"""What a process has only while somebody is logged in."""


def _at_the_desk(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> House:
    """The faces of that operator in this process."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return open_house()


async def test_a_keyring_that_only_a_desktop_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault: dict[str, Any] = {
        "PYTHON_KEYRING_BACKEND": "keyring_backends.OnDesktop",
        "EXPB_TEST_KEYRING": str(tmp_path / "vault"),
        "PYTHONPATH": str(SUPPORT),
        "EXPB_TUI_KEYRING": "auto",
    }
    async with operator(tmp_path, **vault) as who:
        house = _at_the_desk(monkeypatch, who.environ | BUS)
        assert not (await asyncio.to_thread(secrets.secure, house.store, AGENT)).unattended
        assert (await house.keeping_outlook()).keeper_off
        try:
            with keeper(who.environ) as first:  # without the bus, as systemd or an ssh login starts it
                await asyncio.to_thread(first.at_work)
                outlook = await house.keeping_outlook()
                assert not outlook.unattended
                assert outlook.to_file == AGENT
                assert "Renewal ends with the keeper" in outlook.lines()[0]
                assert f"profile unsecure {AGENT}" in outlook.lines()[1]
                held = await who.claim()
                ensured = await house.ensure_keeper(await house.session())
                assert (ensured.kind, ensured.problem) == ("running", None)
                assert first.state.lent == (AGENT,)
                await who.renewed(held)
                await house.desk.set_kept([held.uid], False)
                first.send(signal.SIGKILL)
                await asyncio.to_thread(first.wait)
            await house.desk.set_kept([held.uid], True)
            who.upstream.lease = 900.0
            await house.desk.renew(await house.session(), held.uid)
            with keeper(who.environ) as second:
                state = await asyncio.to_thread(second.at_work)
                state = await until_async(lambda: second.state, lambda state: bool(state.problems), second.describe)
                (trouble,) = state.problems
                assert (trouble.profile, trouble.cannot_read) == (AGENT, True)
                assert "system keyring" in trouble.cause
                told = await house.desk.get(held.uid)
                assert "system keyring" in told.keeping_problem
                assert not state.keeps_it(told, house.clock)
                await asyncio.sleep(1.5)  # its schedule has been read by then
                assert (second.state.keeps, second.state.next_renewal_at) == (0, None)

                await asyncio.to_thread(secrets.unsecure, house.store, AGENT)
                await until_async(lambda: second.state, lambda state: not state.problems and state.keeps == 1)
                assert (await house.desk.get(held.uid)).keeping_problem == ""
                assert (await house.keeping_outlook()).unattended
        finally:
            await house.aclose()


async def test_a_token_that_no_profile_holds_is_lent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with operator(tmp_path) as who:
        changes = {"EXPBENCH_AGENT_TOKEN": "identity-token", "EXPBENCH_API_SERVER": who.upstream.url}
        house = _at_the_desk(monkeypatch, who.environ | changes)
        assert "its token is in no profile" in (await house.keeping_outlook()).cause
        try:
            with keeper(who.environ) as first:
                await asyncio.to_thread(first.at_work)
                claimed = await house.desk.request(await house.session(), "prj-1", "ideator")
                assert claimed.held is not None
                unheard = await until_async(lambda: first.state, lambda state: bool(state.problems))
                assert unheard.problem_of(claimed.held) is not None
                ensured = await house.ensure_keeper(await house.session())
                assert ensured.problem is None
                assert (await until_async(lambda: first.state, lambda state: not state.problems)).has_token_of(
                    claimed.held
                )
                await who.renewed(claimed.held)
                for place in state_folder(who.environ).rglob("*"):
                    assert not place.is_file() or b"identity-token" not in place.read_bytes(), place
        finally:
            await house.aclose()


async def test_a_moved_profile_gets_nothing_sent_with_a_lent_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lent token is right; the profile that the lease belongs to is not that agent any more (hazards 6)."""
    async with operator(tmp_path, lease=6.0) as who:
        house = _at_the_desk(monkeypatch, who.environ)
        with keeper(who.environ) as process:
            await asyncio.to_thread(process.at_work)
            held = await who.claim()
            saved = house.store.select(AGENT)
            lent = {"endpoint": who.upstream.url, "account": "acc-1", "agent": "agt-1", "profile": AGENT}
            assert await ask(who.state_folder, "lend", {**lent, "token": "identity-token"}) == {"ok": True}
            house.store.put(replace(saved, agent_id="another"))
            await until_async(lambda: process.state, lambda state: bool(state.problems), process.describe)
            before = len(who.upstream.requests)
            await asyncio.sleep(4.5)
            assert len(who.upstream.requests) == before
            assert await who.renewals(held) == 0
        await house.aclose()


async def test_the_program_is_replaced_while_it_runs(tmp_path: Path) -> None:
    """Its files are gone: renewals, failures, stop and words go on with what was imported at the start."""
    site = tmp_path / "site"
    shutil.copytree(Path(expb_tui.__file__).parent, site / "expb_tui", ignore=shutil.ignore_patterns("__pycache__"))
    script = tmp_path / "run.py"
    script.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(site)!r})\n"
        "from expb_tui.core.keeper import start\n"
        "load = start.preload\n"
        "def preload():\n"
        "    load()\n"
        "    class Late:\n"
        "        @staticmethod\n"
        "        def find_spec(name, path=None, target=None):\n"
        f"            print(name, file=open({str(tmp_path / 'late.txt')!r}, 'a'))\n"
        "    sys.meta_path.insert(0, Late)\n"
        "start.preload = preload\n"
        "sys.argv = ['expb-tui', 'keeper']\n"
        "from expb_tui.__main__ import main\n"
        "main()\n"
    )
    async with operator(tmp_path) as who:
        held = await who.claim()
        with keeper(who.environ, program=[sys.executable, "-P", str(script)]) as process:
            await asyncio.to_thread(process.at_work)
            shutil.rmtree(site)
            await who.renewed(held)
            for failure in (
                problem(503, "unavailable", retry_after="1"),
                Reply(200, b"<html>"),
                Reply(200, {"resource": {}}, cut=5),
                problem(401, "unauthorized"),
                problem(409, "idempotency-in-progress"),
            ):
                await _one_failure(who, failure)
            await who.renewed(held)
            assert (await ask(who.state_folder, "stop"))["ok"]
            assert await asyncio.to_thread(process.wait) == 0
            assert "internal error" not in process.words
    late = set((tmp_path / "late.txt").read_text().split()) if (tmp_path / "late.txt").exists() else set()
    assert {name for name in late if find_spec(name) is not None} == set()  # the others are not installed at all


async def _one_failure(who: Operator, reply: Reply) -> None:
    """The next request of a renewal is answered so; then the service is well again."""
    usual = who.upstream.handler
    met = asyncio.Event()

    async def fail(request: object) -> Reply:
        who.upstream.handler = usual
        met.set()
        return reply

    who.upstream.handler = fail
    async with asyncio.timeout(PATIENCE):
        await met.wait()


def test_whoever_started_it_is_let_go(tmp_path: Path) -> None:
    """As over ssh: the login shell has ended, and nothing holds its terminal or its pipes open."""
    environ = keeper_environment(tmp_path)
    with no_keeper_left(environ):
        shell = subprocess.Popen(
            ["/bin/sh", "-c", f"{PROGRAM} keeper --detach; echo done"],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        output, errors = shell.communicate(timeout=PATIENCE * 2)  # returns once every holder of the pipes has gone
        assert output == b"done\n", errors
        state = look(state_folder(environ))
        assert state.running
        fields = Path(f"/proc/{state.pid}/stat").read_text().rpartition(")")[2].split()
        session, terminal = int(fields[3]), int(fields[4])
        assert session not in (shell.pid, os.getsid(0))
        assert terminal == 0
        opened = {os.readlink(f"/proc/{state.pid}/fd/{number}") for number in (0, 1, 2)}
        assert opened == {"/dev/null", str(state_folder(environ) / "keeper.log")}
        os.kill(state.pid, signal.SIGHUP)
        assert look(state_folder(environ)).running
        limits = Path(f"/proc/{state.pid}/limits").read_text()
        assert any(line.split()[:5] == ["Max", "core", "file", "size", "0"] for line in limits.splitlines())
        names = Path(f"/proc/{state.pid}/environ").read_bytes()
        assert b"EXPB_TUI_STATE_DIR" in names


def test_the_token_of_the_environment_is_not_inherited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = keeper_environment(tmp_path, EXPB_TUI_KEEPER="auto", EXPBENCH_AGENT_TOKEN="planted-token")
    house = _at_the_desk(monkeypatch, environ)
    with no_keeper_left(environ):
        ensured = asyncio.run(house.ensure_keeper())
        assert (ensured.kind, ensured.problem) == ("started", None)
        assert asyncio.run(house.ensure_keeper()).kind == "running"
        state = house.keeper()
        assert b"planted-token" not in Path(f"/proc/{state.pid}/environ").read_bytes()
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        assert str(state.pid) not in children


def test_of_many_that_start_at_once_one_is_at_work(tmp_path: Path) -> None:
    environ = keeper_environment(tmp_path)
    folder = state_folder(environ)
    with keeper(environ) as dead:
        dead.at_work()
        dead.send(signal.SIGKILL)
        dead.wait()
    with no_keeper_left(environ):
        starts = [
            subprocess.Popen(
                [PROGRAM, "keeper", "--detach", "-o", "json"],
                env=environ,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for _ in range(6)
        ]
        kinds = sorted(start.communicate(timeout=60)[0].split(b'"')[3] for start in starts)
        assert kinds == [b"running"] * 5 + [b"started"]
        assert until(lambda: look(folder), lambda state: state.running).pid


def test_a_hundred_takeovers_of_a_stale_lock_have_one_winner(tmp_path: Path) -> None:
    """The lock's file names a dead process; a hundred others want it at the same moment."""
    path = tmp_path / "keeper.lock"
    for _ in range(2):
        begin, begun = os.pipe()
        told, telling = os.pipe()
        children = []
        for _ in range(100):
            child = os.fork()
            if child == 0:
                os.close(begun)
                os.read(begin, 1)  # all at once
                try:
                    lock = take(path, timeout=0.5)
                except FileProblem:
                    os.write(telling, b"-")
                else:
                    os.write(telling, b"+")
                    signal.pause()
                    lock.release()
                os._exit(0)
            children.append(child)
        os.close(begin)
        os.close(begun)
        os.close(telling)
        words = b""
        while len(words) < 100:
            words += os.read(told, 100)
        os.close(told)
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        assert words.count(b"+") == 1
    assert path.stat().st_nlink == 1


async def test_two_hosts_with_one_home(tmp_path: Path) -> None:
    async with operator(tmp_path) as who:
        held = await who.claim()
        elsewhere = keeper_environment(tmp_path, EXPB_TUI_MACHINE_ID="host-two")
        with keeper(who.environ) as one, keeper(elsewhere) as two:
            first, second = await asyncio.to_thread(one.at_work), await asyncio.to_thread(two.at_work)
            assert first.pid != second.pid
            await who.renewed(held)
            await until_async(lambda: one.state.keeps, lambda keeps: keeps == 1, one.describe)
            assert two.state.keeps == 0
            assert {path.name for path in (tmp_path / "state").iterdir()} == {"host-one", "host-two"}
