"""Secrets do not leave in a submission, and ordinary research text is not mistaken for one (hazards 18)."""

from __future__ import annotations

import base64
import time
from urllib.parse import quote

import pytest

from expb_tui.core.secret import SecretStr
from expb_tui.core.submissions.scan import Scanner, environment_secrets

TOKEN = "q8Zk3vT0mW-1yXr5Bn7_cD2eF4gH6iJ9kL0oP1aSuVw"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
SHAPES = {
    "aws": "AKIA" + "IOSFODNN7EXAMPLE",
    "aws secret": "aws_secret_access_key = " + "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "github": "ghp_" + "a1B2" * 9,
    "github fine": "github_pat_" + "11ABCDEFG0" * 5,
    "gitlab": "glpat-" + "x1Y2z3" * 4,
    "openai": "sk-proj-" + "Ab12Cd34Ef56" * 3,
    "anthropic": "sk-ant-api03-" + "Ab12Cd34Ef56" * 3,
    "google": "AIza" + "B1c2D3e4F" * 3 + "B1c2D3e4",
    "slack": "xoxb-" + "123456789012-abcdef",
    "huggingface": "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz012345",
    "npm": "npm_" + "a1B2c3D4e5F6" * 3,
    "stripe": "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc",
    "private key": "-----BEGIN OPENSSH PRIVATE KEY-----",
    "pgp": "-----BEGIN PGP PRIVATE KEY BLOCK-----",
    "jwt": JWT,
    "bearer": "Authorization: Bearer abcdef0123456789abcdef",
    "basic": "authorization: Basic dXNlcjpwYXNzd29yZDEyMw==",
    "address": "https://user:hunter2@git.example.test/shop",
    "named": "API_KEY=0a1b2c3d4e5f6071",
    "yaml": "  client_secret: 'Zx9-Yw8_Vu7-Ts65'",
    "exp-bench": TOKEN,
}
INNOCENT = [
    "Caching price lookups for 60 s lowers p95 below 420 ms.",
    "b1946ac92492d2347c6235b4d2611184b1946ac92492d2347c6235b4d2611184",
    "9f2c1ab4d5e6f7089a1b2c3d4e5f60718293a4b5",
    "c1a4e7d2-90ab-4cde-b123-4567890abc03",
    "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
    "https://artifacts.example.test/r/881?page=2#top",
    "ssh://git@git.example.test/shop.git",
    "The token bucket holds 64 tokens; the secret of speed is caching.",
    "password rules were left as they are: nothing changed",
    "the_quick_brown_fox_jumps_over_the_lazy_dogs",
    "skip-connections-in-the-residual-network-blocks",
    "task-level keys: price, stock",
    "-----BEGIN CERTIFICATE-----",
    "bearer tokens are refreshed by the gateway",
    "2026-10-05T09:12:30.123456+02:00",
    "AKIA is the prefix of an access key",
]


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
def test_key_shapes_are_found_wherever_they_stand(text: str) -> None:
    body = {
        "output": {
            "result": {
                "summary": f"We ran it with\n{text}\nand it was fast.",
                "evidence": [{"name": "x"}, {"uri": f"https://example.test/?k={quote(text)}"}],
            }
        }
    }
    assert "output.result.summary" in {finding.path for finding in Scanner().scan(body)}


@pytest.mark.parametrize("text", INNOCENT)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert Scanner().scan({"summary": text}) == []


@pytest.mark.parametrize(
    "spelled",
    [
        TOKEN,
        f"x{TOKEN}y",
        quote("p@ss/w0rd:very+long", safe=""),
        base64.b64encode(b"p@ss/w0rd:very+long").decode(),
        "p@ss/w0r\n  d:very+long",
    ],
)
def test_known_secrets_are_found_in_every_spelling(spelled: str) -> None:
    scanner = Scanner([SecretStr(TOKEN), SecretStr("p@ss/w0rd:very+long")])
    findings = scanner.scan({"output": {"evidence": [{"name": "a"}, {"name": spelled}]}})
    assert [finding.path for finding in findings] == ["output.evidence.1.name"]


def test_keys_and_addresses_are_searched_too_and_nothing_is_shown() -> None:
    scanner = Scanner([SecretStr("correct-horse-battery")])
    findings = scanner.scan({"correct-horse-battery": "x", "uri": "https://h/?q=correct%2Dhorse-battery"})
    assert len(findings) == 2
    assert "correct-horse-battery" not in {finding.kind for finding in findings}


def test_short_words_are_no_secrets() -> None:
    assert Scanner([SecretStr("test"), SecretStr("")]).scan({"summary": "a test"}) == []


def test_the_environment_gives_its_keys_and_not_its_words() -> None:
    found = {
        secret.get_secret_value()
        for secret in environment_secrets(
            {
                "OPENAI_API_KEY": "Zx91Yw82Vu73Ts64",
                "EXPBENCH_AGENT_TOKEN": TOKEN,
                "DB_PASSWORD": "postgres",
                "AGENT_TOKEN_FILE": "/run/secrets/agent-token-1",
                "SSH_KEY": "/home/me/.ssh/id_ed25519",
                "KEYBOARD": "us-intl-with-dead-keys",
                "MONKEY": "capuchin-monkeys-of-brasil",
                "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
                "EMPTY_SECRET": "",
            }
        )
    }
    assert found == {"Zx91Yw82Vu73Ts64", TOKEN}


@pytest.mark.parametrize(
    "piece",
    [
        "a.",
        "eyJ-",
        "secret=",
        "sk-a-",
        "a-",
        "SG.",
        "bearer ",
        "://",
        "x:",
        "-----BEGIN ",
        "A1b-",
        "aws secret ",
        "%41",
    ],
)
def test_a_body_written_to_be_slow_is_not(piece: str) -> None:
    started = time.monotonic()
    Scanner([SecretStr(TOKEN)]).scan({"content": piece * (300_000 // len(piece))})
    assert time.monotonic() - started < 40.0  # one that backtracks takes hours
