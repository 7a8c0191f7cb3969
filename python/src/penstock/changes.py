"""Changes of tables that a server makes without rows from the client, and what became of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any, Self

import pyarrow.flight as flight

from penstock import errors, query
from penstock.servers import Servers


@dataclass(frozen=True)
class ChangeProgress:
    """How far a change of a table is.

    Attributes:
        step: what the server does: "keys", "read", "write" or "commit" of `Client.stage`, "write" of `restore`,
            "rewrite" of `compact` and `promote`, "check" of a dry run of `promote`, "search" or "remove" of `orphans`.
        rows_read: rows that the server has received or read.
        rows_written: rows in data files.
        of_rows_read: all rows to read; 0 if unknown.
        of_rows_written: all rows to write; 0 if unknown.
        files: files that are done.
        bytes: the bytes of these files.
        of_files: all files; 0 if unknown.
        of_bytes: the bytes of all files; 0 if unknown.
        table: the table, if the call is about several.
    """

    step: str
    rows_read: int = 0
    rows_written: int = 0
    of_rows_read: int = 0
    of_rows_written: int = 0
    files: int = 0
    bytes: int = 0
    of_files: int = 0
    of_bytes: int = 0
    table: str = ""

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Reads a message of a server."""
        counts = [name for name in cls.__dataclass_fields__ if name not in ("step", "table")]
        numbers = {name: int(found.get(name, 0)) for name in counts}
        return cls(step=str(found.get("step", "")), table=str(found.get("table", "")), **numbers)


ProgressFunction = Callable[[ChangeProgress], None]


@dataclass(frozen=True)
class Compacted:
    """What `Client.compact` did, or would do.

    Attributes:
        table: the table.
        snapshot: the last snapshot that was committed; 0 if there is none.
        commits: the number of commits.
        files: files that were read.
        bytes: the bytes of these files.
        rows: the rows of these files, deleted ones included.
        deleted: deleted rows that were left out.
        files_written: new files; of a dry run, an estimate.
        bytes_written: the bytes of new files; of a dry run, an estimate.
        deletes: delete files that were removed with the files.
        kept: files not rewritten, because rows of a key would change their order.
    """

    table: str
    snapshot: int
    commits: int
    files: int
    bytes: int
    rows: int
    deleted: int
    files_written: int
    bytes_written: int
    deletes: int
    kept: int

    @classmethod
    def of(cls, table: str, found: Mapping[str, Any]) -> Self:
        """Reads a result of a server."""
        counts = (
            "snapshot",
            "commits",
            "files",
            "bytes",
            "rows",
            "deleted",
            "files_written",
            "bytes_written",
        )
        return cls(table=table, **{name: int(found.get(name, 0)) for name in (*counts, "deletes", "kept")})


@dataclass(frozen=True)
class Restored:
    """What `Client.restore` did, or would do.

    Attributes:
        table: the table.
        token: the name of the change.
        snapshot: the snapshot that has the rows; 0 for a dry run, and if there is nothing to change.
        previous: the snapshot before; 0 if nothing was committed.
        existed: whether an earlier call with the token had made the change. Then the numbers below are 0.
        copied: files that were restored as they were.
        rewritten: files that were restored without their deleted rows.
        rows: the rows of these files at the snapshot, deleted ones included.
        bytes: the bytes of these files.
        unchanged: files that the branch still had.
        removed: files that the branch had instead.
    """

    table: str
    token: str
    snapshot: int
    previous: int
    existed: bool
    copied: int
    rewritten: int
    rows: int
    bytes: int
    unchanged: int
    removed: int

    @classmethod
    def of(cls, table: str, found: Mapping[str, Any]) -> Self:
        """Reads a result of a server."""
        counts = ("snapshot", "copied", "rewritten", "rows", "bytes", "unchanged", "removed")
        return cls(
            table=table,
            token=str(found.get("token", "")),
            previous=int(found.get("parent", 0)),
            existed=bool(found.get("existed", False)),
            **{name: int(found.get(name, 0)) for name in counts},
        )


@dataclass(frozen=True)
class Promoted:
    """What `Client.promote` did, or would do.

    Attributes:
        table: the training table.
        promotion: identifies the entries, what they mean, and the snapshots of their tables.
        columns: the names of the new columns.
        snapshots: the snapshots that the values come from, by entry.
        existed: whether the table had the columns already.
        continued: whether an earlier call had begun.
        schema: the id of the schema that is current now.
        rows: rows in the files that were written, or would be.
        files: files that were replaced, or would be.
        files_skipped: files that had the columns already.
        commits: the number of commits.
        bytes_written: the bytes of the new files; of a dry run, an estimate.
        seconds: of a dry run: about how long it takes; None otherwise.
        epochs: of a dry run: the epochs after which less was read, 0 for never; None otherwise.
    """

    table: str
    promotion: str
    columns: tuple[str, ...]
    snapshots: Mapping[str, int]
    existed: bool
    continued: bool
    schema: int
    rows: int
    files: int
    files_skipped: int
    commits: int
    bytes_written: int
    seconds: float | None = None
    epochs: int | None = None

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Reads a result of a server."""
        counts = ("schema", "rows", "files", "files_skipped", "commits", "bytes_written")
        estimate = found.get("estimate")
        return cls(
            table=str(found["table"]),
            promotion=str(found["promotion"]),
            columns=tuple(str(one["name"]) for one in found.get("columns") or ()),
            snapshots={str(name): int(snapshot) for name, snapshot in (found.get("snapshots") or {}).items()},
            existed=bool(found.get("existed", False)),
            continued=bool(found.get("continued", False)),
            seconds=float(estimate["seconds"]) if estimate else None,
            epochs=int(estimate["pays_after_epochs"]) if estimate else None,
            **{name: int(found.get(name, 0)) for name in counts},
        )


@dataclass(frozen=True)
class Demoted:
    """What `Client.demote` did, or would do.

    Attributes:
        table: the training table.
        dropped: the names of the columns that were dropped; none if they had been before.
        restored: the names of columns that they had replaced, and that have these names again.
        entries: the staging entries that the dropped columns were promoted from.
        schema: the id of the schema that is current now.
    """

    table: str
    dropped: tuple[str, ...]
    restored: tuple[str, ...]
    entries: tuple[str, ...]
    schema: int

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Reads a result of a server."""
        return cls(
            table=str(found["table"]),
            dropped=tuple(str(one) for one in found.get("dropped") or ()),
            restored=tuple(str(one) for one in found.get("restored") or ()),
            entries=tuple(str(one) for one in found.get("entries") or ()),
            schema=int(found["schema"]),
        )


@dataclass(frozen=True)
class OrphanFile:
    """A file that no snapshot names, or an unfinished upload of one.

    Attributes:
        location: where it is.
        modified: when it was last written.
        bytes: its size; None if unknown.
        upload: the name of an unfinished upload; "" for a file.
    """

    location: str
    modified: datetime
    bytes: int | None = None
    upload: str = ""


@dataclass(frozen=True)
class OrphanFiles:
    """The orphan files of a table, as `Client.orphans` found them.

    Attributes:
        table: the table.
        removed: how many were removed: the first of `files`.
        bytes: the bytes of all, as far as they are known.
        files: the orphan files.
        too_young: how many other files nothing names that were written too recently to judge.
        not_searched: folders outside of the table's folder that its properties name.
    """

    table: str
    removed: int
    bytes: int
    files: tuple[OrphanFile, ...]
    not_searched: tuple[str, ...] = ()
    too_young: int = 0

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Reads a result of a server."""
        return cls(
            table=str(found["table"]),
            removed=int(found["removed"]),
            bytes=int(found["bytes"]),
            files=tuple(
                OrphanFile(
                    location=str(one["location"]),
                    modified=datetime.fromisoformat(str(one["modified"])),
                    bytes=int(one["bytes"]) if "bytes" in one else None,
                    upload=str(one.get("upload", "")),
                )
                for one in found["files"]
            ),
            not_searched=tuple(str(one) for one in found.get("not_searched") or ()),
            too_young=int(found.get("too_young", 0)),
        )


def orphan_files(pages: Iterable[Mapping[str, Any]]) -> tuple[OrphanFiles, ...]:
    """Joins the pages of a server: each has some orphan files of a table, and the first of a table has its counts."""
    found = []
    for _, of in groupby(map(OrphanFiles.of, pages), key=lambda page: page.table):
        parts = list(of)
        found.append(replace(parts[0], files=tuple(file for part in parts for file in part.files)))
    return tuple(found)


def change(
    servers: Servers,
    action: str,
    body: Mapping[str, Any],
    progress: ProgressFunction | None,
    timeout: float | None,
) -> Any:
    """Calls an action that changes tables, and returns its result.

    See `change_results` for the arguments.
    """
    results = change_results(servers, action, body, progress, timeout)
    if len(results) != 1:
        raise errors.Internal(f"the server answered {action} with {len(results)} results instead of one")
    return results[0]


def change_results(
    servers: Servers,
    action: str,
    body: Mapping[str, Any],
    progress: ProgressFunction | None,
    timeout: float | None,
) -> list[Any]:
    """Calls an action that changes tables, and returns its results.

    Args:
        servers: the servers.
        action: the name of the action.
        body: its fields; those that are None are left out.
        progress: called with the server's messages; None for nothing.
        timeout: seconds after which the server ends the change; None for no limit.
    """
    fields = {name: value for name, value in body.items() if value is not None}
    sent = flight.Action(action, query.text({**fields, "progress": progress is not None}))
    limited = replace(servers.settings, timeout=timeout)

    def call(client: flight.FlightClient, _: flight.FlightCallOptions) -> list[Any]:
        results = []
        for answer in client.do_action(sent, limited.options(unlimited=False)):
            message = _message(answer.body.to_pybytes())
            if progress is not None and isinstance(message.get("progress"), dict):
                progress(ChangeProgress.of(message["progress"]))
            if "result" in message:
                results.append(message["result"])
        return results

    return servers.call(call, unlimited=True)


def _message(text: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError) as e:
        raise errors.Internal(f"the server's answer cannot be read: {e}") from e
