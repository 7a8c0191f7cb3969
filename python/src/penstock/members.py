"""The members of a mix: their queries and weights, and the effect of their ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Required, cast, get_args

from penstock import mistakes, query, shares
from penstock.client import Client
from penstock.fields import Query, RunQuery
from penstock.query import Dataset

Ends = Literal["mix", "member", "repeat"]


class Member(RunQuery, total=False):
    """One member of a mix: the fields of its query, and the fields below. They override the fields of the mix.

    Attributes:
        dataset: the name of a dataset on the server, or a dataset as a mapping.
        weight: its share of the rows, relative to the other weights.
        name: its name in the mix's `source` column; the dataset's name if omitted.
        ends: the effect of the end of its epoch: "mix" ends the mix, "member" ends only this member, and "repeat"
            begins its next epoch. If omitted, the mix's `ends` applies.
        client: the client of its server; the mix's client if omitted.
        uri: the address of its server, instead of a client, for `penstock.torch.IterableDataset`.
    """

    dataset: Required[Dataset]
    weight: Required[float]
    name: str
    ends: Ends
    client: Client
    uri: str | Sequence[str]


_OWN = Member.__annotations__.keys() - RunQuery.__annotations__.keys()

# Query fields that a member cannot set: they apply to the whole mix, or a mix does not support them.
_OF_MIX = {
    "batch_rows": "pass batch_rows or global_batch_rows to the mix: its members divide the rows of each step",
    "global_batch_rows": "pass batch_rows or global_batch_rows to the mix: its members divide the rows of each step",
    "batch_requests": "leave it out: the shares of a mix are counted in rows",
    "tail": "leave it out: a mix ends at the same step on all ranks",
    "shard": "pass it to the mix: all members have the same shards",
    "epoch": "pass it to the mix: all members begin with the same epoch",
    "cursor": "pass the mix's cursor to the mix",
    "every": "leave it out",
    "limit": "stop reading after the last step you need, or give the member a sample or a filter",
    "endpoints": "leave it out: a mix reads shards",
    "repeat": "write ends='repeat' for the members that repeat",
}


@dataclass(frozen=True)
class MemberSpec:
    """A checked member.

    Attributes:
        name: its name in the mix.
        dataset: the dataset to read.
        weight: its share of the rows, relative to the other weights.
        ends: the effect of its end.
        query: the fields of its query.
        client: the client of its server; None for the mix's client.
        uri: the address of its server; None for the mix's server.
    """

    name: str
    dataset: Dataset
    weight: Fraction
    ends: Ends
    query: dict[str, Any]
    client: Client | None
    uri: Any


def check(members: Sequence[Member], shared: Mapping[str, Any], ends: Ends) -> tuple[MemberSpec, ...]:
    """Checks the members of a mix.

    Args:
        members: the members, as passed by the caller.
        shared: the query fields of the mix, for all members.
        ends: the effect of a member's end, unless the member sets `ends`.

    Raises:
        Invalid: there are no members, two members have the same name, or a member is wrong.
    """
    if isinstance(members, (str, bytes, Mapping)) or not isinstance(members, Sequence) or not members:
        raise query.invalid(
            "mix", "must be a list of at least one member", "write mix=[{'dataset': name, 'weight': 1}]"
        )
    if len(members) > _MAX_MEMBERS:
        raise query.invalid(
            "mix",
            f"has {len(members)} members, and at most {_MAX_MEMBERS} can be mixed",
            "mix fewer datasets",
        )
    _check_fields("mix", {name: value for name, value in shared.items() if name not in _SIZES})
    checked = tuple(_member(f"mix[{at}]", member, shared, ends) for at, member in enumerate(members))
    names = [member.name for member in checked]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        listed = ", ".join(map(repr, twice))
        raise query.invalid(
            "mix", f"two members are named {listed}", "give each one its own name: {'name': …}"
        )
    return checked


_MAX_MEMBERS = 64  # the maximum number of streams that a server admits together
_SIZES = ("batch_rows", "global_batch_rows")


def step_rows(shared: Mapping[str, Any], world: int) -> int:
    """Returns the number of rows of a step over all ranks, from the fields of a mix.

    Raises:
        Invalid: two sizes are set, or one is not positive.
    """
    given = {name: shared[name] for name in _SIZES if shared.get(name) is not None}
    if len(given) > 1:
        raise query.invalid(
            "batch_rows", "cannot be combined with global_batch_rows", "leave one of them out"
        )
    for name, value in given.items():
        return mistakes.whole(name, value, minimum=1) * (world if name == "batch_rows" else 1)
    return DEFAULT_BATCH_ROWS * world


DEFAULT_BATCH_ROWS = 8192


def _member(at: str, member: Any, shared: Mapping[str, Any], ends: Ends) -> MemberSpec:
    if not isinstance(member, Mapping):
        remedy = "write a mapping: {'dataset': name, 'weight': 1}"
        raise query.invalid(at, f"must be a mapping, not {type(member).__name__}", remedy)
    for name in ("dataset", "weight"):
        if member.get(name) is None:
            raise query.invalid(f"{at}.{name}", "is missing", f"add {name!r} to the member")
    own = {name: value for name, value in member.items() if name not in _OWN and value is not None}
    _check_fields(at, own)
    said = {
        **{name: value for name, value in shared.items() if value is not None and name not in _SIZES},
        **own,
    }
    mistakes.refuse(said)
    try:
        weight = shares.weight(member["weight"])
    except (TypeError, ValueError) as e:
        remedy = "write a positive number"
        raise query.invalid(f"{at}.weight", f"{member['weight']!r} is not a weight", remedy) from e
    dataset = member["dataset"]
    return MemberSpec(
        name=str(member.get("name") or query.name(dataset)),
        dataset=dataset,
        weight=weight,
        ends=_ends(f"{at}.ends", member.get("ends") or ends),
        query=said,
        client=member.get("client"),
        uri=member.get("uri"),
    )


def _ends(at: str, value: Any) -> Ends:
    if value not in get_args(Ends):
        known = ", ".join(map(repr, get_args(Ends)))
        raise query.invalid(at, f"{value!r} is not what an end can mean", f"use {known}")
    return cast(Ends, value)


def _check_fields(at: str, fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        if value is None:
            continue
        if name in _OF_MIX and not (name == "tail" and value == "drop"):
            raise query.invalid(f"{at}.{name}", "cannot be set here", _OF_MIX[name])
        if name == "wire" and value not in ("plain", "auto"):
            remedy = "leave it out, or read the dataset without a mix"
            raise query.invalid(f"{at}.wire", f"{value!r}: the batches of a mix are plain", remedy)
        if name not in Query.__annotations__:
            raise TypeError(f"{at} has an unknown field {name!r}")
