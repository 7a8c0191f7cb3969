"""Results of staging rows, and of moving branches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from penstock import answers
from penstock.history import TableSnapshot


@dataclass(frozen=True)
class ReaderCheck:
    """How a dataset reads a table after rows were staged to it.

    Attributes:
        dataset: the dataset.
        entry: the entry that joins the table; "" if it is the training table.
        branch: the branch that was read although the dataset reads main; "" if the dataset was read as it is.
        rows: the number of sampled training rows; 0 if the match rate was not measured.
        matched: how many of these rows match.
        not_measured: why the match rate was not measured; "" if it was, or if there is none.
        warning: why the match rate is probably wrong; "" if it is not.
        failure: why the dataset cannot be read; "" if no reason was found. If another entry is the reason, the match rate
            of this entry may be known nevertheless.
        kind: the kind of the failure, such as "invalid".
        remedy: what to do about the failure.
        before: whether the dataset could not be read before the change either.
    """

    dataset: str
    entry: str = ""
    branch: str = ""
    rows: int = 0
    matched: int = 0
    not_measured: str = ""
    warning: str = ""
    failure: str = ""
    kind: str = ""
    remedy: str = ""
    before: bool = False

    @property
    def match_rate(self) -> float | None:
        """The fraction of sampled rows that match; None if it was not measured."""
        return self.matched / self.rows if self.rows else None

    @classmethod
    def all_of(cls, found: Mapping[str, Any]) -> tuple[Self, ...]:
        """Decodes the checks in a server's result."""
        return tuple(cls.of(one) for one in found.get("readers") or ())

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a part of a server's result."""
        failure = found.get("failure") or {}
        return cls(
            dataset=str(found["dataset"]),
            entry=str(found.get("entry", "")),
            branch=str(found.get("branch", "")),
            rows=int(found.get("rows", 0)),
            matched=int(found.get("matched", 0)),
            not_measured=str(found.get("not_measured", "")),
            warning=str(found.get("warning", "")),
            failure=str(failure.get("message", "")),
            kind=str(failure.get("kind", "")),
            remedy=str(failure.get("remedy", "")),
            before=bool(failure.get("before", False)),
        )


@dataclass(frozen=True)
class Staged:
    """The result of `Client.stage`; for a dry run, the expected result.

    Attributes:
        table: the table.
        branch: the branch of the change.
        token: the name of the change; if `existed`, that of the earlier call.
        snapshot: the snapshot with the rows; 0 for a dry run, or if there are no rows.
        previous: the snapshot before the change; 0 if there was none.
        existed: whether the branch has the change or its rows from an earlier call. If so, the numbers below are 0.
        created: whether the table is new.
        branched: whether the branch is new. If so, it began at `previous`.
        rows: the number of added rows.
        null_keys: the number of rows with a null in the key.
        dropped: the number of rows left out because of `only_keys_of`.
        partitions: the number of partitions with new rows.
        files: the number of added data files.
        bytes: the bytes of these files.
        removed: the number of replaced data files.
        removed_rows: the rows in these files, including rows deleted by delete files.
        keys_unchecked: whether the rows were not searched for repeated keys, because no dataset reads the table, and
            neither the call nor the table has a key.
        added: the columns added to the table.
        partition: the partition fields of a new table.
        taken: the fields of `partition`, except the buckets, that were copied from the table `like`.
        readers: how the datasets that the client may read read the table after the change; () if they were not checked.
            Equality does not compare them.
    """

    table: str
    branch: str
    token: str
    snapshot: int
    previous: int = 0
    existed: bool = False
    created: bool = False
    branched: bool = False
    rows: int = 0
    null_keys: int = 0
    dropped: int = 0
    partitions: int = 0
    files: int = 0
    bytes: int = 0
    removed: int = 0
    removed_rows: int = 0
    keys_unchecked: bool = False
    added: tuple[str, ...] = ()
    partition: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    readers: tuple[ReaderCheck, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, table: str, branch: str, found: Mapping[str, Any]) -> Self:
        """Decodes a server's result."""
        numbers = ("rows", "null_keys", "dropped", "partitions", "files", "bytes", "removed", "removed_rows")
        lists = ("added", "partition", "taken")
        fields: dict[str, Any] = {name: int(found.get(name, 0)) for name in numbers}
        fields |= {name: answers.texts(found, name) for name in lists}
        return cls(
            table=table,
            branch=branch,
            token=str(found.get("token", "")),
            snapshot=int(found.get("snapshot", 0)),
            previous=int(found.get("parent", 0)),
            existed=bool(found.get("existed", False)),
            created=bool(found.get("created", False)),
            branched=bool(found.get("branched", False)),
            keys_unchecked=bool(found.get("keys_unchecked", False)),
            readers=ReaderCheck.all_of(found),
            **fields,
        )


@dataclass(frozen=True)
class Published:
    """A move of a branch of a table, by `Client.publish` or `Client.undo`.

    Attributes:
        table: the table.
        snapshot: the current snapshot of the branch; 0 if it has none or was removed.
        previous: the branch's snapshot before the move; 0 if there was none. Equal to `snapshot` if nothing was moved.
        branch: the branch that was published to main; after `undo`, the branch that was moved back, "" for main.
        undone: the snapshots that `undo` of a table's last change undid, newest first.
        dropped: whether `undo` dropped the table, or would drop it.
        folder: the folder of the files of a dropped table, which stay.
        readers: how the datasets that the client may read read the table after `undo`; () if they were not checked.
            Equality does not compare them.
    """

    table: str
    snapshot: int
    previous: int
    branch: str = ""
    undone: tuple[TableSnapshot, ...] = ()
    dropped: bool = False
    folder: str = ""
    readers: tuple[ReaderCheck, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a server's result."""
        return cls(
            table=str(found["table"]),
            snapshot=int(found.get("to", 0)),
            previous=int(found.get("from", 0)),
            branch=str(found.get("branch", "")),
            undone=tuple(TableSnapshot.of(one) for one in found.get("undone") or ()),
            dropped=bool(found.get("dropped")),
            folder=str(found.get("folder", "")),
            readers=ReaderCheck.all_of(found),
        )
