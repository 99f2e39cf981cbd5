"""The selector grammar, and what it selects on SQLite (the lists' tests do it on PostgreSQL too)."""

from __future__ import annotations

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, create_engine, insert, select

from expb_tui.server.problems import Problem
from expb_tui.server.selectors import Requirement, field_conditions, label_conditions, parse_selector
from expb_tui.server.store.columns import InstantColumn, JsonColumn


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        ("  ", []),
        ("a=b", [Requirement("a", "in", ("b",))]),
        ("a == b", [Requirement("a", "in", ("b",))]),
        ("a!=b", [Requirement("a", "notin", ("b",))]),
        ("a=", [Requirement("a", "in", ("",))]),
        ("a in (x,y)", [Requirement("a", "in", ("x", "y"))]),
        ("a notin (x)", [Requirement("a", "notin", ("x",))]),
        ("a in (x,)", [Requirement("a", "in", ("x", ""))]),
        ("a,!b", [Requirement("a", "exists"), Requirement("b", "absent")]),
        ("n>3,n<9", [Requirement("n", ">", ("3",)), Requirement("n", "<", ("9",))]),
        ("example.com/a=b", [Requirement("example.com/a", "in", ("b",))]),
    ],
)
def test_the_grammar(text: str, terms: list[Requirement]) -> None:
    assert parse_selector(text) == terms


@pytest.mark.parametrize(
    "text",
    [",", "a,", "a b", "a in x", "a in (x", "=b", "a=b=c", "a!", "!", "a>", "a in (x y)", ")", "a=(b)", "x" * 5000],
)
def test_what_the_grammar_refuses(text: str) -> None:
    with pytest.raises(ValueError):
        parse_selector(text)


ROWS = Table(
    "rows",
    MetaData(),
    Column("name", Text),
    Column("labels", JsonColumn),
    Column("version", Integer),
    Column("at", InstantColumn),
)


@pytest.fixture
def chosen() -> object:
    from expb_tui.server.rfc3339 import parse_instant

    engine = create_engine("sqlite://")
    ROWS.metadata.create_all(engine)
    rows = [
        {"name": "one", "labels": {"tier": "gold", "size": "10"}, "version": 1, "at": "2026-10-05T08:00:00Z"},
        {"name": "two", "labels": {"tier": "iron", "size": "9"}, "version": 2, "at": "2026-10-06T08:00:00Z"},
        {"name": "three", "labels": {"size": "big"}, "version": 3, "at": "2026-10-07T08:00:00Z"},
        {"name": "four", "labels": {}, "version": 4, "at": "2026-10-08T08:00:00Z"},
    ]
    with engine.begin() as conn:
        conn.execute(insert(ROWS), [{**row, "at": parse_instant(str(row["at"]))} for row in rows])

    def select_by(labels: str = "", fields: str = "") -> list[str]:
        paths = {"metadata.name": ROWS.c.name, "metadata.version": ROWS.c.version, "metadata.at": ROWS.c.at}
        conditions = [*label_conditions(labels, ROWS.c.labels), *field_conditions(fields, paths)]
        with engine.connect() as conn:
            return list(conn.execute(select(ROWS.c.name).where(*conditions).order_by(ROWS.c.version)).scalars())

    return select_by


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ("tier=gold", ["one"]),
        ("tier!=gold", ["two", "three", "four"]),
        ("tier in (gold,iron)", ["one", "two"]),
        ("tier notin (gold,iron)", ["three", "four"]),
        ("tier", ["one", "two"]),
        ("!tier", ["three", "four"]),
        ("size>9", ["one"]),
        ("size<10", ["two"]),
        ("tier,size>5,tier!=gold", ["two"]),
    ],
)
def test_labels_select(chosen: object, labels: str, names: list[str]) -> None:
    assert callable(chosen)
    assert chosen(labels=labels) == names


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ("metadata.name=one", ["one"]),
        ("metadata.name in (one,two)", ["one", "two"]),
        ("metadata.version>2", ["three", "four"]),
        ("metadata.version=2", ["two"]),
        ("metadata.at<2026-10-06T08:00:00Z", ["one"]),
    ],
)
def test_fields_select(chosen: object, fields: str, names: list[str]) -> None:
    assert callable(chosen)
    assert chosen(fields=fields) == names


@pytest.mark.parametrize(
    ("labels", "fields", "code"),
    [
        ("tier=", "spec.secret=x", "invalid-field-selector"),
        ("", "metadata.name>a", "invalid-field-selector"),
        ("", "metadata.version=two", "invalid-field-selector"),
        ("", "metadata.at>yesterday", "invalid-field-selector"),
        ("size>big", "", "invalid-query"),
        ("bad key=x", "", "invalid-query"),
        ('x"]=1', "", "invalid-query"),
        ("a" * 70 + "=x", "", "invalid-query"),
    ],
)
def test_what_selects_nothing_is_said(chosen: object, labels: str, fields: str, code: str) -> None:
    assert callable(chosen)
    with pytest.raises(Problem) as caught:
        chosen(labels=labels, fields=fields)
    assert (caught.value.status, caught.value.code) == (400, code)
