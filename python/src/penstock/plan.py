"""A server's descriptions of datasets and plans."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa
import pyarrow.flight as flight

from penstock import errors, markup
from penstock.answers import known, parsed


class _WithSchema:
    """A base class of values with a schema that are pickled.

    The schema is pickled as Arrow's IPC form: pyarrow's pickles lose names and nullability of elements of fixed-size lists.
    """

    schema: pa.Schema | None

    def __getstate__(self) -> dict[str, Any]:
        packed = None if self.schema is None else self.schema.serialize().to_pybytes()
        return {**self.__dict__, "schema": packed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        packed = state["schema"]
        self.__dict__.update(
            state, schema=None if packed is None else pa.ipc.read_schema(pa.py_buffer(packed))
        )


@dataclass(frozen=True)
class Plan(_WithSchema):
    """A server's plan for a query. Rows and steps count the whole plan, over all shards, from its start.

    Attributes:
        id: a hash of all inputs that determine the rows and their order. Columns and left joins are not among them.
        schema: the schema of the batches.
        pin: the snapshots to read, in the form of a query's `snapshots`.
        lanes: the number of ordered queues of rows.
        shards: the number of shards.
        batch_rows: rows of a full batch; None if batches are counted in requests.
        batch_requests: requests of a full batch; None if batches are counted in rows.
        rows: the number of rows; None if unknown before reading.
        rows_unknown: the reason why the number of rows is unknown; "" if it is known.
        steps: the number of batches of each shard; None if unknown before reading.
        splits: the number of splits.
        rows_left: the number of rows of the query's shards after its cursor; None if unknown.
        sample: the query's sample, as the server read it; None for all rows. If it has a `rate`, each row that
            satisfies its `where` represents 1/rate rows.
        since: the snapshot of the training table; only rows appended after it are read. None for all rows.
        local_socket: the path of the server's socket for clients on the same host; None if it has none.
        computed: a digest of the expressions of each computed column of the query, by name.
    """

    id: str
    schema: pa.Schema
    pin: dict[str, Any]
    lanes: int
    shards: int
    batch_rows: int | None
    batch_requests: int | None
    rows: int | None
    rows_unknown: str
    steps: int | None
    splits: int
    rows_left: int | None
    sample: dict[str, Any] | None
    since: int | None
    local_socket: str | None
    computed: dict[str, str]

    def __repr__(self) -> str:
        rows = "unknown rows" if self.rows is None else _count(self.rows, "row")
        steps = "unknown steps" if self.steps is None else _count(self.steps, "step")
        size = (
            _count(self.batch_rows, "row")
            if self.batch_requests is None
            else _count(self.batch_requests, "request")
        )
        return (
            f"<penstock.Plan {self.id}: {rows} in {_count(self.splits, 'split')}, {_count(self.lanes, 'lane')}, "
            f"{_count(self.shards, 'shard')} with {steps} of {size}>"
        )

    def _repr_html_(self) -> str:
        names = ("rows", "rows_unknown", "steps", "splits", "lanes", "shards", "batch_rows", "batch_requests")
        values = {name: value for name in names if (value := getattr(self, name)) not in (None, "")}
        return markup.document(f"Plan {self.id}", values, self.schema)

    @classmethod
    def of(cls, found: flight.FlightInfo) -> Self:
        """Decodes the plan summary.

        Raises:
            Internal: the server does not follow the protocol, or speaks a newer one.
        """
        summary = _summary_of(found)
        with errors.decoding("the server's summary of the plan"):
            return cls(
                id=str(summary["plan"]),
                schema=found.schema,
                pin=dict(summary["pin"]),
                lanes=int(summary["lanes"]),
                shards=int(summary["shards"]),
                batch_rows=int(summary["batch_rows"]) if "batch_requests" not in summary else None,
                batch_requests=int(summary["batch_requests"]) if "batch_requests" in summary else None,
                rows=known(summary["rows"]),
                rows_unknown=str(summary["rows_unknown"]),
                steps=known(summary["steps"]),
                splits=int(summary["splits"]),
                rows_left=known(found.total_records),
                sample=dict(summary["sample"]) if "sample" in summary else None,
                since=int(summary["since"]) if "since" in summary else None,
                local_socket=str(summary["local_socket"]) if "local_socket" in summary else None,
                computed={str(name): str(digest) for name, digest in summary.get("computed", {}).items()},
            )


@dataclass(frozen=True)
class JoinedFiles:
    """Which staging files a split joins, among those of all splits of its plan: a number from 0, and how many there are."""

    index: int
    of: int


@dataclass(frozen=True)
class Endpoint:
    """The rows that one ticket of a plan returns.

    Attributes:
        ticket: the ticket to exchange for the batches.
        rows: the number of rows; None if unknown before reading.
        batches: the number of batches; None if unknown before reading.
        splits: the ids of its splits; None if it reads a shard.
        files: the staging files that its first split joins; None if it joins none, or reads a shard.
    """

    ticket: bytes = field(repr=False)
    rows: int | None
    batches: int | None
    splits: tuple[str, ...] | None
    files: JoinedFiles | None = None

    @classmethod
    def of(cls, listed: flight.FlightEndpoint) -> Self:
        """Decodes the server's description of an endpoint, which may be empty."""
        with errors.decoding("the server's description of an endpoint"):
            summary = parsed(listed.app_metadata or b"{}")
            splits, files = summary.get("splits"), summary.get("files")
            return cls(
                ticket=bytes(listed.ticket.ticket),
                rows=known(summary.get("rows", -1)),
                batches=known(summary.get("batches", -1)),
                splits=None if splits is None else tuple(str(split) for split in splits),
                files=None if files is None else _joined(int(files["index"]), int(files["of"])),
            )


@dataclass(frozen=True)
class DatasetDescription(_WithSchema):
    """A dataset that the caller may read.

    Attributes:
        name: the name to use in queries.
        schema: the schema of all its columns; None if it cannot be resolved.
        rows: the number of rows; None if unknown before reading, or if it cannot be resolved.
        plan: the plan for reading all of it; None if it cannot be resolved.
        error: the reason why it cannot be resolved; None if it can.
    """

    name: str
    schema: pa.Schema | None
    rows: int | None
    plan: Plan | None
    error: errors.Error | None

    @classmethod
    def of(cls, found: flight.FlightInfo) -> Self:
        """Decodes one entry of the server's list."""
        name = b"/".join(found.descriptor.path or [b""]).decode()
        broken = _summary_of(found).get("error")
        if isinstance(broken, dict):
            return cls(name=name, schema=None, rows=None, plan=None, error=errors.from_details(broken))
        plan = Plan.of(found)
        return cls(name=name, schema=plan.schema, rows=plan.rows, plan=plan, error=None)


class Datasets(list[DatasetDescription]):
    """The datasets of a server: a list that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        rows = {
            one.name: {
                "rows": "unknown" if one.error is None and one.rows is None else one.rows,
                "columns": None if one.schema is None else len(one.schema),
                "error": one.error,
            }
            for one in self
        }
        return markup.document("Datasets", {"": rows})


def _joined(index: int, of: int) -> JoinedFiles:
    if not 0 <= index < of:
        raise ValueError(f"the files {index} of {of}")
    return JoinedFiles(index, of)


def _count(number: int | None, what: str) -> str:
    """Formats a count with its unit: 1 lane, 2 lanes."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _summary_of(found: flight.FlightInfo) -> dict[str, Any]:
    try:
        summary = parsed(found.app_metadata)
    except ValueError:
        summary = None
    if not isinstance(summary, dict):
        raise errors.Internal(
            "the Flight server does not describe its plan as a Penstock server does",
            remedy="use the address that `penstock serve` prints on standard output",
        )
    if summary.get("v") != 1:
        raise errors.Internal(
            f"the server uses version {summary.get('v')} of plan summaries, this package version 1",
            remedy="install the package version that matches the server",
        )
    return summary
