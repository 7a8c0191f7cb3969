"""The arguments of a dataset, taken apart: what is asked, how it is converted, how to connect."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypedDict

from penstock import errors, mistakes
from penstock.fields import Query, RunQuery
from penstock.torch.rules import Rules


class Connection(TypedDict, total=False):
    """How to reach the server: what `penstock.connect` takes."""

    token: str | None
    headers: Mapping[str, str] | None
    tls_roots: bytes | None
    tls_chain: bytes | None
    tls_key: bytes | None
    timeout: float | None
    lookahead: int | None
    reconnect: float


class Options(RunQuery, Rules, Connection, total=False):
    """The keyword arguments of a dataset beside its own: a query's, a converter's and a connection's."""


# What a dataset says by itself, and what says it in its place.
_ITS_OWN = {
    "shard": "say rank= and world=, or let torch.distributed say them",
    "every": "DataLoader(num_workers=) divides the steps",
    "cursor": "call load_state_dict(cursor)",
    "epoch": "call set_epoch(epoch)",
    "limit": "leave the loop at the step that is the last one",
    "endpoints": "a dataset reads shards",
}


@dataclass(frozen=True)
class Asked:
    """What a dataset was made with.

    Attributes:
        query: the fields of the query.
        rules: those of the converter.
        connection: the arguments of `penstock.connect`.
    """

    query: dict[str, Any]
    rules: dict[str, Any]
    connection: dict[str, Any]

    @classmethod
    def of(cls, options: Mapping[str, Any], own: tuple[str, ...]) -> Self:
        """Takes the arguments apart.

        Args:
            options: as they were given.
            own: the names of the dataset's other arguments, one of which may have been meant.

        Raises:
            Invalid: a field that the dataset says itself.
            TypeError: a name that nobody knows.
        """
        parts: list[dict[str, Any]] = [{}, {}, {}]
        kinds = (RunQuery.__annotations__, Rules.__annotations__, Connection.__annotations__)
        for name, value in options.items():
            kind = next((i for i, known in enumerate(kinds) if name in known), None)
            if kind is None:
                raise _refused(name, (*own, *Options.__annotations__))
            parts[kind][name] = value
        said = {name: value for name, value in parts[0].items() if value is not None}
        mistakes.refuse(said)
        return cls(said, parts[1], parts[2])


def _refused(name: str, known: tuple[str, ...]) -> Exception:
    if name in Query.__annotations__:
        message = f"{name}: the dataset says it itself"
        faults = (errors.Fault(field=name, message="the dataset says it itself"),)
        return errors.Invalid(message, remedy=_ITS_OWN[name], faults=faults)
    near = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return TypeError(f"IterableDataset has no argument {name!r}{hint}")
