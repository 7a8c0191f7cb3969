"""What becomes of keyword arguments."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import penstock
from penstock import query


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {}),
        ({"columns": None, "cursor": None}, {}),
        ({"columns": ("a", {"column": "b", "name": "c"})}, {"columns": ["a", {"column": "b", "name": "c"}]}),
        ({"shard": (1, 4)}, {"shard": {"index": 1, "of": 4}}),
        ({"shard": [np.int64(1), np.int32(4)]}, {"shard": {"index": 1, "of": 4}}),
        ({"shard": {"of": 4}}, {"shard": {"of": 4}}),
        ({"seed": np.int64(-(2**63)), "epoch": True}, {"seed": -(2**63), "epoch": True}),
        ({"lanes": 4.5}, {"lanes": 4.5}),
        ({"filter": "name = 'zürich'"}, {"filter": "name = 'zürich'"}),
        (
            {"sample": {"hash": (0, np.float64(0.0625)), "by": "key", "rate": 0.1, "where": "label = 0"}},
            {"sample": {"hash": [0, 0.0625], "by": "key", "rate": 0.1, "where": "label = 0"}},
        ),
        ({"cursor": '{"rows": 9007199254740993}'}, {"cursor": {"rows": 9007199254740993}}),
        ({"cursor": [b'{"v":1}', {"v": 2}, '[{"v":3}]']}, {"cursor": [{"v": 1}, {"v": 2}, {"v": 3}]}),
        ({"later": {"field": [1, None]}}, {"later": {"field": [1, None]}}),
    ],
)
def test_fields_become_json(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    assert json.loads(query.text(query.form("d", fields))) == {"dataset": "d", **expected}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"shard": (1, 2, 3)}, "shard"),
        ({"cursor": "{"}, "cursor"),
        ({"cursor": 7}, "cursor"),
        ({"cursor": [7]}, "cursor"),
        ({"columns": {"a", "b"}}, "columns"),
        ({"columns": ["a", object()]}, "columns[1]"),
        ({"later": {"a": {"b": b"bytes"}}}, "later.a.b"),
        ({"later": {1: 2}}, "later"),
        ({"min_match": float("nan")}, "min_match"),
    ],
)
def test_error_names_values_without_a_json_form(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(penstock.Invalid) as caught:
        query.form("d", fields)
    assert [f.field for f in caught.value.faults] == [field]
    assert field in str(caught.value)


def test_the_callers_values_are_copied() -> None:
    cursor = {"at": [{"lane": 0}]}
    copy = query.cursor(cursor)
    assert copy == cursor
    assert isinstance(copy, dict)
    copy["at"][0]["lane"] = 1
    assert cursor["at"][0]["lane"] == 0
