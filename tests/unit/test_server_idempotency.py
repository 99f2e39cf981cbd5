"""What an idempotency record compares and keeps."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from expb_tui.server.context import Caller
from expb_tui.server.idempotency import LONGEST_KEY, SECRET_KEYS, body_digest, stored_body, ticket, without_secrets
from expb_tui.server.problems import Problem

NOW = datetime(2026, 10, 5, tzinfo=UTC)
CALLER = Caller("agent", "acc", "cred", agent_id="agt")


def test_white_space_and_the_order_of_keys_do_not_count() -> None:
    assert body_digest(b'{"a": 1, "b": [1, 2]}') == body_digest(b'{"b":[1,2],\n"a":1}')
    assert body_digest(b'{"a": [1, 2]}') != body_digest(b'{"a": [2, 1]}')
    assert body_digest(b'{"a": "1"}') != body_digest(b'{"a": 1}')


def test_secrets_go_at_any_depth_but_labels_stay() -> None:
    secret = dict.fromkeys(SECRET_KEYS, "s3cret")
    kept = {"resource": {"metadata": {"labels": {"token": "not secret"}}, "spec": {}}, "list": [{}]}
    value = {
        **secret,
        "resource": {"metadata": {"labels": {"token": "not secret"}, **secret}, "spec": {**secret}},
        "list": [{**secret}],
    }
    assert without_secrets(value) == kept
    assert json.loads(stored_body(value)) == kept
    assert json.loads(stored_body({**secret, "resource": {"spec": {"note": '"token":'}}})) == {
        "resource": {"spec": {"note": '"token":'}}
    }
    assert stored_body(None) == b"null"


@pytest.mark.parametrize("key", [None, "", "k" * (LONGEST_KEY + 1), "ä" * (LONGEST_KEY // 2 + 1)])
def test_a_key_is_required_and_bounded(key: str | None) -> None:
    with pytest.raises(Problem) as caught:
        ticket(key, CALLER, "POST", "/v1/x", b"{}", NOW, 60)
    assert (caught.value.status, caught.value.code) == (422, "validation")
    assert list(caught.value.fields) == ["Idempotency-Key"]


def test_a_record_belongs_to_one_credential_path_and_key() -> None:
    def scope(caller: Caller = CALLER, path: str = "/v1/x", key: str = "k") -> bytes:
        return ticket(key, caller, "POST", path, b"{}", NOW, 60).scope

    other_credential = Caller("agent", "acc", "cred2", agent_id="agt")
    scopes = {scope(), scope(other_credential), scope(path="/v1/y"), scope(key="l")}
    assert len(scopes) == 4
    assert scope() == scope()
