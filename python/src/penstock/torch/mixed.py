"""The members of a mix, and the position at which to begin."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from penstock import mixcursor
from penstock.client import Client, connect
from penstock.members import MemberSpec, step_rows
from penstock.mixcursor import MixPosition
from penstock.mixing import Mix
from penstock.position import Position
from penstock.torch.codes import Vocabulary
from penstock.torch.options import DatasetOptions
from penstock.torch.readstate import check_query
from penstock.torch.source import SourceSpec


@dataclass(frozen=True)
class MixMembers:
    """The members of a dataset of a mix.

    Attributes:
        specs: what they read.
        source: the name of the column that names the member; None for none.
    """

    specs: tuple[MemberSpec, ...]
    source: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """The members' names."""
        return tuple(member.name for member in self.specs)

    @property
    def name(self) -> str:
        """The members' names as one."""
        return " + ".join(self.names)

    @property
    def query(self) -> dict[str, Any]:
        """The settings of the whole mix from its members' queries: its rows are shuffled if any member's are."""
        shuffled = any(member.query.get("order", "stored") != "stored" for member in self.specs)
        return {"order": "shuffled"} if shuffled else {}

    def with_source_rule(self, options: DatasetOptions) -> DatasetOptions:
        """The options, with a rule that makes the members' indices of the source column."""
        if self.source is None or self.source in (options.rules.get("hash") or {}):
            return options
        vocabularies = {self.source: Vocabulary(self.names), **(options.rules.get("vocab") or {})}
        return replace(options, rules={**options.rules, "vocab": vocabularies})

    def check(self, position: Position) -> None:
        """Refuses a position of different members or queries.

        Raises:
            Invalid: the members or queries differ.
        """
        for cursor in position.cursors:
            mixcursor.check(cursor, self.names)
            shard = cursor["shard"]
            at = MixPosition.of(cursor, self.names, (int(shard["index"]), int(shard["of"])))
            for member, found in zip(self.specs, at.members, strict=True):
                for own in found.cursors:
                    check_query(member.query, own)


@dataclass(frozen=True, kw_only=True)
class MixSpec(SourceSpec):
    """The mix to read, and the position at which to begin.

    Attributes:
        members: the members.
    """

    members: MixMembers

    @property
    def name(self) -> str:
        """The members' names, for messages."""
        return self.members.name

    def open(self, client: Client) -> Mix:
        """Opens the mix, at the snapshots that all processes of the rank read."""
        start = self.start.of_rank(*self.rank)
        names = self.members.names
        if start.cursors:
            made = self._made(client, MixPosition.of(list(start.cursors), names, self.rank))
            self.shared.set_pin(made.pins)
            return made
        made = self._made(client, MixPosition.start(names, start.epoch, self.shared.pin))
        agreed = self.shared.agree_on_pin(made.pins)
        if agreed == made.pins:
            return made
        # Another worker planned at the same time, and the tables changed in between.
        made.close()
        return self._made(client, MixPosition.start(names, start.epoch, agreed))

    def _made(self, client: Client, start: MixPosition) -> Mix:
        clients = [
            one.client or (client if one.uri is None else self._connect(one.uri))
            for one in self.members.specs
        ]
        index, of = self.start.every
        return Mix(
            self.members.specs,
            clients,
            step_rows(self.options.query, self.rank[1]),
            start,
            shard=self.rank,
            source=self.members.source,
            every=(index % of, of),
        )

    def _connect(self, uri: Any) -> Client:
        return connect(uri, **self.options.connection)
