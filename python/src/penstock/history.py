"""What a server knows of the tables of its catalogs, and of their snapshots."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

import pyarrow.flight as flight

from penstock import errors, query
from penstock.servers import Servers


@dataclass(frozen=True)
class TableDescription:
    """A table, as `Client.tables` lists it. Numbers are None if they are unknown, or if the client may not know them.

    Attributes:
        table: its name.
        snapshot: the snapshot of main; 0 if there is none.
        time: the time of that snapshot.
        rows: the rows of all data files.
        deletes: how many of them delete files name.
        bytes: the bytes of all data files.
        files: the number of data files.
        partition: the fields by which the table is partitioned, such as "bucket[16](request_id)".
        datasets: the datasets that read the table, and that the client may read.
        withheld: whether the client may not know the numbers and the time.
        error: why the table cannot be described; "" if it can.
    """

    table: str
    snapshot: int
    time: datetime | None
    rows: int | None
    deletes: int | None
    bytes: int | None
    files: int | None
    partition: tuple[str, ...]
    datasets: tuple[str, ...]
    withheld: bool = False
    error: str = ""

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Reads an answer of a server."""
        return cls(
            table=str(found["table"]),
            snapshot=int(found.get("snapshot", 0)),
            time=_time(found),
            rows=_number(found, "rows"),
            deletes=_number(found, "deletes"),
            bytes=_number(found, "bytes"),
            files=_number(found, "files"),
            partition=tuple(str(one) for one in found.get("partition") or ()),
            datasets=tuple(str(one) for one in found.get("datasets") or ()),
            withheld=bool(found.get("withheld", False)),
            error=str(found.get("error", "")),
        )


@dataclass(frozen=True)
class TableSnapshot:
    """A snapshot of a table, as `Client.log` lists it. Numbers are None if its writer did not record them.

    Attributes:
        snapshot: its id.
        parent: the snapshot before; 0 if there was none.
        time: when it was committed.
        operation: such as "append"; "" if unknown.
        writer: the command of Penstock, such as "penstock stage", or else the engine; "" if unknown.
        token: the name of a change of Penstock; "" for others.
        rows_added: rows of the files that it added.
        rows_removed: rows of the files that it removed.
        bytes_added: the bytes of the files that it added.
        bytes_removed: the bytes of the files that it removed.
        rows: the rows of all data files.
        branches: the branches at this snapshot.
        tags: the tags at this snapshot, without those of pins.
        kept_until: until when it is kept for training jobs; None if it is not, or without an end.
        undo: the snapshots (from, to) of a move that takes the change and all later ones back; None if changes of
            others would be taken back with it.
        demote: a column of the promotion that made the snapshot, for `Client.demote`; "" for others.
    """

    snapshot: int
    parent: int
    time: datetime
    operation: str
    writer: str
    token: str
    rows_added: int | None
    rows_removed: int | None
    bytes_added: int | None
    bytes_removed: int | None
    rows: int | None
    branches: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    kept_until: datetime | None = None
    undo: tuple[int, int] | None = None
    demote: str = ""

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Reads an answer of a server."""
        at = _time(found)
        if at is None:
            raise errors.Internal("the server's answer has a snapshot without a time")
        kept = [until for pin in found.get("pins") or () if (until := _time(pin, "until"))]
        undo = found.get("undo")
        return cls(
            snapshot=int(found["snapshot"]),
            parent=int(found.get("parent", 0)),
            time=at,
            operation=str(found.get("operation", "")),
            writer=str(found.get("writer", "")),
            token=str(found.get("token", "")),
            rows_added=_number(found, "rows_added"),
            rows_removed=_number(found, "rows_removed"),
            bytes_added=_number(found, "bytes_added"),
            bytes_removed=_number(found, "bytes_removed"),
            rows=_number(found, "rows"),
            branches=tuple(str(one) for one in found.get("branches") or ()),
            tags=tuple(str(one) for one in found.get("tags") or ()),
            kept_until=max(kept, default=None),
            undo=(int(undo["from"]), int(undo["to"])) if undo else None,
            demote=str(found.get("demote", "")),
        )


def tables(servers: Servers, within: str | None) -> tuple[TableDescription, ...]:
    """Lists the tables that the client may read."""
    found = ask(servers, "tables", {"within": within})
    return tuple(TableDescription.of(one) for one in found["tables"])


def log(servers: Servers, table: str, branch: str | None, limit: int) -> tuple[TableSnapshot, ...]:
    """Lists the snapshots of a branch of a table, the newest first."""
    found = ask(servers, "log", {"table": table, "branch": branch, "limit": limit})
    return tuple(TableSnapshot.of(one) for one in found["snapshots"])


def ask(servers: Servers, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Calls an action that returns one object. Fields of the body that are None are left out."""
    sent = flight.Action(
        name, query.text({field: value for field, value in body.items() if value is not None})
    )
    results = servers.call(lambda client, options: list(client.do_action(sent, options)))
    if len(results) != 1:
        raise errors.Internal(f"the server answered {name} with {len(results)} results instead of one")
    try:
        return dict(json.loads(results[0].body.to_pybytes()))
    except (ValueError, TypeError) as e:
        raise errors.Internal(f"the server's answer cannot be read: {e}") from e


def _number(found: Mapping[str, Any], name: str) -> int | None:
    return int(found[name]) if found.get(name) is not None else None


def _time(found: Mapping[str, Any], name: str = "time") -> datetime | None:
    return datetime.fromisoformat(str(found[name])) if found.get(name) else None
