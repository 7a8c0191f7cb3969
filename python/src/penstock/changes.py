"""Results of table changes that a server makes without rows from the client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain, groupby
from typing import Any, Self

from penstock import answers
from penstock.staged import ReaderCheck


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
            readers=ReaderCheck.all_of(found),
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
            readers=ReaderCheck.all_of(found),
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
            dropped=answers.texts(found, "dropped"),
            restored=answers.texts(found, "restored"),
            entries=answers.texts(found, "entries"),
            schema=int(found["schema"]),
            losing={
                str(name): tuple(str(one) for one in columns)
                for name, columns in (found.get("losing") or {}).items()
            },
            readers=ReaderCheck.all_of(found),
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
            not_searched=answers.texts(found, "not_searched"),
            too_young=int(found.get("too_young", 0)),
        )


def orphan_files(results: Iterable[Iterable[Mapping[str, Any]]]) -> tuple[OrphanFiles, ...]:
    """Joins the pages in a server's results: each lists orphan files of one table, whose first page has its counts."""
    found = []
    pages = map(OrphanFiles.of, chain.from_iterable(results))
    for _, of in groupby(pages, key=lambda page: page.table):
        parts = list(of)
        found.append(replace(parts[0], files=tuple(file for part in parts for file in part.files)))
    return tuple(found)
