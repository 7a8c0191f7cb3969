"""What became of rows that were sent to a table, and moves of its branches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from penstock import errors
from penstock.history import TableSnapshot


@dataclass(frozen=True)
class Staged:
    """What `Client.stage` did, or would have done.

    Attributes:
        table: the table.
        branch: the branch that has the rows.
        token: the name of the change.
        snapshot: the snapshot that has the rows; 0 for a dry run, and without rows.
        previous: the snapshot before; 0 if there was none.
        existed: whether an earlier call with the token had made the change. Then the numbers below are 0.
        created: whether the table is new.
        branched: whether the branch is new. Then it began at `previous`.
        rows: rows that were added.
        null_keys: rows with a null in the key.
        dropped: rows that were left out because of `only_keys_of`.
        partitions: partitions that have new rows.
        files: data files that were added.
        bytes: the bytes of these files.
        removed: data files that were replaced.
        removed_rows: the rows in these files, with those that delete files remove.
        added: columns that the table did not have.
        partition: the partition fields of a new table.
        taken: those of them, beside the buckets, that are as in the table `like`.
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
    added: tuple[str, ...] = ()
    partition: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: str, branch: str, found: Mapping[str, Any]) -> Self:
        """Reads a result of a server."""
        numbers = ("rows", "null_keys", "dropped", "partitions", "files", "bytes", "removed", "removed_rows")
        lists = ("added", "partition", "taken")
        fields: dict[str, Any] = {name: int(found.get(name, 0)) for name in numbers}
        fields |= {name: tuple(str(one) for one in found.get(name) or ()) for name in lists}
        return cls(
            table=table,
            branch=branch,
            token=str(found.get("token", "")),
            snapshot=int(found.get("snapshot", 0)),
            previous=int(found.get("parent", 0)),
            existed=bool(found.get("existed", False)),
            created=bool(found.get("created", False)),
            branched=bool(found.get("branched", False)),
            **fields,
        )


@dataclass(frozen=True)
class Published:
    """A move of a branch of a table, by `Client.publish` or `Client.undo`.

    Attributes:
        table: the table.
        snapshot: the snapshot that the branch is at now; 0 if it has none, or was removed.
        previous: the snapshot that it was at before; 0 if there was none. Equal to `snapshot` if nothing was moved.
        branch: the branch that was published to main; after `undo` the branch that was moved back, "" for main.
        undone: the snapshots that `undo` of a table's last change took back, the newest first.
    """

    table: str
    snapshot: int
    previous: int
    branch: str = ""
    undone: tuple[TableSnapshot, ...] = ()

    @classmethod
    def of(cls, text: bytes) -> Self:
        """Reads a result of a server."""
        try:
            found = json.loads(text)
            return cls(
                table=str(found["table"]),
                snapshot=int(found["to"]),
                previous=int(found["from"]),
                branch=str(found.get("branch", "")),
                undone=tuple(TableSnapshot.of(one) for one in found.get("undone") or ()),
            )
        except (ValueError, KeyError, TypeError) as e:
            raise errors.Internal(f"the server's answer cannot be read: {e}") from e
