"""One plain session: announcements as things change, one typed command at a time."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from expb_tui import __version__
from expb_tui.core import signals
from expb_tui.core.errors import ExpbError
from expb_tui.core.leases.keeping import Keeping, keeping_of
from expb_tui.core.text import speaks_ascii_only, spoken_encoding
from expb_tui.plain import acts, reading
from expb_tui.plain.changes import LeaseChanges, Numbers, WorkChanges
from expb_tui.plain.commands import Typed, help_lines, parse
from expb_tui.plain.ear import Ear
from expb_tui.plain.voice import Voice
from expb_tui.plain.words import count, sentence, spoken
from expb_tui.present.cells import Tone
from expb_tui.watch.bridge import Bridge
from expb_tui.watch.link import Link, LinkState, reason
from expb_tui.watch.notices import Notices

if TYPE_CHECKING:
    from expb_tui.core.leases.model import HeldPackage
    from expb_tui.launch import House
    from expb_tui.watch.notices import Notice

_KEPT_LINES = 200
_TWICE = 2.0
"""Seconds within which a second ctrl+c leaves."""
_SAME = timedelta(minutes=5)
"""How long after it was told last the same trouble counts as new."""
_FIRST = 10.0
"""Seconds that a command waits for what is not known yet at the start."""
_GRACE = 3.0
"""Seconds that requests under way have to be journaled after the terminal is gone."""
_SETTLED = (LinkState.ONLINE, LinkState.LOST, LinkState.REFUSED, LinkState.SIGNED_OUT, LinkState.NOBODY)


class PlainSession:
    """``asyncio.run(PlainSession(house).run())``; the result is the exit code.

    It is the bridge's teller and its only view.
    """

    topics = frozenset({"profiles", "leases", "work", "link"})

    def __init__(self, house: House, *, given: int = 0, said: int = 1) -> None:
        """``given`` and ``said`` are the descriptors of input and output."""
        self.house = house
        self.read_only = house.settings.read_only
        self.numbers = Numbers()
        self.own: set[str] = set()
        """Packages that the command under way is about: it says itself what becomes of them."""
        self._given = given
        self._said = said
        self._heard: asyncio.Queue[str | None] = asyncio.Queue()
        self._told: deque[str] = deque(maxlen=_KEPT_LINES)
        self._notices = Notices()
        self._leases = LeaseChanges(self.numbers)
        self._work = WorkChanges()
        self._link: tuple[LinkState, str] | None = None
        self._acting: str | None = None
        self._read = asyncio.Event()
        self._answered = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._doing = ""
        self._last_cancel = 0.0
        self._away = False
        self._code: int | None = None

    # Life

    async def run(self) -> int:
        """Until it is left. The exit code is 0, or that of the signal that ended it."""
        loop = asyncio.get_running_loop()
        ascii_only = self.house.settings.icons == "ascii" or speaks_ascii_only(os.environ)
        self._main = asyncio.current_task()
        self.voice = Voice(self._said, ascii_only=ascii_only, gone=lambda: loop.call_soon_threadsafe(self._gone))
        self.ear = Ear(
            self._given,
            spoken_encoding(os.environ),
            heard=self._heard.put_nowait,
            ended=lambda: self._heard.put_nowait(None),
            gone=self._gone,
        )
        self.bridge = Bridge(self.house, self)
        loop.set_exception_handler(lambda _, context: self._fault(context))
        signals.install(loop, self._end_by)
        loop.add_signal_handler(signal.SIGTSTP, self._suspend)
        try:
            self.bridge.read_profiles()
            self._acting = self.bridge.acting
            self.voice.say(*reading.greeting(self, __version__))
            self.bridge.show_in([self])
            self.bridge.start()
            self.ear.open()
            await self._obey()
        except asyncio.CancelledError:
            if self._code is None:
                raise
        finally:
            self.ear.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRACE if self._code == signals.EXIT_HANGUP else None):
                    await self.bridge.aclose()
            loop.remove_signal_handler(signal.SIGTSTP)
            signals.remove(loop)
            self.voice.close()
        return self._code or 0

    async def _obey(self) -> None:
        while True:
            line = await self._heard.get()
            if line is None:
                self.voice.say(*reading.leaving(self))
                return
            try:
                if not line.strip():
                    self.voice.say(*reading.summary(self))
                    continue
                asked = parse(line)
                if asked.command.changes and self.read_only:
                    self.voice.say("This session is read-only.")
                elif asked.command.name == "quit":
                    if await self._may_leave():
                        return
                else:
                    await self._carry_out(asked)
            except ExpbError as error:
                self.voice.say(sentence(*error.lines()))
            except Exception as error:  # a fault of ours must be told, not end the session
                self.crashed(error, line.split()[0])

    async def _carry_out(self, asked: Typed) -> None:
        self._doing = asked.command.name
        self._running = asyncio.create_task(self._act(asked))
        try:
            await self._running
        except asyncio.CancelledError:
            if self._code is not None or not self._running.cancelled():
                raise
            self.voice.say(f"Cancelled: {self._doing}. What was already sent is finished and journaled.")
        finally:
            self._running = None
            self.present()
            self.own.clear()

    async def _act(self, asked: Typed) -> None:
        if asked.command.name not in ("help", "repeat"):
            await self._until(self._read)
        if asked.command.name in ("work", "claim", "status"):
            await self._until(self._answered)
        match asked.command.name:
            case "help":
                self.voice.say(*help_lines(asked.rest, read_only=self.read_only))
            case "repeat":
                self._repeat(asked)
            case "list" | "work" | "status" | "receipts" | "show":
                await reading.read(self, asked)
            case _:
                await acts.act(self, asked)

    async def _may_leave(self) -> bool:
        lines = reading.leaving(self)
        self.voice.say(*lines)
        if all(self.kept_without_us(held).renews for held in self.live):
            return True
        return await self.ask("Leave now? Type yes to leave.")

    async def ask(self, question: str) -> bool:
        """Ask once; anything but yes is no, and so is the end of the input."""
        self.voice.say(question)
        answer = await self._heard.get()
        if answer is None:
            self._heard.put_nowait(None)
            return False
        if answer.strip().lower() in ("yes", "y"):
            return True
        self.voice.say("Nothing was done.")
        return False

    # Ends and stops

    def _end_by(self, number: signal.Signals) -> None:
        if number is signal.SIGINT:
            self._interrupted()
        elif not (self._away and number in signals.FROM_THE_KEYBOARD):
            self._end(128 + number)

    def _end(self, code: int) -> None:
        if self._code is None:
            self._code = code
            if code == signals.EXIT_HANGUP:
                signals.end_at_the_latest(2 * _GRACE, code)
            if self._running is not None:
                self._running.cancel()
            assert self._main is not None
            self._main.cancel()

    def _gone(self) -> None:
        self._end(signals.EXIT_HANGUP)

    def _interrupted(self) -> None:
        if self._away:
            return
        while not self._heard.empty():
            self._heard.get_nowait()
        if self._running is not None:
            self._running.cancel()
            return
        now = asyncio.get_running_loop().time()
        if now - self._last_cancel < _TWICE:
            self.voice.say(*reading.leaving(self))
            self._end(signals.EXIT_INTERRUPTED)
            return
        self._last_cancel = now
        self.voice.say("Nothing is running. Type quit to leave; Ctrl+c again leaves at once.")

    def _suspend(self) -> None:
        if self._away:
            return
        with self.house.journal.still():
            signals.stop_process()
        self.bridge.mark("leases")
        self.voice.say("Back.", *reading.summary(self))

    # What the bridge tells

    @property
    def covered(self) -> bool:
        """Another program has the terminal."""
        return self._away

    def say(self, text: str, tone: Tone = Tone.OK) -> None:
        """Tell the operator, and keep it for ``repeat``."""
        self._told.append(text)
        self.voice.say(text)

    def complain(self, error: ExpbError) -> None:
        """Tell what failed, why, and what to do; the same thing only once in a row."""
        text = sentence("Problem: " + error.lines()[0], *error.lines()[1:])
        if not self._told or self._told[-1] != text:
            self.say(text)

    def tell(self, notice: Notice) -> None:
        """Tell what the bridge has noticed; a lease is named by its number too.

        What goes on being so is said once: it is told again and again by renewals that fail for the same reason.
        """
        kept = self._notices.add(notice)
        if kept.before is not None and kept.at - kept.before < _SAME:
            return
        text = sentence(f"{notice.text}: {notice.cause}" if notice.cause else notice.text, notice.next_step)
        self.say(f"Lease {self.numbers.of(notice.row)}: {text}" if notice.row else text)

    def alarm(self, notice: Notice) -> None:
        """Tell what must not be missed."""
        self.voice.ring()
        self.tell(notice)

    def crashed(self, error: BaseException, doing: str) -> None:
        """A fault of ours in the background."""
        from expb_tui.watch.faults import kept

        self.say(sentence(f"A fault of expb-tui stopped '{doing}'", kept(error)))

    def _fault(self, context: dict[str, Any]) -> None:
        if isinstance(error := context.get("exception"), Exception):
            self.crashed(error, "announcing")

    def present(self) -> float | None:
        """Say what has changed; returns the seconds until something may be due by itself."""
        if self.bridge.acting != self._acting:
            self._acting = self.bridge.acting
            self._work.forget()
            self.say(sentence(f"Acting as {reading.actor(self)} from now on"))
        due = None
        if self.bridge.held is not None:
            lines, due = self._leases.look(self.bridge.held, self.house.clock, self.bridge.keeper.keeping, self.own)
            for line in lines:
                self.say(line)
            if not self._read.is_set():
                self._read.set()
                self.say(sentence(f"This host holds {count(len(self.live), 'live lease')}"))
                self.voice.say(*reading.listing(self))
        self._say_link(self.bridge.link)
        if self.bridge.work is not None and self.bridge.work.taken_at is not None:
            for line in self._work.look(self.bridge.work.items):
                self.say(line)
        return due

    def _say_link(self, link: Link) -> None:
        if link.state not in _SETTLED:
            return
        self._answered.set()
        now = (link.state, reason(link)[0] if link.state is not LinkState.ONLINE else "")
        if now == self._link:
            return
        before, self._link = self._link, now
        if link.state is LinkState.ONLINE:
            self.say("The service answers again." if before else sentence("The service answers", reading.offer(self)))
        elif link.state is LinkState.NOBODY:
            self.say("No profile is signed in here. Leave, and type: expb-tui auth")
        else:
            what, step = reason(link)
            self.say(
                sentence(
                    {LinkState.SIGNED_OUT: "Signed out"}.get(link.state, "The service does not answer"), what, step
                )
            )

    def _repeat(self, asked: Typed) -> None:
        wanted = int(asked.rest) if asked.rest.isdecimal() else 5
        lines = list(self._told)[-wanted:] if wanted else []
        self.voice.say(*(lines or ["Nothing was announced yet."]))

    # For acts and reading

    @property
    def live(self) -> list[HeldPackage]:
        """Packages that the service has as this host's."""
        return [held for held in self.bridge.held or () if held.live]

    def kept_without_us(self, held: HeldPackage) -> Keeping:
        """Who renews a lease once this session is over."""
        return keeping_of(held, keeper=not self.bridge.keeper.left_to_us(held))

    async def _until(self, known: asyncio.Event) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST):
                await known.wait()

    def soonest(self) -> str:
        """``lease 2 ends first, in 12 minutes``; empty without a live lease."""
        if not self.live:
            return ""
        clock = self.house.clock
        first = min(self.live, key=lambda held: held.remaining(clock))
        return f"lease {self.numbers.of(first.uid)} ends first, in {spoken(first.remaining(clock))}"

    async def lend_terminal(self, command: list[str]) -> int:
        """Run a program on the terminal; returns its status. Announcements wait until it has ended.

        Raises ``ExpbError`` where it does not start.
        """
        from expb_tui.core import programs

        self.ear.close()
        await asyncio.to_thread(self.voice.hold)
        self._away = True
        try:
            with signals.of_a_waiting_shell():
                process = await asyncio.create_subprocess_exec(*command, env=programs.child_environment())
                try:
                    return await process.wait()
                except asyncio.CancelledError:
                    with suppress(ProcessLookupError):
                        process.terminate()
                    raise
        except OSError as error:
            raise programs.not_started(command[0], error) from None
        finally:
            self._away = False
            self.voice.go_on()
            self.bridge.mark(*self.topics)
            if self._code is None:
                self.ear.open()
