"""The shared profile file: any number of readers, writers that lose nothing (contract, section 4; hazards 6 and 9).

Ours take a kernel lock. ``expbctl`` takes none, so each write compares the file's identity (device, inode, time, size)
with what was read, swaps the new file in atomically, looks at what the swap displaced, and merges where somebody else
wrote meanwhile. A short look afterwards finds a writer that had read the file before ours replaced it.

Beside ``profiles.json`` stands the directory ``.profiles.json.expb-tui`` (0700): the lock, which is never unlinked, the
list of profiles in the keyring, and the ledger of refreshes (``ledger.py``). Part of the fast start.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from expb_tui.core import paths
from expb_tui.core.errors import FileProblem, SignInNeeded, UsageError
from expb_tui.core.profiles.document import (
    KEYRING,
    Document,
    Profile,
    Profiles,
    apply,
    marker_of,
    merge,
    parse,
    profiles_in,
    render,
)
from expb_tui.core.profiles.writers import Identity, Writers

__all__ = ["Profile", "ProfileStore", "Profiles"]

_LOOKS = (0.03,)
"""Waits, in seconds, before looking again whether an unlocked writer, which had read the file before, put that back;
a command of ``expbctl`` that reads, changes and writes needs about a millisecond."""
_LOOKS_BESIDE_OTHERS = (0.03, 0.06, 0.12, 0.24)
"""The same where an unlocked writer was at work in the last two seconds."""
_PATIENCE = 3.0
"""Seconds of trying against a program that rewrites the file all the time."""
_TEMP = ".profiles-expb-tui-"


@dataclass(frozen=True, slots=True)
class _Loaded:
    document: Document
    identity: Identity | None
    line_feed: bytes


_EMPTY = _Loaded({}, None, b"")


class ProfileStore:
    """One profile file. Reading takes milliseconds, writing at most 10 s (the lock): write in a thread."""

    def __init__(self, path: Path | None = None) -> None:
        """``path`` None means the one that ``expbctl`` uses (``EXPBENCH_PROFILES`` or the usual place)."""
        self.named = path or paths.profiles_path()
        self._legacy = None if path else paths.legacy_profiles_path()
        self.path = Path(os.path.realpath(self.named))
        """The file itself: a symbolic link is written through, never replaced."""
        self.side = self.path.parent / f".{self.path.name}.expb-tui"
        """Our own directory beside it."""
        self._registry_path = self.side / "keyring.json"
        self._writers = Writers(self.side / "last")

    def read(self) -> Profiles:
        """Every profile; an absent file has none. Raises ``FileProblem`` with the place where the file is broken."""
        return self._profiles(self._load().document)

    def exposed(self) -> str:
        """Who beside its owner has access to the file, in words such as *its group can read*; empty for nobody.

        Whatever we write next is for the owner alone again.
        """
        try:
            return paths.others_may(self.path.stat().st_mode)
        except OSError:
            return ""

    def stamp(self) -> object:
        """Changes whenever the file does; costs one or two ``stat`` calls."""
        return self._identity(self.path), self._identity(self._registry_path)

    def select(self, name: str | None = None) -> Profile:
        """The profile to use: ``name``, else the default. Raises ``UsageError`` or ``SignInNeeded``."""
        profiles = self.read()
        wanted = name or profiles.default
        if wanted is None:
            raise SignInNeeded(
                "No profile is selected",
                cause="there is no default profile" if profiles.by_name else f"{self.named} holds none",
                next_step="Name one with --profile, or sign in with: expb-tui auth login",
                code="no-profile",
            )
        profile = profiles.by_name.get(wanted)
        if profile is None:
            raise _unknown(wanted, profiles, self.named)
        return profile

    def edit(self, change: Callable[[Profiles], Profiles], *, ours_wins: bool = True) -> Profiles:
        """Write ``change(what is there)``; ``change`` is called once, under the lock, and must not block.

        What others wrote meanwhile is merged per profile and key; where both changed the same, ``ours_wins`` decides.
        Raises ``FileProblem`` (broken file, full disk, locked); then nothing was written.
        """
        with self._locked():
            loaded = self._load()
            before = self._profiles(loaded.document)
            after = change(before)
            if after == before:
                return before
            written, identity = self._publish(loaded, apply(loaded.document, before, after), ours_wins)
            beside_others = self._writers.beside_others(identity)
            result = self._profiles(written, after)
            self._register(result)
        self._settle(loaded.document if loaded.identity else {}, written, identity, beside_others)
        return result

    def put(self, profile: Profile, make_default: bool = False) -> Profile:
        """Save ``profile`` under its name; the first stored profile becomes the default."""

        def change(profiles: Profiles) -> Profiles:
            first = not profiles.by_name
            added = profiles.put(profile)
            return replace(added, default=profile.name) if first or make_default else added

        return self.edit(change).by_name[profile.name]

    def use(self, name: str) -> Profiles:
        """Make ``name`` the default."""
        return self.edit(lambda profiles: replace(profiles, default=self._known(profiles, name).name))

    def remove(self, name: str) -> Profiles:
        """Forget a profile; nothing is revoked. Credentials outside the file are ``secrets.forget``'s."""
        return self.edit(lambda profiles: profiles.without(self._known(profiles, name).name))

    def clear_credentials(self, name: str) -> Profile:
        """Sign out locally: endpoint and context stay."""
        return self._change(name, Profile.signed_out)

    def set_project(self, name: str, project_id: str | None, project_name: str | None) -> Profile:
        """Set the project context, or clear it with None."""
        return self._change(name, lambda old: replace(old, project_id=project_id, project_name=project_name))

    @contextmanager
    def reserve(self) -> Iterator[None]:
        """Make sure, before something is spent that cannot be got again, that its result can be written here.

        Holds 64 KiB of the file system until the end of the block. Raises ``FileProblem``.
        """
        with self._locked():
            self._load()
            temp, _ = self._write_temp(bytes(64 * 1024))
        try:
            yield
        finally:
            temp.unlink(missing_ok=True)

    def _change(self, name: str, change: Callable[[Profile], Profile]) -> Profile:
        return self.edit(lambda profiles: profiles.put(change(self._known(profiles, name)))).by_name[name]

    def _known(self, profiles: Profiles, name: str) -> Profile:
        profile = profiles.by_name.get(name)
        if profile is None:
            raise _unknown(name, profiles, self.named)
        return profile

    # Reading

    def _load(self) -> _Loaded:
        loaded = self._load_file(self.path)
        if loaded is None and self._legacy is not None:
            legacy = self._load_file(self._legacy)
            loaded = legacy and replace(legacy, identity=None)
        return loaded or _EMPTY

    def _load_file(self, path: Path) -> _Loaded | None:
        try:
            # Without waiting: a pipe would hold us up until somebody writes to it.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as handle:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise FileProblem(
                        f"{path} is not used",
                        cause="it is no ordinary file",
                        next_step="Put a file in its place, or name another one with EXPBENCH_PROFILES",
                    )
                content = handle.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise FileProblem(
                f"{path} cannot be read",
                cause=error.strerror or str(error),
                next_step="Check its owner and mode, or name another file with EXPBENCH_PROFILES",
            ) from error
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            column = error.start - (content.rfind(b"\n", 0, error.start) + 1) + 1
            raise FileProblem(
                f"{path}, line {line} column {column}",
                cause="this is not UTF-8 text",
                next_step="Nothing was written; repair the file, or name another one with EXPBENCH_PROFILES",
                code="profiles-broken",
            ) from None
        return _Loaded(parse(text, str(path)), _identity_of(status), b"\n" if content.endswith(b"\n") else b"")

    def _profiles(self, document: Document, known: Profiles | None = None) -> Profiles:
        markers = self._registered() if known is None else _markers(known)
        return profiles_in(document, str(self.path), markers)

    @staticmethod
    def _identity(path: Path) -> Identity | None:
        try:
            return _identity_of(os.stat(path))
        except OSError:
            return None

    # Writing

    @contextmanager
    def _locked(self) -> Iterator[None]:
        from expb_tui.core.locks import file_lock

        try:
            paths.private_dir(self.path.parent)
            paths.private_dir(self.side)
        except OSError as error:
            raise unwritable(self.path, error) from error
        with file_lock(self.side / "lock"):
            yield

    def _publish(self, loaded: _Loaded, ours: Document, ours_wins: bool) -> tuple[Document, Identity]:
        """Put ``ours``, made from ``loaded``, in place, merged with whatever unlocked writers put there meanwhile."""
        base = loaded.document if loaded.identity else {}
        expected = loaded.identity
        others_at = self._writers.others_at(loaded.identity)
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            others = self._written_since(expected)
            if not others:
                temp, written = self._write_temp(render(ours) + loaded.line_feed)
                others = self._swap(temp, expected, written)
                if not others:
                    self._writers.note(written, others_at)
                    return ours, written
            for theirs in others:
                ours = merge(base, theirs.document, ours, ours_wins=ours_wins)
                expected = theirs.identity
                others_at = max(others_at, self._writers.others_at(theirs.identity))
        raise FileProblem(
            f"{self.path} cannot be written",
            cause="another program rewrites it without pause",
            next_step="End that program and try again",
            code="profiles-busy",
        )

    def _written_since(self, expected: Identity | None) -> list[_Loaded]:
        """What somebody else has put in place of ``expected``: one document or none."""
        if self._identity(self.path) == expected:
            return []
        return [self._load_file(self.path) or _EMPTY]

    def _write_temp(self, content: bytes) -> tuple[Path, Identity]:
        temp = self.path.parent / f"{_TEMP}{os.getpid()}-{os.urandom(6).hex()}"
        try:
            descriptor = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.fchmod(descriptor, 0o600)
                view = memoryview(content)
                while view:
                    view = view[os.write(descriptor, view) :]
                os.fsync(descriptor)
                return temp, _identity_of(os.fstat(descriptor))
            finally:
                os.close(descriptor)
        except OSError as error:
            temp.unlink(missing_ok=True)
            raise unwritable(self.path, error) from error

    def _swap(self, temp: Path, expected: Identity | None, written: Identity) -> list[_Loaded]:
        """Put ``temp`` in place, unless somebody else has written since ``expected``: then answer what they wrote.

        In that case their file stands in its place again, so that giving up loses nothing; it is the answer's last.
        """
        from expb_tui.core.profiles.swap import exchange, publish, sync_directory

        try:
            if expected is None:
                return [] if publish(temp, self.path) else [self._load_file(self.path) or _EMPTY]
            if not exchange(temp, self.path) or self._identity(temp) == expected:
                return []
            others: list[_Loaded] = []
            while True:
                try:
                    others.append(self._load_file(temp) or _EMPTY)
                finally:  # a broken file goes back, too: nothing is overwritten
                    exchange(temp, self.path)
                if self._identity(temp) in (written, *(theirs.identity for theirs in others[:-1])):
                    return others
        except FileNotFoundError:
            return [_EMPTY]
        except OSError as error:
            raise unwritable(self.path, error) from error
        finally:
            temp.unlink(missing_ok=True)
            sync_directory(self.path.parent)

    def _settle(self, base: Document, ours: Document, written: Identity, beside_others: bool) -> None:
        """Look again, after a moment, whether a writer that had read the old file put it back, and repair that."""
        looks = list(_LOOKS_BESIDE_OTHERS if beside_others else _LOOKS)
        deadline = time.monotonic() + _PATIENCE
        with suppress(FileProblem):  # what was asked for is written; only the second look failed
            while looks and time.monotonic() < deadline:
                time.sleep(looks.pop(0))
                if self._identity(self.path) == written:
                    continue
                with self._locked():
                    current = self._load()
                    if not beside_others and self._writers.beside_others(current.identity):
                        beside_others, looks = True, list(_LOOKS_BESIDE_OTHERS)
                    # The default is left as it is: to switch back and forth is what people do.
                    merged = merge(
                        _with_default_of(current.document, base),
                        current.document,
                        _with_default_of(current.document, ours),
                        ours_wins=False,
                    )
                    if merged != current.document:
                        ours, written = self._publish(current, merged, ours_wins=False)
                        looks = list(_LOOKS_BESIDE_OTHERS)

    # Which profiles are in the keyring, for the case that expbctl drops our marker

    def _registered(self) -> dict[str, Any]:
        try:
            markers = json.loads(self._registry_path.read_bytes())
        except (OSError, ValueError):
            return {}
        return markers if isinstance(markers, dict) else {}

    def _register(self, profiles: Profiles) -> None:
        markers = _markers(profiles)
        if markers != self._registered():
            temp, _ = self._write_temp(json.dumps(markers).encode())
            temp.replace(self._registry_path)


def _identity_of(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _markers(profiles: Profiles) -> dict[str, Any]:
    return {name: marker_of(profile) for name, profile in profiles.by_name.items() if profile.secret_place == KEYRING}


def _with_default_of(source: Document, document: Document) -> Document:
    rest = {key: value for key, value in document.items() if key != "default"}
    return {"default": source["default"], **rest} if "default" in source else rest


def unwritable(path: Path, error: OSError) -> FileProblem:
    """The words for a file that cannot be written; code ``disk-full`` where space is what is missing."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return FileProblem(
            f"{path} cannot be written",
            cause="no space is left on that file system",
            next_step="Nothing was changed; free some space and try again",
            code="disk-full",
        )
    return FileProblem(
        f"{path} cannot be written",
        cause=error.strerror or str(error),
        next_step="Nothing was changed; check the folder's owner and mode",
    )


def _unknown(name: str, profiles: Profiles, path: Path) -> UsageError:
    import difflib

    close = difflib.get_close_matches(name, profiles.names(), 1)
    known = ", ".join(profiles.names()) or "none"
    return UsageError(
        f"There is no profile {name!r}",
        cause=f"{path} holds {known}",
        next_step=f"Did you mean {close[0]}?" if close else "List them with: expb-tui profile list",
        code="unknown-profile",
    )
