"""The current state of a stream: what it waits for, and where its time went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from penstock.answers import known, part


@dataclass(frozen=True)
class Waited:
    """The time that a stream has waited, in seconds by cause. Simultaneous waits count once.

    Attributes:
        trainer: waiting for the client to take the last batch.
        slot: waiting for a stream slot, of which the server has `max_streams`.
        memory: waiting for room in the server's memory budget.
        stream: waiting for data that another stream was reading.
        storage: opening and reading files of tables.
        network: waiting for the connection to the client, which takes no more bytes.
        deletes: opening and reading delete files of tables.
    """

    trainer: float
    slot: float
    memory: float
    stream: float
    storage: float
    network: float = 0.0
    deletes: float = 0.0


@dataclass(frozen=True)
class Worked:
    """The time that a stream has worked while it waited for nothing, in seconds by kind of work.

    Attributes:
        plan: planning the query and opening the stream.
        spill: joining build sides on local disk.
        decode: decoding and filtering rows of files.
        build: indexing staging rows by key.
        compute: evaluating expressions.
        join: joining rows and cutting them into batches.
        send: encoding batches and handing them to the transport.
    """

    plan: float = 0.0
    spill: float = 0.0
    decode: float = 0.0
    build: float = 0.0
    compute: float = 0.0
    join: float = 0.0
    send: float = 0.0


@dataclass(frozen=True)
class StreamReads:
    """What was read from storage for a stream, also ahead. Requests run concurrently, so their times may exceed the stream's.

    Attributes:
        requests: the number of requests.
        failed: the number of requests that failed, including those that were repeated.
        bytes: the bytes received.
        took: seconds of all requests, to the last byte.
        first: the part of `took` to the first byte; 0 if the store cannot tell.
        delayed: seconds between failed requests and their repetitions.
        sought: columns of row groups that were looked up in the cache.
        found: the part of `sought` that the cache had.
    """

    requests: int = 0
    failed: int = 0
    bytes: int = 0
    took: float = 0.0
    first: float = 0.0
    delayed: float = 0.0
    sought: int = 0
    found: int = 0

    @classmethod
    def of(cls, sent: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        counts = {name: int(sent.get(name, 0)) for name in ("requests", "failed", "bytes", "sought", "found")}
        return cls(
            **counts, **{name: sent.get(f"{name}_ms", 0) / 1000 for name in ("took", "first", "delayed")}
        )


@dataclass(frozen=True)
class StreamLimit:
    """What a stream spends most of its time on. The page "Why is my stream slow?" lists the causes.

    Attributes:
        cause: the cause.
        share: its share of the time for which the stream was open, from 0 to 1.
        why: the figures that lead to the cause; "" if it needs none.
        remedy: what to do about it.
    """

    cause: str
    share: float
    why: str
    remedy: str

    @classmethod
    def of(cls, sent: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        return cls(
            str(sent["cause"]), float(sent["share"]), str(sent.get("why", "")), str(sent.get("remedy", ""))
        )


@dataclass(frozen=True)
class StreamStatus:
    """A stream that runs or waits for a slot.

    Attributes:
        id: the id of this stream, as in the server's log; a resumed stream has a new id.
        subject: the subject of the client's token; "" without a token.
        job: the query's `job`; "" if it has none.
        dataset: the dataset's name; None if the query carried its dataset.
        plan: the id of its plan.
        shard: the index of its shard.
        shards: the number of shards.
        lanes: the number of lanes of its shard; None if it is not planned yet.
        started: the time when it began.
        open: seconds since it began.
        rows: the number of rows sent by this stream.
        rows_total: the total number of rows of this stream; None if unknown.
        step: the step of its last cursor, counted from the start of the plan.
        steps: the number of steps of its shard; None if unknown.
        batches: batches sent by this stream.
        bytes: bytes sent by this stream, over the network.
        mapped_bytes: bytes of batches that were passed in mapped memory.
        way: how its batches reach the client: as tensors in the "ring" of a client on the server's host, in "mapped"
            memory, to a "receiver" on the client's host, or over the "network"; "" if the server does not say.
        parked: whether it has released its memory and its slot because its client does not read.
        waiting: the cause of its current wait, a field of `waited`; None if it does not wait.
        waited: the time it has waited so far.
        worked: the time it has worked so far.
        reads: what was read from storage for it so far.
        beside: seconds that the other streams of the server have worked since it began, added up; 0 if they are not visible.
        limit: what it has spent most of its time on; None if that is not known yet, or if the server is older.
    """

    id: str
    subject: str
    job: str
    dataset: str | None
    plan: str
    shard: int
    shards: int
    lanes: int | None
    started: datetime
    open: float
    rows: int
    rows_total: int | None
    step: int
    steps: int | None
    batches: int
    bytes: int
    mapped_bytes: int
    way: str
    parked: bool
    waiting: str | None
    waited: Waited
    worked: Worked = Worked()
    reads: StreamReads = StreamReads()
    beside: float = 0.0
    limit: StreamLimit | None = None

    @property
    def done(self) -> float | None:
        """The share of its steps, or else of its rows, that was sent, from 0 to 1; None if unknown."""
        part, whole = (self.step, self.steps) if self.steps is not None else (self.rows, self.rows_total)
        if whole is None:
            return None
        return min(1.0, part / whole) if whole else 1.0

    @classmethod
    def of(cls, sent: Mapping[str, Any]) -> Self:
        """Decodes one stream of the server's answer."""
        inline = bool(sent.get("inline", False))
        return cls(
            id=str(sent["id"]),
            subject=str(sent.get("subject", "")),
            job=str(sent.get("job", "")),
            dataset=None if inline else str(sent.get("dataset", "")),
            plan=str(sent["plan"]),
            shard=int(sent["shard"]["index"]),
            shards=int(sent["shard"]["of"]),
            lanes=int(sent["lanes"]) or None,
            started=datetime.fromisoformat(sent["started"]),
            open=sent["open_ms"] / 1000,
            rows=int(sent["rows"]),
            rows_total=known(sent["rows_total"]),
            step=int(sent["step"]),
            steps=known(sent["steps"]),
            batches=int(sent["batches"]),
            bytes=int(sent["bytes"]),
            mapped_bytes=int(sent["mapped_bytes"]),
            way=str(sent.get("way", "")),
            parked=bool(sent.get("parked", False)),
            waiting=sent.get("waiting"),
            waited=Waited(**_seconds(sent["waited_ms"], Waited)),
            worked=Worked(**_seconds(sent.get("worked_ms", {}), Worked)),
            reads=StreamReads.of(sent.get("reads", {})),
            beside=sent.get("beside_ms", 0) / 1000,
            limit=part(sent, "limit", StreamLimit.of),
        )


def _seconds(sent: Mapping[str, int], of: type[Waited | Worked]) -> dict[str, float]:
    """The fields of a type with times, of the server's milliseconds."""
    return {name: sent.get(name, 0) / 1000 for name in of.__dataclass_fields__}
