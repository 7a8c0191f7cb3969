"""What a server says of datasets and plans."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
import pyarrow.flight as flight

from penstock import errors


@dataclass(frozen=True)
class Plan:
    """What a server planned for a query. Rows and steps are the whole plan's, over all shards, from its start.

    Attributes:
        id: names the plan: a hash of all it depends on.
        schema: of the batches.
        pin: the snapshots that are read, as a query's `snapshots` takes them.
        lanes: the number of ordered queues of rows.
        shards: the number of shards.
        batch_rows: rows of a full batch; None if batches are of requests.
        batch_requests: requests of a full batch; None if batches are of rows.
        rows: None if they cannot be known before reading.
        rows_unknown: why not; "" if they are known.
        steps: batches of each shard; None if they cannot be known before reading.
        splits: the number of units of reading.
        rows_left: rows of the query's shards from its cursor on; None if unknown.
        sample: the query's, as the server read it; None if all rows count. If it has a `rate`, a row for
            which its `where` holds stands for 1/rate rows.
        since: the snapshot of the training table after which the rows were appended; None if all rows count.
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

    @classmethod
    def of(cls, found: flight.FlightInfo) -> Self:
        """Reads the plan's summary.

        Raises:
            Internal: the server does not follow the protocol, or speaks a newer one.
        """
        said = _said(found)
        try:
            return cls(
                id=str(said["plan"]),
                schema=found.schema,
                pin=dict(said["pin"]),
                lanes=int(said["lanes"]),
                shards=int(said["shards"]),
                batch_rows=int(said["batch_rows"]) if "batch_requests" not in said else None,
                batch_requests=int(said["batch_requests"]) if "batch_requests" in said else None,
                rows=_known(said["rows"]),
                rows_unknown=str(said["rows_unknown"]),
                steps=_known(said["steps"]),
                splits=int(said["splits"]),
                rows_left=_known(found.total_records),
                sample=dict(said["sample"]) if "sample" in said else None,
                since=int(said["since"]) if "since" in said else None,
            )
        except (KeyError, TypeError, ValueError) as e:
            raise errors.Internal(f"the server's summary of the plan cannot be read: {e!r}") from e


@dataclass(frozen=True)
class Endpoint:
    """What one ticket of a plan gives.

    Attributes:
        ticket: to be handed in for its batches, as bytes.
        rows: of all its batches; None if they cannot be known before reading.
        batches: their number; None if it cannot be known before reading.
        splits: the ids of the splits that it reads; None if it reads a shard.
    """

    ticket: bytes
    rows: int | None
    batches: int | None
    splits: tuple[str, ...] | None

    @classmethod
    def of(cls, listed: flight.FlightEndpoint) -> Self:
        """Reads what the server says of an endpoint. It may say nothing."""
        try:
            said = json.loads(listed.app_metadata or b"{}")
            splits = said.get("splits")
            return cls(
                ticket=bytes(listed.ticket.ticket),
                rows=_known(said.get("rows", -1)),
                batches=_known(said.get("batches", -1)),
                splits=None if splits is None else tuple(str(split) for split in splits),
            )
        except (AttributeError, TypeError, ValueError) as e:
            raise errors.Internal(f"what the server says of an endpoint cannot be read: {e!r}") from e


@dataclass(frozen=True)
class DatasetDescription:
    """A dataset that the caller may read.

    Attributes:
        name: as a query names it.
        schema: of all its columns; None if it cannot be resolved.
        rows: None if they cannot be known before reading, or it cannot be resolved.
        plan: of reading all of it; None if it cannot be resolved.
        error: why it cannot be resolved; None if it can.
    """

    name: str
    schema: pa.Schema | None
    rows: int | None
    plan: Plan | None
    error: errors.Error | None

    @classmethod
    def of(cls, found: flight.FlightInfo) -> Self:
        """Reads one entry of the server's list."""
        name = b"/".join(found.descriptor.path or [b""]).decode()
        broken = _said(found).get("error")
        if isinstance(broken, dict):
            return cls(name=name, schema=None, rows=None, plan=None, error=errors.from_details(broken))
        plan = Plan.of(found)
        return cls(name=name, schema=plan.schema, rows=plan.rows, plan=plan, error=None)


def _known(number: Any) -> int | None:
    return None if int(number) < 0 else int(number)


def _count(number: int | None, what: str) -> str:
    """A number of things: 1 lane, 2 lanes."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _said(found: flight.FlightInfo) -> dict[str, Any]:
    try:
        said = json.loads(found.app_metadata)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise errors.Internal("the server says nothing of its plan; is it Penstock?")
    if said.get("v") != 1:
        raise errors.Internal(
            f"the server speaks version {said.get('v')} of plans, this package version 1",
            remedy="install the package's version that goes with the server",
        )
    return said
