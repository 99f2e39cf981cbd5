"""The search for secrets in a submission before it is sent (hazards 18).

Two nets: the secrets that this host knows, found wherever they stand, also percent- or base64-encoded; and the shapes
of well-known keys. A finding names the place and the kind, never the secret.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from expb_tui.core.secret import SecretStr

MIN_KNOWN = 8
"""Characters; a shorter value of a variable is no secret that could be told from ordinary words."""


@dataclass(frozen=True)
class Finding:
    """A place that holds a secret, as a path of the body, and what kind it is; never the secret."""

    path: str
    kind: str


# Every repetition is bounded: a body of 1 MiB, written to be slow, must not hold up the cockpit.
_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a private key", re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-\d")),
    ("an AWS access key", re.compile(r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b")),
    ("an AWS secret key", re.compile(r"(?i)aws.{0,20}secret.{0,20}[\s:=\"']{1,9}[A-Za-z0-9/+=]{40}(?![A-Za-z0-9/+=])")),
    ("a GitHub token", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})")),
    ("a GitLab token", re.compile(r"\bgl(?:pat|dt|rt|cbt|ptt|ft|soat)-[A-Za-z0-9_-]{20,}")),
    ("an API key of the sk- kind", re.compile(r"\bsk-(?:[A-Za-z0-9]{1,32}-){0,6}[A-Za-z0-9_]{20,}")),
    ("a Google API key", re.compile(r"\bAIza[A-Za-z0-9_-]{35}")),
    (
        "a Slack token",
        re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}|hooks\.slack\.com/services/T[A-Z0-9]+/B[A-Z0-9]+/"),
    ),
    ("a Hugging Face token", re.compile(r"\bhf_[A-Za-z0-9]{30,}")),
    ("an npm token", re.compile(r"\bnpm_[A-Za-z0-9]{36}\b")),
    ("a PyPI token", re.compile(r"\bpypi-AgEI[A-Za-z0-9_-]{50,}")),
    ("a Stripe key", re.compile(r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}")),
    ("a SendGrid key", re.compile(r"\bSG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,}")),
    ("a JSON web token", re.compile(r"\beyJ[A-Za-z0-9_-]{8,300}\.eyJ[A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]+")),
    (
        "a bearer token",
        re.compile(r"(?i)\b(?:bearer|authorization: {0,9}basic) {1,9}(?=[^\s]{0,200}\d)[A-Za-z0-9._~+/-]{16,}"),
    ),
    ("a password in an address", re.compile(r"(?i)\b[a-z][a-z0-9+.-]{0,30}://[^\s/:@?#]{0,200}:[^\s/@?#]{1,200}@")),
    (
        "a named key or password",
        re.compile(
            r"(?i)(?:api[_-]?key|access[_-]?key|secret|passw(?:or)?d|auth[_-]?token|access[_-]?token)"
            r"[\"']?\s{0,9}[:=]\s{0,9}[\"']?(?=[^\s\"']{0,200}\d)(?=[^\s\"']{0,200}[A-Za-z])[A-Za-z0-9._~+/-]{16,}"
        ),
    ),
    # The service's own tokens are 43 characters of base64url (contract, section 2); a digest of that form is
    # written with its algorithm before it or a "=" after it.
    (
        "an Exp-Bench token",
        re.compile(
            r"(?<![A-Za-z0-9_/+=-])(?=[A-Za-z0-9_-]{0,42}[a-z])(?=[A-Za-z0-9_-]{0,42}[A-Z])(?=[A-Za-z0-9_-]{0,42}\d)"
            r"[A-Za-z0-9_-]{43}(?![A-Za-z0-9_/+=-])"
        ),
    ),
)

_SECRET_NAME = re.compile(
    r"(?i)(?:^|_)(?:KEY|APIKEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|CREDENTIALS?|PAT|PASSPHRASE)(?:$|_)"
)


class Scanner:
    """Knows the secrets of this host and the shapes of others'."""

    def __init__(self, known: Iterable[SecretStr] = ()) -> None:
        self._known: set[str] = set()
        for secret in known:
            value = secret.get_secret_value().strip()
            if len(value) >= MIN_KNOWN:
                self._known.update(_spellings(value))

    def scan(self, body: Any) -> list[Finding]:
        """Every string of ``body``, keys included; one finding a place."""
        out = []
        for path, text in _strings(body, ""):
            kind = self._kind(text)
            if kind:
                out.append(Finding(path or "body", kind))
        return out

    def _kind(self, text: str) -> str:
        plain = unquote(text) if "%" in text else text
        # A secret that was wrapped over lines is still a secret.
        joined = re.sub(r"\s+", "", text)
        if any(secret in text or secret in plain or secret in joined for secret in self._known):
            return "a secret that this host holds"
        for kind, shape in _SHAPES:
            if shape.search(text) or (plain is not text and shape.search(plain)):
                return kind
        return ""


def environment_secrets(environ: Mapping[str, str]) -> list[SecretStr]:
    """Values of variables whose names say that they are keys, tokens or passwords; paths to files are none."""
    return [
        SecretStr(value)
        for name, value in environ.items()
        if _SECRET_NAME.search(name)
        and not name.upper().endswith(("_FILE", "_PATH", "_DIR", "_URL", "_ID", "_NAME"))
        and not value.startswith(("/", "./", "~"))
        and _unlike_a_word(value.strip())
    ]


def _unlike_a_word(value: str) -> bool:
    """A password such as ``postgres`` would block every text that speaks of it."""
    mixed = any(char.isdigit() for char in value) and any(char.isalpha() for char in value)
    return len(value) >= 20 or (len(value) >= 12 and mixed)


def _spellings(value: str) -> set[str]:
    raw = value.encode("utf-8", "surrogatepass")
    encoded = {base64.b64encode(raw).decode().rstrip("="), base64.urlsafe_b64encode(raw).decode().rstrip("=")}
    return {value, quote(value, safe=""), *encoded}


def _strings(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            below = f"{path}.{key}" if path else str(key)
            yield path, str(key)
            yield from _strings(item, below)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _strings(item, f"{path}.{index}" if path else str(index))
