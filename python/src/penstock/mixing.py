"""Mixes several datasets into one stream of steps. Each step has the members' shares of rows."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, Unpack

import pyarrow as pa

from penstock import errors, mistakes, query, shares
from penstock.batches import BatchIterator
from penstock.blend import Blend
from penstock.client import Client
from penstock.fields import Cursor, RunQuery
from penstock.memberreader import MemberReader
from penstock.members import Ends, Member, MemberSpec, check, step_rows
from penstock.mixcursor import MixPosition
from penstock.signatures import lists
from penstock.stream import Stats

_NOT_KNOWN = "the number of steps of a mix is known before reading only if a member ends it, and none ends before alone"


@lists(RunQuery)
def mix(
    members: Sequence[Member],
    *,
    client: Client | None = None,
    shard: tuple[int, int] = (0, 1),
    epoch: int = 0,
    cursor: Any = None,
    source: str | None = "source",
    ends: Ends = "mix",
    **fields: Unpack[RunQuery],
) -> Mix:
    """Opens a mix of several datasets.

        members = [{"dataset": "homefeed", "weight": 0.7}, {"dataset": "search", "weight": 0.3}]
        with penstock.mix(members, client=client, lanes=4, global_batch_rows=1024) as mixed:
            for batch in mixed:  # pyarrow.RecordBatch
                train(batch)

    In each step, each member contributes its share of the rows, rounded to a multiple of its lanes. Over any 10,000
    consecutive rows, each member's share is within 1 % of its weight. All ranks have the same steps.

    Args:
        members: the datasets to mix, see `penstock.Member`. Their columns must have the same names, types and order.
        client: the client for members that set none.
        shard: the rank, and the number of ranks.
        epoch: the first epoch of the members.
        cursor: where to resume: the mix's cursor, or the cursors of all ranks.
        source: the name of an added column with the member's name in each row, a dictionary of strings; None adds no
            column.
        ends: the effect of a member's end, unless the member sets `ends`: "mix" ends the mix; "member" ends only the
            member, and the shares of the others grow; "repeat" begins the member's next epoch.
        fields: query fields of all members, see `penstock.RunQuery`. `batch_rows` and `global_batch_rows` apply to the
            mix.

    Raises:
        Invalid: a member or field is wrong, or the columns differ.
    """
    checked = check(members, fields, ends)
    rank = _pair(shard)
    clients = [_client_of(member, client) for member in checked]
    names = [member.name for member in checked]
    if cursor is not None:
        start = MixPosition.of(cursor, names, rank)
    else:
        start = MixPosition.start(names, mistakes.whole("epoch", epoch, minimum=0), None)
    return Mix(checked, clients, step_rows(fields, rank[1]), start, shard=rank, source=source)


def _pair(shard: Any) -> tuple[int, int]:
    given = query.form("", {"shard": shard})["shard"]
    try:
        index, of = int(given["index"]), int(given["of"])
    except (KeyError, TypeError, ValueError) as e:
        raise query.invalid("shard", "must be (index, of)") from e
    if not 0 <= index < of:
        raise query.invalid("shard", f"there is no shard {index} of {of}")
    return index, of


def _client_of(member: MemberSpec, client: Client | None) -> Client:
    found = member.client or client
    if member.uri is not None or found is None:
        raise errors.Invalid(
            f"member {member.name!r} has no client",
            remedy="pass client= to the mix, or add a client to the member: {'client': penstock.connect(address)}",
        )
    return found


class Mix(BatchIterator):
    """An iterator of `pyarrow.RecordBatch`, one for each step, that tracks its position. Created by `penstock.mix`.

    The members are planned at creation; rows are read when the first batch is requested. Like a `Stream`, a mix resumes
    automatically after a lost connection; a failed read raises one of `penstock.errors`, and so does every further
    read. Close a mix when done; leaving its `with` block or reaching its end also closes it. Only one thread may read
    it at a time.
    """

    _what = "mix"
    _for_threads = "a mix for each thread"

    def __init__(
        self,
        members: Sequence[MemberSpec],
        clients: Sequence[Client],
        rows: int,
        start: MixPosition,
        *,
        shard: tuple[int, int],
        source: str | None,
        every: tuple[int, int] = (0, 1),
    ) -> None:
        """Plans the members.

        Args:
            members: the members to mix.
            clients: the client of each member.
            rows: the rows of a step, over all ranks.
            start: the position to begin at.
            shard: the rank, and the number of ranks.
            source: the name of the column that names the member; None adds no column.
            every: (i, n) returns every n-th step from step i on, counted from the start; for DataLoader workers.
        """
        super().__init__()
        self._rows = rows
        self._start = start
        self._step = start.step
        self._shard = shard
        self._every = every
        self._returned_rows = self._returned_batches = 0
        self._clients = _clients_of_mix(members, clients)
        # If one member ends, the others are planned again at that step, so each reader needs the cursors of that step.
        turns = 1 if any(member.ends == "member" for member in members) else every[1]
        self._readers = [
            MemberReader(member, own, shard, at, start.pins.get(member.name), turns)
            for member, own, at in zip(members, self._clients, start.members, strict=True)
        ]
        self._to_start: list[MemberReader] = []
        self._returned = self._position()
        try:
            self._open()
            self._steps = self._steps_left()
            opened = [reader for reader in self._readers if reader.share is not None]
            self._blend = Blend(
                self.names, [self._schema_of(reader, opened) for reader in self._readers], source
            )
        except BaseException:
            self.close()
            raise

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the members, in order. The codes of the `source` column are indexes into these names."""
        return tuple(reader.spec.name for reader in self._readers)

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        return self._blend.schema

    @property
    def pins(self) -> dict[str, Any]:
        """The snapshots that each member reads, by name."""
        return {reader.spec.name: reader.pin for reader in self._readers if reader.pin is not None}

    @property
    def cursor(self) -> Cursor:
        """The position after the last returned step, as plain JSON. To resume there, pass it to `mix` as `cursor`.

        To resume with a different number of ranks, pass the list of all ranks' cursors after the same step.
        """
        # A failed step may have taken batches of some members, so the position is the position of the last returned
        # step.
        return replace(self._returned, pins=self.pins).cursor(self.names, self._shard)

    def _position(self) -> MixPosition:
        return MixPosition(self._step, self._start.epoch, tuple(reader.at for reader in self._readers), {})

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows of each member so far, by name."""
        return {reader.spec.name: reader.rows for reader in self._readers}

    @property
    def stats(self) -> Stats:
        """Statistics so far."""
        return Stats(
            self._returned_rows,
            self._returned_batches,
            self._seconds,
            self._waited,
            resumed=sum(reader.resumed for reader in self._readers),
            moved=sum(reader.moved for reader in self._readers),
        )

    @property
    def plan(self) -> None:
        """None: each member has its own plan."""
        return

    def __len__(self) -> int:
        if self._steps is None:
            raise TypeError(_NOT_KNOWN)
        index, of = self._every
        return max(0, -((index - self._steps) // of))

    def _came(self, batch: pa.RecordBatch | None) -> None:
        if batch is None:
            self.close()
            return
        self._returned_rows += batch.num_rows
        self._returned_batches += 1

    def _next(self) -> pa.RecordBatch | None:
        while self._settle_ends():
            self._start_streams()
            ahead = self._ahead
            parts = [
                [] if reader.at.ended else [reader.take(ahead) for _ in range(_share(reader).due(self._step))]
                for reader in self._readers
            ]
            self._step += 1
            if not ahead:
                batch = self._blend.batch([[batch for batch in part if batch is not None] for part in parts])
                self._returned = self._position()
                return batch
        return None

    @property
    def _ahead(self) -> int:
        """The number of steps before the next step to return."""
        index, of = self._every
        return (index - (self._step - self._start.step)) % of

    def _settle_ends(self) -> bool:
        """Ends the members with too few batches for the step. Reports whether the mix continues.

        The result depends only on planned numbers, which are the same for all ranks.
        """
        while True:
            short = [
                reader
                for reader in self._readers
                if not reader.at.ended
                and reader.spec.ends != "repeat"
                and reader.left < _share(reader).due(self._step)
            ]
            if not short:
                return True
            active = sum(not reader.at.ended for reader in self._readers)
            if len(short) == active or any(reader.spec.ends == "mix" for reader in short):
                return False
            for reader in short:
                reader.end()
            self._open()

    def _open(self) -> None:
        """Divides the rows of a step among the members that have not ended, and plans members whose batches change."""
        active = [reader for reader in self._readers if not reader.at.ended]
        weights = [reader.spec.weight for reader in active]
        for reader, share in zip(
            active, shares.divide(weights, [reader.lanes for reader in active], self._rows), strict=True
        ):
            if reader.open(share, self._ahead) and reader not in self._to_start:
                self._to_start.append(reader)

    def _start_streams(self) -> None:
        """Opens all new streams at once, because the server admits them together."""
        due, self._to_start = self._to_start, []
        if not due:
            return
        with ThreadPoolExecutor(len(due), thread_name_prefix="penstock-mix") as pool:
            starts = [pool.submit(reader.start) for reader in due]
            try:
                wait(starts, return_when=FIRST_EXCEPTION)
                for start in starts:
                    if start.done():
                        start.result()
            except BaseException:
                for reader in due:
                    reader.close()  # the others may wait for a server
                raise

    def _schema_of(self, reader: MemberReader, opened: Sequence[MemberReader]) -> pa.Schema:
        # Members that ended before the cursor have no stream; their columns were equal.
        return (reader if reader in opened else opened[0]).schema

    def _steps_left(self) -> int | None:
        ends: dict[str, list[int]] = {"mix": [], "member": []}
        for reader in self._readers:
            if not reader.at.ended and reader.spec.ends != "repeat":
                share = _share(reader)
                ends[reader.spec.ends].append(share.last_step(share.before(self._step) + reader.left))
        if not ends["mix"] or min(ends["member"], default=min(ends["mix"])) < min(ends["mix"]):
            return None
        return min(ends["mix"]) - self._step

    def close(self) -> None:
        """Closes the streams of all members. The cursor remains available."""
        self._closed = True
        for reader in self._readers:
            reader.close()
        for client in set(self._clients):
            client.close()

    def __repr__(self) -> str:
        return f"<penstock.Mix of {', '.join(self.names)}: step {self._step}>"


def _share(reader: MemberReader) -> shares.Share:
    assert reader.share is not None
    return reader.share


def _clients_of_mix(members: Sequence[MemberSpec], clients: Sequence[Client]) -> list[Client]:
    """Creates clients for this mix alone, so that each server admits their streams together."""
    settings = [client.settings for client in clients]
    mix_id = secrets.token_hex(8)
    # All ranks of the mix, and equal mixes, have the same group.
    group = " ".join(sorted(member.name for member in members))
    made: Mapping[Any, Client] = {
        one: Client(one.of_mix(mix_id, settings.count(one), group)) for one in dict.fromkeys(settings)
    }
    return [made[one] for one in settings]
