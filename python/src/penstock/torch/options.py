"""The arguments of a dataset, split into query, conversion rules and connection."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypedDict

import torch

from penstock import errors, mistakes
from penstock.fields import Query, RunQuery
from penstock.members import Ends, Member
from penstock.repeat import Repeat, epochs
from penstock.torch.rules import Rules


class Connection(TypedDict, total=False):
    """How to reach the server: the arguments of `penstock.connect`."""

    token: str | None
    token_file: str | os.PathLike[str] | None
    headers: Mapping[str, str] | None
    tls_roots: bytes | None
    tls_chain: bytes | None
    tls_key: bytes | None
    timeout: float | None
    lookahead: int
    reconnect: float
    local: bool


class Options(RunQuery, Rules, Connection, total=False):
    """The keyword arguments that a dataset passes to its query, converter and connection."""


class Arguments(Options, total=False):
    """All keyword arguments of a dataset that do not change the type of its items."""

    mix: Sequence[Member] | None
    source: str | None
    ends: Ends
    repeat: Repeat | None
    rank: int | None
    world: int | None
    device: torch.device | str | None
    prefetch: int
    epochs: Literal["auto"] | None
    skip: int
    limit: int | None


# Query fields that a dataset sets itself, and how to set them.
_ITS_OWN = {
    "shard": "pass rank= and world=, or initialize torch.distributed",
    "every": "DataLoader(num_workers=) distributes the steps",
    "cursor": "call load_state_dict(cursor)",
    "epoch": "call set_epoch(epoch)",
    "endpoints": "leave it out: a dataset reads shards",
}


@dataclass(frozen=True)
class DatasetOptions:
    """The keyword arguments of a dataset.

    Attributes:
        query: the fields of the query.
        rules: the rules of the converter.
        connection: the arguments of `penstock.connect`.
    """

    query: dict[str, Any]
    rules: dict[str, Any]
    connection: dict[str, Any] = field(repr=False)  # it may have a token or a key

    @classmethod
    def of(cls, options: Mapping[str, Any], own: tuple[str, ...]) -> Self:
        """Splits the arguments.

        Args:
            options: the arguments as passed.
            own: the names of the dataset's other arguments, to suggest for misspelled names.

        Raises:
            Invalid: a field that the dataset sets itself.
            TypeError: an unknown name.
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

    def repeated(self, repeat: Any) -> Self:
        """The options for several epochs in one iteration; the same ones for None.

        Raises:
            Invalid: it is not a number of epochs.
        """
        if repeat is None:
            return self
        epochs(repeat, self.query)
        return replace(self, query={**self.query, "repeat": repeat})


def _refused(name: str, known: tuple[str, ...]) -> Exception:
    if name in Query.__annotations__:
        message = f"{name}: set by the dataset itself"
        faults = (errors.Fault(field=name, message="set by the dataset itself"),)
        return errors.Invalid(message, remedy=_ITS_OWN[name], faults=faults)
    near = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return TypeError(f"IterableDataset has no argument {name!r}{hint}")
