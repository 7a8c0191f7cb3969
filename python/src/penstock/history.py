"""Descriptions of the tables in a server's catalogs, and of their snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from penstock import answers, errors, markup
from penstock.servers import Servers


@dataclass(frozen=True)
class TableDescription:
    """A table in the list of `Client.tables`. Numbers are None if they are unknown or withheld from the client.

    Attributes:
        table: its name.
        snapshot: the snapshot of main; 0 if there is none.
        time: the time of that snapshot.
        rows: the rows of all data files.
        deletes: the number of these rows that delete files mark as deleted.
        bytes: the bytes of all data files.
        files: the number of data files.
        partition: the fields by which the table is partitioned, such as "bucket[16](request_id)".
        datasets: the datasets that read the table, if the client may read them.
        withheld: whether the numbers and the time are withheld from the client.
        error: the reason why the table cannot be described; "" if it can.
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
        """Decodes a part of the server's answer."""
        return cls(
            table=str(found["table"]),
            snapshot=int(found.get("snapshot", 0)),
            time=answers.time(found),
            rows=answers.whole(found, "rows"),
            deletes=answers.whole(found, "deletes"),
            bytes=answers.whole(found, "bytes"),
            files=answers.whole(found, "files"),
            partition=answers.texts(found, "partition"),
            datasets=answers.texts(found, "datasets"),
            withheld=bool(found.get("withheld", False)),
            error=str(found.get("error", "")),
        )


@dataclass(frozen=True)
class TableSnapshot:
    """A snapshot in the list of `Client.log`. Numbers are None if the writer did not record them.

    Attributes:
        snapshot: its id.
        parent: the parent snapshot; 0 if there is none.
        time: when it was committed.
        operation: the operation, such as "append"; "" if unknown.
        writer: the Penstock command, such as "penstock stage", or the engine that wrote it; "" if unknown.
        token: the token of a change by Penstock; "" for other changes.
        rows_added: rows in the added files.
        rows_removed: rows in the removed files.
        bytes_added: the bytes of the added files.
        bytes_removed: the bytes of the removed files.
        rows: the rows of all data files.
        branches: the branches at this snapshot.
        tags: the tags at this snapshot, except the tags of pins.
        kept_until: the time until which it is kept for training jobs; None if it is not kept, or kept without an end.
        undo: the snapshots (from, to) of a move that undoes this change and all later ones; from is 0 if there was no
            snapshot before. None if the move would also undo changes by others.
        demote: a column of the promotion that created the snapshot, for `Client.demote`; "" for other changes.
        files_added: the number of added data files.
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
    files_added: int | None = None

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        at = answers.time(found)
        if at is None:
            raise ValueError("a snapshot has no time")
        kept = [until for pin in found.get("pins") or () if (until := answers.time(pin, "until"))]
        undo = found.get("undo")
        return cls(
            snapshot=int(found["snapshot"]),
            parent=int(found.get("parent", 0)),
            time=at,
            operation=str(found.get("operation", "")),
            writer=str(found.get("writer", "")),
            token=str(found.get("token", "")),
            rows_added=answers.whole(found, "rows_added"),
            rows_removed=answers.whole(found, "rows_removed"),
            bytes_added=answers.whole(found, "bytes_added"),
            bytes_removed=answers.whole(found, "bytes_removed"),
            rows=answers.whole(found, "rows"),
            branches=answers.texts(found, "branches"),
            tags=answers.texts(found, "tags"),
            kept_until=max(kept, default=None),
            undo=(int(undo.get("from", 0)), int(undo["to"])) if undo else None,
            demote=str(found.get("demote", "")),
            files_added=answers.whole(found, "files_added"),
        )


class Tables(tuple[TableDescription, ...]):
    """The tables of `Client.tables`: a tuple that a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        names = ("rows", "bytes", "files", "time", "partition", "datasets", "error")
        rows = {one.table: {name: getattr(one, name) for name in names} for one in self}
        return markup.document("Tables", {"": rows})


class Snapshots(tuple[TableSnapshot, ...]):
    """The snapshots of `Client.log`: a tuple that a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        names = (
            "time",
            "operation",
            "writer",
            "rows_added",
            "rows_removed",
            "rows",
            "branches",
            "tags",
            "kept_until",
        )
        rows = {str(one.snapshot): {name: getattr(one, name) for name in names} for one in self}
        return markup.document("Snapshots", {"": rows})


def tables(servers: Servers, within: str | None) -> Tables:
    """Lists the tables that the client may read."""
    answer = servers.action("tables", {"within": within})
    with errors.decoding("the server's list of tables"):
        return Tables(TableDescription.of(one) for one in answers.parsed(answer)["tables"])


def log(servers: Servers, table: str, branch: str | None, limit: int) -> Snapshots:
    """Lists the snapshots of a table's branch, newest first."""
    answer = servers.action("log", {"table": table, "branch": branch, "limit": limit})
    with errors.decoding(f"the server's list of the snapshots of {table}"):
        return Snapshots(TableSnapshot.of(one) for one in answers.parsed(answer)["snapshots"])
