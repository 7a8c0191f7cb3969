"""What changed between two snapshots of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from penstock import answers


@dataclass(frozen=True)
class DiffState:
    """One of the two snapshots of a `TableDiff`.

    Attributes:
        snapshot: its id; 0 if there is no snapshot.
        time: when it was committed; None if there is no snapshot.
        rows: the rows of all data files.
        deletes: the rows and values in delete files; `rows` includes the rows that they delete.
        bytes: the bytes of all data files.
        files: the number of data files.
    """

    snapshot: int
    time: datetime | None
    rows: int
    deletes: int
    bytes: int
    files: int

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        return cls(
            snapshot=int(found.get("snapshot", 0)),
            time=answers.time(found),
            rows=int(found["rows"]),
            deletes=int(found["deletes"]),
            bytes=int(found["bytes"]),
            files=int(found["files"]),
        )


@dataclass(frozen=True)
class FileCounts:
    """Numbers of data files, and of their rows and bytes."""

    files: int
    rows: int
    bytes: int

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        return cls(files=int(found["files"]), rows=int(found["rows"]), bytes=int(found["bytes"]))


@dataclass(frozen=True)
class DiffFiles:
    """The files of two snapshots, or those of one partition that differ.

    Attributes:
        added: files that only the later snapshot has.
        removed: files that only the earlier snapshot has.
        deletes: files that both have, with different deletes.
        same: files that both have with the same deletes; None for a partition.
    """

    added: FileCounts
    removed: FileCounts
    deletes: FileCounts
    same: FileCounts | None = None

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        counts = {name: FileCounts.of(found[name]) for name in ("added", "removed", "deletes")}
        return cls(**counts, same=answers.part(found, "same", FileCounts.of))


@dataclass(frozen=True)
class DiffColumns:
    """The columns that changed.

    Attributes:
        added: columns that only the later snapshot has.
        dropped: columns that only the earlier snapshot has.
        renamed: pairs of the earlier and the later name.
        retyped: for each column whose type changed, its name, its earlier type and its later type.
    """

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    retyped: tuple[tuple[str, str, str], ...] = ()

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        return cls(
            added=answers.texts(found, "added"),
            dropped=answers.texts(found, "dropped"),
            renamed=tuple((str(one["from"]), str(one["to"])) for one in found.get("renamed") or ()),
            retyped=tuple(
                (str(one["column"]), str(one["from"]), str(one["to"])) for one in found.get("retyped") or ()
            ),
        )


@dataclass(frozen=True)
class DiffKeys:
    """The keys of the files that differ.

    Attributes:
        columns: the columns of the key.
        rows_before: the rows of these files at the earlier snapshot.
        rows_after: the rows of these files at the later snapshot.
        added: the number of keys that only the later snapshot has.
        gone: the number of keys that only the earlier snapshot has.
        changed: the number of keys with one row in both snapshots, with different values.
        same: the number of keys with one row in both snapshots, with equal values.
        repeated: the number of keys with several rows, whose values are not compared.
        by_column: for each column, the number of keys with different values in it.
        not_compared: columns that are not compared, because of their types.
        added_keys: examples of added keys.
        gone_keys: examples of keys that are gone.
        changed_keys: examples of changed keys, each with the columns whose values differ.
    """

    columns: tuple[str, ...]
    rows_before: int
    rows_after: int
    added: int
    gone: int
    changed: int
    same: int
    repeated: int
    by_column: Mapping[str, int]
    not_compared: tuple[str, ...]
    added_keys: tuple[str, ...]
    gone_keys: tuple[str, ...]
    changed_keys: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        counts = ("rows_before", "rows_after", "added", "gone", "changed", "same", "repeated")
        return cls(
            columns=answers.texts(found, "columns"),
            by_column={str(one["column"]): int(one["keys"]) for one in found.get("by_column") or ()},
            not_compared=answers.texts(found, "not_compared"),
            added_keys=answers.texts(found, "added_keys"),
            gone_keys=answers.texts(found, "gone_keys"),
            changed_keys={
                str(one["key"]): answers.texts(one, "columns") for one in found.get("changed_keys") or ()
            },
            **{name: int(found[name]) for name in counts},
        )


@dataclass(frozen=True)
class TableDiff:
    """What changed between two snapshots of a table, as returned by `Client.diff`.

    Attributes:
        table: its name.
        before: the earlier snapshot.
        after: the later snapshot.
        files: the files of the two snapshots.
        columns: the columns that changed; None if there is no earlier snapshot.
        partitions: the files that differ, by partition, such as "day=2026-11-01".
        more_partitions: the number of partitions that are left out.
        keys: the keys of the files that differ; None if no row was read, because of `only_files` or because the key
            is unknown.
    """

    table: str
    before: DiffState
    after: DiffState
    files: DiffFiles
    columns: DiffColumns | None
    partitions: Mapping[str, DiffFiles]
    more_partitions: int
    keys: DiffKeys | None

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a server's result."""
        return cls(
            table=str(found["table"]),
            before=DiffState.of(found["from"]),
            after=DiffState.of(found["to"]),
            files=DiffFiles.of(found["files"]),
            columns=answers.part(found, "columns", DiffColumns.of),
            partitions={str(one["partition"]): DiffFiles.of(one) for one in found["partitions"]},
            more_partitions=int(found.get("more_partitions", 0)),
            keys=answers.part(found, "keys", DiffKeys.of),
        )
