"""The keeper as a process: it renews, says what it does and cannot do, ends when idle, gives way to a newer one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from expb_tui import __version__
from expb_tui.core.clock import SYSTEM_CLOCK
from expb_tui.core.keeper.control import NoKeeper, ask
from expb_tui.core.keeper.state import look
from expb_tui.core.leases.journal import Journal
from expb_tui.core.leases.keeping import face_path
from expb_tui.core.locks import file_lock
from tests.support.keeper import (
    PROGRAM,
    keeper,
    keeper_environment,
    no_keeper_left,
    operator,
    state_folder,
    until_async,
)
from tests.support.upstream import ACCOUNT_ID

STRANGER = """
import os, socket, sys
peer = socket.socket(socket.AF_UNIX)
os.setuid(65534)
peer.connect(sys.argv[1])
try:
    peer.send(b'{"op": "stop"}\\n')
    print(peer.recv(99))
except ConnectionError:
    print(b"")
"""


async def test_it_keeps_what_is_to_be_kept_and_says_so(tmp_path: Path) -> None:
    async with operator(tmp_path) as who:
        held, left_alone = await who.claim(), await who.claim()
        await who.desk.set_kept([left_alone.uid], False)
        with keeper(who.environ) as process:
            state = await asyncio.to_thread(process.at_work)
            assert (state.version, state.stay, state.problems) == (__version__, False, ())
            await who.renewed(held, 2)
            assert await who.renewals(left_alone) == 0
            state = await until_async(lambda: process.state, lambda state: state.next_renewal_at is not None)
            assert state.keeps == 1
            assert state.keeps_it(await who.desk.get(held.uid), SYSTEM_CLOCK)
            assert not state.keeps_it(await who.desk.get(left_alone.uid), SYSTEM_CLOCK)

            await who.desk.set_kept([held.uid], False)
            await until_async(lambda: process.state.keeps, lambda keeps: keeps == 0)
            process.send(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait) == 0
            assert (process.state.running, process.state.end) == (False, "stopped")


async def test_a_killed_one_is_followed_by_another_without_a_lost_lease(tmp_path: Path) -> None:
    async with operator(tmp_path) as who:
        held = await who.claim()
        for _ in range(2):
            with keeper(who.environ) as process:
                await asyncio.to_thread(process.at_work)
                await who.renewed(held)
                process.send(signal.SIGKILL)
                await asyncio.to_thread(process.wait)
                assert (process.state.running, process.state.end) == (False, "")
        assert (await who.desk.get(held.uid)).usable


def test_it_ends_when_there_is_nothing_to_keep(tmp_path: Path) -> None:
    environ = keeper_environment(tmp_path)
    with (
        keeper(environ, idle=0.5) as process,
        keeper(keeper_environment(tmp_path, EXPB_TUI_MACHINE_ID="two"), "--stay", idle=0.5) as stays,
    ):
        stays.at_work()
        assert process.wait() == 0, process.describe()
        assert process.state.end == "idle"
        assert stays.state.running
        assert stays.state.stay


async def test_a_claim_in_the_moment_of_its_end_keeps_it(tmp_path: Path) -> None:
    async with operator(tmp_path, lease=60.0) as who:
        with keeper(who.environ, idle=2.5) as process:
            await asyncio.to_thread(process.at_work)
            await who.claim()
            state = await until_async(lambda: process.state, lambda state: state.keeps == 1, process.describe)
            assert state.idle_end is None
            await asyncio.sleep(3)
            assert process.state.running, process.words


async def test_a_newer_one_takes_over_and_no_renewal_is_missed(tmp_path: Path) -> None:
    async with operator(tmp_path) as who:
        held = await who.claim()
        with keeper(who.environ, version="0.0.9") as old:
            await asyncio.to_thread(old.at_work)
            told = await ask(who.state_folder, "lend", {**_lent("other-agent"), "endpoint": who.upstream.url})
            assert told == {"ok": True}
            await who.renewed(held)
            with keeper(who.environ) as new:
                state = await asyncio.to_thread(new.at_work)
                assert await asyncio.to_thread(old.wait) == 0, old.describe()
                assert state.version == __version__
                assert (who.upstream.url, "other-agent") in (
                    await until_async(lambda: new.state, lambda state: bool(state.lent_agents))
                ).lent_agents
                await who.renewed(held)
                with keeper(who.environ, version="0.0.9") as older:
                    assert await asyncio.to_thread(older.wait) == 0
                    assert "runs already" in older.words
                assert new.state.running
        assert (await who.desk.get(held.uid)).usable


async def test_where_the_successor_dies_the_old_one_goes_on(tmp_path: Path) -> None:
    async with operator(tmp_path) as who:
        held = await who.claim()
        with keeper(who.environ) as old:
            await asyncio.to_thread(old.at_work)
            await ask(who.state_folder, "lend", {**_lent("other-agent"), "endpoint": who.upstream.url})
            told = await ask(who.state_folder, "hand-over", {"version": "99.0", "stay": False})
            assert told["ok"]  # and nobody comes
            await who.renewed(held)
            await until_async(lambda: old.words, lambda words: "nobody took over" in words)
            state = await until_async(lambda: old.state, lambda state: bool(state.running and state.lent_agents))
            assert state.pid == old.process.pid
            await who.renewed(held)
            assert (await ask(who.state_folder, "stop")) is not None
            assert await asyncio.to_thread(old.wait) == 0


async def test_a_stop_counts_while_a_successor_is_waited_for(tmp_path: Path) -> None:
    environ = keeper_environment(tmp_path)
    with keeper(environ) as old:
        await asyncio.to_thread(old.at_work)
        told = await ask(old.folder, "hand-over", {"version": "99.0", "stay": False})
        assert told["ok"]
        await until_async(lambda: old.state.running, lambda running: not running)
        old.send(signal.SIGTERM)
        assert await asyncio.to_thread(old.wait) == 0
        assert "goes on" not in old.words


async def test_one_that_stays_takes_over_from_one_that_would_end(tmp_path: Path) -> None:
    environ = keeper_environment(tmp_path)
    with keeper(environ) as passing:
        await asyncio.to_thread(passing.at_work)
        with keeper(environ, "--stay") as service:
            await asyncio.to_thread(service.at_work)
            assert await asyncio.to_thread(passing.wait) == 0
        assert "handed over" in passing.words


async def test_a_newer_journal_is_refused_and_the_running_one_left_alone(tmp_path: Path) -> None:
    environ = keeper_environment(tmp_path)
    folder = state_folder(environ)
    journal = Journal(folder / "journal.db")
    await journal.packages()
    await journal.aclose()
    with keeper(environ, version="0.0.9") as running:
        await asyncio.to_thread(running.at_work)
        with contextlib.closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as db:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            db.execute(f"PRAGMA user_version = {version + 1}")
        with keeper(environ) as refused:
            assert await asyncio.to_thread(refused.wait) == 1
            assert "written by a newer expb-tui" in refused.words
        assert running.state.running


async def test_a_newer_journal_is_refused_though_it_is_busy_for_a_moment(tmp_path: Path) -> None:
    environ = keeper_environment(tmp_path)
    path = state_folder(environ) / "journal.db"
    journal = Journal(path)
    await journal.packages()
    await journal.aclose()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        db.execute(f"PRAGMA user_version = {version + 1}")
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("BEGIN EXCLUSIVE")  # nobody else can even read
        with keeper(environ) as refused:
            await asyncio.sleep(1.5)
            db.execute("ROLLBACK")
            assert await asyncio.to_thread(refused.wait) == 1
            assert "written by a newer expb-tui" in refused.words


async def test_a_journal_that_takes_nothing_is_said_and_nothing_is_handed_over(tmp_path: Path) -> None:
    """Renewal comes first (hazards 5): answers stay in memory, which a successor would not have."""
    async with operator(tmp_path) as who:
        held = await who.claim()
        with keeper(who.environ) as process:
            await asyncio.to_thread(process.at_work)
            await who.renewed(held)
            with contextlib.closing(sqlite3.connect(who.desk.journal.path, isolation_level=None)) as stopped:
                stopped.execute("BEGIN IMMEDIATE")
                state = await until_async(lambda: process.state, lambda state: bool(state.journal_problem))
                assert state.keeps_it(await who.desk.get(held.uid), SYSTEM_CLOCK)
                before = await who.renewals(held)
                confirmed = who.upstream.packages[held.uid]["status"]["lease"]["renewals"]
                assert confirmed > before
                told = await ask(who.state_folder, "hand-over", {"version": "99.0", "stay": False})
                assert told == {"ok": False, "why": "unsaved"}
                stopped.execute("ROLLBACK")
            await until_async(lambda: process.state, lambda state: not state.journal_problem, process.describe)
            await who.renewed(held)
            assert "the journal works again" in process.words


async def test_only_this_user_may_ask(tmp_path: Path) -> None:
    environ = keeper_environment(tmp_path)
    folder = state_folder(environ)
    with keeper(environ) as process:
        await asyncio.to_thread(process.at_work)
        socket = folder / "keeper.sock"
        assert stat.S_IMODE(socket.stat().st_mode) == 0o600
        assert stat.S_IMODE((folder / "keeper.state").stat().st_mode) == 0o600
        assert (await ask(folder, "nonsense"))["ok"] is False
        for line in (
            b"",
            b"\n",
            b"[1]\n",
            b"{\n",
            b"\xff" * 100 + b"\n",
            b"[" * 900_000 + b"\n",
            b'{"op": "lend", "token": 3}\n',
        ):
            reader, writer = await asyncio.open_unix_connection(str(socket))
            writer.write(line)
            writer.write_eof()
            await reader.read()
            writer.close()
        assert process.state.running
        if os.geteuid() == 0:  # only root can be somebody else
            for parent in (tmp_path, *tmp_path.parents, folder.parent, folder):
                if parent.stat().st_uid == 0 and parent != Path("/"):
                    parent.chmod(parent.stat().st_mode | 0o011)
            socket.chmod(0o666)
            command = [sys.executable, "-c", STRANGER, str(socket)]
            done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
            assert done.stdout == "b''\n", done.stderr
            assert process.state.running


async def test_a_stopped_process_is_not_relied_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with operator(tmp_path, lease=60.0) as who:
        held = await who.claim()
        with keeper(who.environ) as process:
            state = await asyncio.to_thread(process.at_work)
            assert state.keeps_it(held, SYSTEM_CLOCK)
            process.send(signal.SIGSTOP)

            class Later:
                def now(self) -> object:
                    return SYSTEM_CLOCK.now()

                def ticks(self) -> float:
                    return SYSTEM_CLOCK.ticks() + 60.0

            assert process.state.silent(Later())  # type: ignore[arg-type]  # only ticks are asked
            assert not process.state.keeps_it(held, Later())  # type: ignore[arg-type]
            with pytest.raises(NoKeeper) as caught:
                await ask(who.state_folder, "stop", limit=0.3)
            assert caught.value.code == "keeper-silent"
            assert str(process.process.pid) in caught.value.next_step
            process.send(signal.SIGCONT)


def test_the_commands_show_and_stop_it(tmp_path: Path) -> None:
    environ = keeper_environment(tmp_path)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([PROGRAM, "keeper", *words], env=environ, capture_output=True, text=True, timeout=60)

    assert "none runs" in run("status").stdout
    assert "none is started by itself" in run("status").stdout
    with no_keeper_left(environ):
        started = run("--detach", "--output=json")
        assert json.loads(started.stdout) == {"kind": "started"}
        assert json.loads(run("--detach", "--output=json").stdout)["kind"] == "running"
        told = json.loads(run("status", "--output=json").stdout)
        assert (told["running"], told["silent"], told["keeps"]) == (True, False, 0)
        assert f"process {told['pid']}, version {__version__}" in run("status").stdout
        assert "has ended" in run("stop").stderr
        assert not look(state_folder(environ)).running
    log = state_folder(environ) / "keeper.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert "ended: stopped" in log.read_text()


async def test_a_stop_says_what_it_leaves(tmp_path: Path) -> None:
    async with operator(tmp_path, lease=60.0) as who:
        await who.claim()
        with keeper(who.environ) as process:
            await asyncio.to_thread(process.at_work)
            await until_async(lambda: process.state.keeps, lambda keeps: keeps == 1)

            def stop(*words: str) -> subprocess.CompletedProcess[str]:
                return subprocess.run(
                    [PROGRAM, "keeper", "stop", *words], env=who.environ, capture_output=True, text=True, timeout=60
                )

            refused = await asyncio.to_thread(stop)
            assert "Nobody renews 1 lease afterwards" in refused.stderr
            assert "ideator in prj-1, 5" in refused.stderr
            with file_lock(face_path(who.state_folder), shared=True):
                open_face = await asyncio.to_thread(stop)
                assert "Only an open cockpit renews 1 lease afterwards" in open_face.stderr
            assert refused.returncode == 80
            assert process.state.running
            assert (await asyncio.to_thread(stop, "--yes")).returncode == 0
            assert await asyncio.to_thread(process.wait) == 0


async def test_a_removed_folder_ends_it(tmp_path: Path) -> None:
    environ = keeper_environment(tmp_path, EXPB_TUI_STATE_DIR=str(tmp_path / "gone"))
    with keeper(environ) as process:
        await asyncio.to_thread(process.at_work)
        import shutil

        shutil.rmtree(tmp_path / "gone")
        assert await asyncio.to_thread(process.wait) == 0
        assert not (tmp_path / "gone").exists()


def _lent(agent: str) -> dict[str, str]:
    return {"endpoint": "", "account": ACCOUNT_ID, "agent": agent, "profile": "", "token": "lent-token"}
