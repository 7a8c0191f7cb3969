"""The signatures of functions that take the fields of a query, as notebooks complete them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import pytest

import penstock
from penstock import mixing, querying
from penstock.signatures import lists

OF_QUERIES = [
    "schema",
    "plan",
    "read",
    "read_async",
    "head",
    "explain",
    "manifest",
    "replay",
    "read_splits",
    "evaluate",
    "verify",
]


def fields_of(function: Callable[..., Any], form: type) -> list[str]:
    """The fields of the form that the signature has as keyword parameters which may be left out."""
    return [
        name
        for name, given in inspect.signature(function).parameters.items()
        if name in form.__annotations__
        and given.kind is inspect.Parameter.KEYWORD_ONLY
        and given.default is None
    ]


@pytest.mark.parametrize("name", OF_QUERIES)
def test_methods_list_every_field(name: str) -> None:
    bound = getattr(penstock.connect("localhost:1"), name)
    assert fields_of(bound, penstock.Query) == list(penstock.Query.__annotations__)
    given = inspect.signature(bound).parameters
    assert given["seed"].annotation == get_type_hints(penstock.Query)["seed"]
    assert all(each.kind is not inspect.Parameter.VAR_KEYWORD for each in given.values())
    assert "\n    seed: the seed of a shuffled order" in bound.__doc__
    assert "\n    cursor: where to resume" in bound.__doc__


def test_a_mix_lists_the_fields_of_a_run() -> None:
    assert fields_of(penstock.mix, penstock.RunQuery) == list(penstock.RunQuery.__annotations__)
    assert {"epoch", "cursor"} - set(inspect.signature(penstock.mix).parameters) == set()
    assert inspect.signature(penstock.mix).parameters["epoch"].default == 0


def test_every_function_that_takes_fields_lists_them() -> None:
    for owner in (penstock.Client, querying, mixing):
        for name, function in inspect.getmembers(owner, inspect.isfunction):
            if name.startswith("_"):
                continue  # editors show the signatures of others
            hint = str(function.__annotations__.get("fields", ""))
            assert ("Unpack[" in hint) == hasattr(function, "__signature__"), name


def test_only_functions_that_take_fields_can_list_them() -> None:
    def takes_none(dataset: str) -> str:
        return dataset

    with pytest.raises(TypeError, match="does not take fields"):
        lists(penstock.Query)(takes_none)
