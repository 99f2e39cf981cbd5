"""Passwords: argon2id in two bounded workers, at the same cost whether or not the account exists (hazards 13)."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from expb_tui.server.config import PasswordCost

_WORKERS = 2
_WAITING = 64
_LONGEST = 1024
"""Bytes of a password that are looked at; a longer one is refused at no cost."""


class Busy(Exception):
    """More sign-ins are waiting than the workers will serve soon."""


class Passwords:
    """Hashes and verifies. ``close`` ends the workers."""

    def __init__(self, cost: PasswordCost) -> None:
        self._hasher = PasswordHasher(time_cost=cost.time, memory_cost=cost.memory, parallelism=cost.lanes)
        self._threads = ThreadPoolExecutor(_WORKERS, thread_name_prefix="expb-argon2", initializer=_step_back)
        self._waiting = 0
        self._nobody = self._hasher.hash("nobody has this password")

    def hash(self, password: str) -> str:
        """The verifier to store. Blocks for as long as the cost says."""
        return self._hasher.hash(password)

    async def verify(self, stored: str | None, password: str) -> bool:
        """Whether the password is right; with no stored hash it costs the same and is wrong. Raises ``Busy``."""
        if self.busy:
            raise Busy
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._verify, stored, password)
        finally:
            self._waiting -= 1

    def _verify(self, stored: str | None, password: str) -> bool:
        if len(password.encode("utf-8", "replace")) > _LONGEST:
            return False
        try:
            return self._hasher.verify(stored or self._nobody, password) and stored is not None
        except (VerificationError, InvalidHashError):
            return False

    @property
    def busy(self) -> bool:
        """Whether ``verify`` would raise now."""
        return self._waiting >= _WAITING

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)


def _step_back() -> None:
    """Let a storm of sign-ins leave the processors to renewals; Linux counts niceness by thread."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 15)
