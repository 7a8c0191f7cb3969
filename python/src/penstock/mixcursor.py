"""The position of a mix: its step, and the position of each member."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from penstock import errors, query
from penstock.fields import Cursor
from penstock.position import Position, listed

VERSION = 1


@dataclass(frozen=True)
class MemberPosition:
    """The position of a member.

    Attributes:
        epoch: the epoch that it reads.
        lanes: its number of lanes; None if unknown.
        cursors: its cursor for this rank, or its cursors for all ranks of the run that saved it; empty at the start of
            the epoch.
        ended: whether it has ended, while the mix continues.
    """

    epoch: int
    lanes: int | None = None
    cursors: tuple[Cursor, ...] = ()
    ended: bool = False


@dataclass(frozen=True)
class MixPosition:
    """The position of a mix.

    Attributes:
        step: the number of steps before the position.
        epoch: the first epoch of the members.
        members: the position of each member.
        pins: the snapshots that each member reads, by name.
    """

    step: int
    epoch: int
    members: tuple[MemberPosition, ...]
    pins: Mapping[str, Any]

    def cursor(self, names: Sequence[str], shard: tuple[int, int]) -> Cursor:
        """Returns the cursor of one rank, as plain JSON. Like a stream's cursor, it has step, epoch, shard, pin and at."""
        at = [
            {
                "member": name,
                "epoch": member.epoch,
                "lanes": member.lanes,
                "cursor": _written(member.cursors),
                **({"ended": True} if member.ended else {}),
            }
            for name, member in zip(names, self.members, strict=True)
        ]
        return {
            "v": VERSION,
            "mix": list(names),
            "epoch": self.epoch,
            "pin": dict(self.pins),
            "shard": {"index": shard[0], "of": shard[1]},
            "step": self.step,
            "at": at,
        }

    @classmethod
    def start(cls, names: Sequence[str], epoch: int, pins: Mapping[str, Any] | None) -> Self:
        """Returns the position at the start of an epoch."""
        return cls(0, epoch, tuple(MemberPosition(epoch) for _ in names), dict(pins or {}))

    @classmethod
    def of(cls, cursor: Any, names: Sequence[str], shard: tuple[int, int]) -> Self:
        """Decodes the cursor of a rank, or of all ranks.

        Raises:
            Invalid: the value is not a cursor of a mix of these members.
        """
        given = query.cursor(cursor)
        for one in given if isinstance(given, list) else [given]:
            check(one, names)
        cursors = Position.of(given).of_rank(*shard).cursors
        steps = sorted({int(one["step"]) for one in cursors})
        if len(steps) > 1:
            raise errors.Invalid(
                f"the cursors are from different steps: {listed(steps)}",
                remedy="save the state of every rank after the same step",
            )
        try:
            members = tuple(_member([one["at"][i] for one in cursors]) for i in range(len(names)))
        except (KeyError, TypeError, ValueError, IndexError) as e:
            raise errors.Invalid("this is not a mix's cursor", remedy=_REMEDY) from e
        return cls(steps[0], int(cursors[0]["epoch"]), members, dict(cursors[0]["pin"]))


_REMEDY = "pass the mix's cursor as it was saved"


def check(cursor: Mapping[str, Any], names: Sequence[str]) -> None:
    """Checks that a cursor is from a mix of these members.

    Raises:
        Invalid: the cursor is from another mix or a stream.
    """
    found = cursor.get("mix")
    if found is None:
        raise errors.Invalid("the cursor is from a single stream, but this is a mix", remedy=_REMEDY)
    if cursor.get("v") != VERSION:
        raise errors.Invalid(
            f"the mix's cursor has version {cursor.get('v')}; this package reads version {VERSION}",
            remedy="use the package version that saved it",
        )
    if list(found) != list(names):
        raise errors.Invalid(
            f"the cursor is from a mix of {listed(found)}, but this one is of {listed(names)}",
            remedy="list the same members in the same order; weights and their queries' columns may change",
        )


def _member(found: Sequence[Mapping[str, Any]]) -> MemberPosition:
    """Returns the position of a member, from the cursors of all ranks."""
    cursors = [one["cursor"] for one in found]
    places = {(int(one["epoch"]), one["lanes"], bool(one.get("ended"))) for one in found}
    # Until its first batch after a resume, a member keeps the position that the previous run saved, which is equal on
    # all ranks.
    own = any(one != cursors[0] for one in cursors)
    if len(places) > 1 or (own and not all(isinstance(one, Mapping) for one in cursors)):
        raise errors.Invalid(
            "the ranks' cursors of a member are from different epochs or steps",
            remedy="save the state of every rank after the same step",
        )
    epoch, lanes, ended = places.pop()
    at = cursors if own else query.cursor(cursors[0] or [])
    every = at if isinstance(at, list) else [at]
    return MemberPosition(epoch, None if lanes is None else int(lanes), tuple(every), ended)


def _written(cursors: Sequence[Cursor]) -> Any:
    if not cursors:
        return None
    return cursors[0] if len(cursors) == 1 else list(cursors)
