"""A string that does not show itself (pydantic's twin, without pydantic), and what can be a credential at all."""

from __future__ import annotations

from collections.abc import Mapping

TOKEN_VARIABLES = ("EXPBENCH_AGENT_TOKEN", "EXPBENCH_AGENT_TOKEN_FILE")
"""What an operator may set so that an agent acts without a profile."""


def environ_for_helpers(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` for another program (browser, keyring, editor): it has no business with the agent's token."""
    return {name: value for name, value in environ.items() if name not in TOKEN_VARIABLES}


def is_token(text: str) -> bool:
    """Whether it can be a credential: one word of printable ASCII, as a header takes it."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def leave_no_core_file() -> None:
    """A crash of this process, or of an editor that it starts, writes no memory to the disk (man 2 setrlimit)."""
    import resource
    from contextlib import suppress

    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


class SecretStr:
    """Holds a credential; ``repr``, ``str``, formatting and pickling never reveal it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def get_secret_value(self) -> str:
        """The credential itself; call it only where it is sent or stored."""
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretStr) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "SecretStr('**********')"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a secret is not pickled")
