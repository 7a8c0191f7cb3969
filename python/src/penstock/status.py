"""The current state of a server: its streams, its limits, and what it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Self

from penstock import errors, markup
from penstock.answers import known, parsed, part
from penstock.streamstatus import StreamStatus


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
        return cls(known(sent["limit"]), *rest)


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
        with errors.decoding("the server's status"):
            sent = parsed(text)
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
                memory=part(sent, "memory", MemoryStatus.of),
                slots=part(sent, "slots", SlotStatus.of),
                plans=part(sent, "plans", PlanStatus.of),
                cache=part(sent, "cache", CacheStatus.of),
                config=part(sent, "config", ConfigStatus.of),
                cores=part(sent, "cores", int),
                planning=tuple(PlanningStatus.of(one) for one in sent.get("planning", ())),
            )

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
