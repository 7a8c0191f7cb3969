"""Table changes that a server makes without rows from the client, and their results."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import Any, Self

import pyarrow.flight as flight

from penstock import errors, query
from penstock.servers import Servers
from penstock.staged import ReaderCheck


@dataclass(frozen=True)
class ChangeProgress:
    """The progress of a table change.

    Attributes:
        step: the current step: "keys", "read", "write" or "commit" of `Client.stage`, "write" of `restore`, "rewrite"
            of `compact` and `promote`, "check" of a dry run of `promote`, "search" or "remove" of `orphans`.
        rows_read: the number of rows received or read so far.
        rows_written: the number of rows written to data files so far.
        of_rows_read: the total number of rows to read; 0 if unknown.
        of_rows_written: the total number of rows to write; 0 if unknown.
        files: the number of finished files.
        bytes: the bytes of these files.
        of_files: the total number of files; 0 if unknown.
        of_bytes: the total bytes of all files; 0 if unknown.
        table: the table, if the call changes several.
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
        """Decodes a server's progress message."""
        counts = [name for name in cls.__dataclass_fields__ if name not in ("step", "table")]
        numbers = {name: int(found.get(name, 0)) for name in counts}
        return cls(step=str(found.get("step", "")), table=str(found.get("table", "")), **numbers)


ProgressFunction = Callable[[ChangeProgress], None]


@dataclass(frozen=True)
class Compacted:
    """The result of `Client.compact`; for a dry run, the expected result.

    Attributes:
        table: the table.
        snapshot: the last committed snapshot; 0 if nothing was committed.
        commits: the number of commits.
        files: the number of files read.
        bytes: the bytes of these files.
        rows: the rows of these files, including deleted rows.
        deleted: the number of deleted rows, which were not copied.
        files_written: the number of new files; an estimate for a dry run.
        bytes_written: the bytes of new files; an estimate for a dry run.
        deletes: the number of delete files removed with the files.
        kept: the number of files not rewritten because the rows of a key would change their order.
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
        """Decodes a server's result."""
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
    """The result of `Client.restore`; for a dry run, the expected result.

    Attributes:
        table: the table.
        token: the name of the change.
        snapshot: the snapshot with the restored rows; 0 for a dry run, or if nothing had to change.
        previous: the snapshot before the change; 0 if nothing was committed.
        existed: whether an earlier call with the same token made the change. If so, the numbers below are 0.
        copied: the number of files restored unchanged.
        rewritten: the number of files restored without their deleted rows.
        rows: the rows of these files, including rows deleted at the snapshot.
        bytes: the bytes of these files.
        unchanged: the number of files that the branch still had.
        removed: the number of files removed from the branch.
        readers: how the datasets that the client may read read the table after the change; () if they were not checked.
            Equality does not compare them.
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
    readers: tuple[ReaderCheck, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, table: str, found: Mapping[str, Any]) -> Self:
        """Decodes a server's result."""
        counts = ("snapshot", "copied", "rewritten", "rows", "bytes", "unchanged", "removed")
        return cls(
            table=table,
            token=str(found.get("token", "")),
            previous=int(found.get("parent", 0)),
            existed=bool(found.get("existed", False)),
            readers=tuple(ReaderCheck.of(one) for one in found.get("readers") or ()),
            **{name: int(found.get(name, 0)) for name in counts},
        )


@dataclass(frozen=True)
class Promoted:
    """The result of `Client.promote`; for a dry run, the expected result.

    Attributes:
        table: the training table.
        promotion: an id of the entries, their definitions, and the snapshots of their tables.
        columns: the names of the new columns.
        snapshots: the snapshots of the values, by entry.
        existed: whether the table already had the columns. The call then wrote only the files that lacked them.
        continued: whether this call continued an earlier one.
        schema: the id of the current schema.
        rows: the number of rows in the written files.
        files: the number of replaced files.
        files_skipped: the number of files that already had the columns.
        commits: the number of commits.
        bytes_written: the bytes of the new files; an estimate for a dry run.
        seconds: the estimated duration for a dry run; None otherwise.
        epochs: for a dry run, the number of epochs after which the promotion saves reads, 0 if never; None otherwise.
        readers: how the datasets that the client may read read the table after the change; () if they were not checked.
            Equality does not compare them.
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
    readers: tuple[ReaderCheck, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a server's result."""
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
            readers=tuple(ReaderCheck.of(one) for one in found.get("readers") or ()),
            **{name: int(found.get(name, 0)) for name in counts},
        )


@dataclass(frozen=True)
class Demoted:
    """The result of `Client.demote`; for a dry run, the expected result.

    Attributes:
        table: the training table.
        dropped: the names of the dropped columns; empty if they had been dropped before.
        restored: the names of the columns that the dropped ones had replaced, which have their names back.
        entries: the staging entries of the dropped columns.
        losing: the columns that datasets without these entries lose, by dataset; empty if the datasets were not checked.
        schema: the id of the current schema.
        readers: how the datasets that the client may read read the table after the change; () if they were not checked.
            Equality does not compare them.
    """

    table: str
    dropped: tuple[str, ...]
    restored: tuple[str, ...]
    entries: tuple[str, ...]
    schema: int
    losing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    readers: tuple[ReaderCheck, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a server's result."""
        return cls(
            table=str(found["table"]),
            dropped=tuple(str(one) for one in found.get("dropped") or ()),
            restored=tuple(str(one) for one in found.get("restored") or ()),
            entries=tuple(str(one) for one in found.get("entries") or ()),
            schema=int(found["schema"]),
            losing={
                str(name): tuple(str(one) for one in columns)
                for name, columns in (found.get("losing") or {}).items()
            },
            readers=tuple(ReaderCheck.of(one) for one in found.get("readers") or ()),
        )


@dataclass(frozen=True)
class OrphanFile:
    """A file that no snapshot references, or an unfinished upload.

    Attributes:
        location: its location.
        modified: when it was last written.
        bytes: its size; None if unknown.
        upload: the name of the unfinished upload; "" for a file.
    """

    location: str
    modified: datetime
    bytes: int | None = None
    upload: str = ""


@dataclass(frozen=True)
class OrphanFiles:
    """The orphan files of a table, found by `Client.orphans`.

    Attributes:
        table: the table.
        removed: the number of removed files, which come first in `files`.
        bytes: the total bytes of the files of known size.
        files: the orphan files.
        too_young: the number of other unreferenced files, which are too recent to judge.
        not_searched: folders outside the table's folder that its properties name; they are not searched.
    """

    table: str
    removed: int
    bytes: int
    files: tuple[OrphanFile, ...]
    not_searched: tuple[str, ...] = ()
    too_young: int = 0

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a server's result."""
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
    """Joins a server's pages: each lists some orphan files of one table; a table's first page has its counts."""
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
    """Calls an action that changes tables, and returns its only result.

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
        body: the action's fields; None values are left out.
        progress: called with the server's progress messages, unless None.
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

    began = time.monotonic()
    try:
        return servers.call(call, unlimited=True)
    except errors.Error as e:
        if timeout is not None and time.monotonic() - began >= timeout:
            e.timed_out = True  # so that a call that only reads is not retried
        raise


def _message(text: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError) as e:
        raise errors.Internal(f"the server's answer cannot be read: {e}") from e
