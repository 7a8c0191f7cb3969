"""The current state of a server: its streams, and the cause of each one's wait."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Self, TypeVar

from penstock import errors, markup

T = TypeVar("T")


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
            rows_total=_known(sent["rows_total"]),
            step=int(sent["step"]),
            steps=_known(sent["steps"]),
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
            limit=_part(sent, "limit", StreamLimit.of),
        )


@dataclass(frozen=True)
class MemoryStatus:
    """The server's memory budget, in bytes.

    Attributes:
        limit: the budget; None if there is none.
        used: the reserved bytes.
        idle: the part of `used` that is kept for later streams and released when memory is needed.
        in_flight: the part of `used` for batches that clients have not taken.
        peak: the maximum of `used` so far.
        in_flight_limit: the most that `in_flight` may be; 0 if there is no limit.
    """

    limit: int | None
    used: int
    idle: int
    in_flight: int
    peak: int
    in_flight_limit: int = 0

    @classmethod
    def of(cls, sent: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        rest = (int(sent.get(n, 0)) for n in ("used", "idle", "in_flight", "peak", "in_flight_limit"))
        return cls(_known(sent["limit"]), *rest)


@dataclass(frozen=True)
class SlotStatus:
    """The server's slots for streams.

    Attributes:
        limit: `max_streams`; None if there is no limit, in which case nothing is counted.
        per_client: the maximum number of slots of one client.
        taken: the slots of streams that are open and not parked.
        kept: the slots kept for other shards of plans whose first shard has a slot.
        waiting: the number of streams that wait for a slot.
    """

    limit: int | None
    per_client: int
    taken: int
    kept: int
    waiting: int

    @classmethod
    def of(cls, sent: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        rest = (int(sent[n]) for n in ("per_client", "taken", "kept", "waiting"))
        return cls(int(sent["limit"]) or None, *rest)


@dataclass(frozen=True)
class PlanStatus:
    """The calls that create plans.

    Attributes:
        limit: the maximum number of concurrent calls.
        running: the number of running calls.
        waiting: the number of waiting calls.
    """

    limit: int
    running: int
    waiting: int

    @classmethod
    def of(cls, sent: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        return cls(int(sent["limit"]), int(sent["running"]), int(sent["waiting"]))


@dataclass(frozen=True)
class PlanningStatus:
    """A call that creates a plan.

    Attributes:
        subject: the subject of the client's token; "" if there is none.
        job: the job of the query; "" if there is none.
        dataset: the dataset's name; "" if the query contains its dataset.
        started: the time when the call began to plan.
        open: seconds since then.
        waiting: what it waits for now: "slot", "tables" (catalogs, and the metadata files of tables) or "files" (lists of the tables'
            files); "" if it works.
    """

    subject: str
    job: str
    dataset: str
    started: datetime
    open: float
    waiting: str

    @classmethod
    def of(cls, sent: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        return cls(
            subject=str(sent.get("subject", "")),
            job=str(sent.get("job", "")),
            dataset=str(sent.get("dataset", "")),
            started=datetime.fromisoformat(sent["started"]),
            open=sent["open_ms"] / 1000,
            waiting=str(sent.get("waiting", "")),
        )


@dataclass(frozen=True)
class CacheStatus:
    """The data that the server keeps for later streams, in bytes unless stated otherwise.

    Attributes:
        limit: the maximum size of decoded columns in memory.
        bytes: the current size of decoded columns in memory.
        files: the number of files with decoded columns in memory.
        build_sides: the number of kept build sides.
        build_side_bytes: the size of the build sides.
        disk_limit: the maximum size of decoded columns on disk; 0 if none are kept there.
        disk_bytes: the current size of decoded columns on disk.
        no_room: the number of columns of row groups that found no room, or made room for others.
    """

    limit: int
    bytes: int
    files: int
    build_sides: int
    build_side_bytes: int
    disk_limit: int
    disk_bytes: int
    no_room: int = 0

    @classmethod
    def of(cls, sent: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        counts = {name: int(sent[name]) for name in cls.__dataclass_fields__ if name != "no_room"}
        return cls(**counts, no_room=int(sent.get("no_room", 0)))


@dataclass(frozen=True)
class ConfigStatus:
    """The state of reloading the server's config file.

    Attributes:
        current: whether the server uses the current file on disk.
        applied: the number of times a changed file was applied.
        refused: the number of times a changed file was refused.
        last: the time of the last reload; None if there was none since the start.
        error: the reason why the last reload was refused; "" if it was not.
    """

    current: bool
    applied: int
    refused: int
    last: datetime | None
    error: str

    @classmethod
    def of(cls, sent: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        last = sent.get("last")
        return cls(
            current=bool(sent["current"]),
            applied=int(sent["applied"]),
            refused=int(sent["refused"]),
            last=None if last is None else datetime.fromisoformat(last),
            error=str(sent.get("error", "")),
        )


@dataclass(frozen=True)
class ServerStatus:
    """The current state of a server. Counters only increase: compute rates from the difference of two results.

    Attributes:
        version: the server's version.
        uptime: seconds since it started.
        all: whether the result has the streams of all clients, not only this client's.
        streams: the streams that run or wait for a slot, oldest first.
        memory: the memory budget; None unless `all`.
        slots: the slots of streams; None unless `all`.
        plans: the calls that create plans; None unless `all`.
        cache: the data kept for later streams; None unless `all`, or if nothing is kept.
        config: the state of reloading the config file; None unless `all`, or if the file is not reloaded.
        cores: the number of cores that the server may use; None unless `all`.
        planning: the calls that create plans, oldest first. The plan of a stream in `streams` is not among them.
    """

    version: str
    uptime: float
    all: bool
    streams: tuple[StreamStatus, ...]
    memory: MemoryStatus | None
    slots: SlotStatus | None
    plans: PlanStatus | None
    cache: CacheStatus | None
    config: ConfigStatus | None
    cores: int | None = None
    planning: tuple[PlanningStatus, ...] = ()

    @classmethod
    def of(cls, text: bytes) -> Self:
        """Decodes the server's answer.

        Raises:
            Internal: the server does not follow the protocol, or uses a newer one.
        """
        try:
            sent = json.loads(text)
            if sent["v"] != 1:
                raise errors.Internal(
                    f"the server uses version {sent['v']} of its status, this package version 1",
                    remedy="install the package version that matches the server",
                )
            return cls(
                version=str(sent["version"]),
                uptime=sent["uptime_ms"] / 1000,
                all=bool(sent["all"]),
                streams=tuple(StreamStatus.of(one) for one in sent["streams"]),
                memory=_part(sent, "memory", MemoryStatus.of),
                slots=_part(sent, "slots", SlotStatus.of),
                plans=_part(sent, "plans", PlanStatus.of),
                cache=_part(sent, "cache", CacheStatus.of),
                config=_part(sent, "config", ConfigStatus.of),
                cores=_part(sent, "cores", int),
                planning=tuple(PlanningStatus.of(one) for one in sent.get("planning", ())),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as e:
            raise errors.Internal(f"the server's status cannot be read: {e!r}") from e

    def _repr_html_(self) -> str:
        parts = ("memory", "slots", "plans", "cache", "config")
        known = {part: getattr(self, part) for part in parts if getattr(self, part) is not None}
        values = {f"{part} {name}": value for part, of in known.items() for name, value in asdict(of).items()}
        names = (
            "subject",
            "job",
            "dataset",
            "shard",
            "rows",
            "rows_total",
            "batches",
            "bytes",
            "open",
            "waiting",
        )
        streams = {one.id: {name: getattr(one, name) for name in names} for one in self.streams}
        title = f"Server {self.version}, up for {self.uptime:.0f} s"
        return markup.document(title, {**values, "streams": streams or "none"})


def _seconds(sent: Mapping[str, int], of: type[Waited | Worked]) -> dict[str, float]:
    """The fields of a type with times, of the server's milliseconds."""
    return {name: sent.get(name, 0) / 1000 for name in of.__dataclass_fields__}


def _part(sent: Mapping[str, Any], name: str, decode: Callable[[Any], T]) -> T | None:
    return decode(sent[name]) if name in sent else None


def _known(number: Any) -> int | None:
    return None if int(number) < 0 else int(number)
