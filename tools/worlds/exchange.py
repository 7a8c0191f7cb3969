"""The folder that a world is written from, and the truth about what was written.

A world is a folder with world.json, which lists tables and the steps that make them,
and Arrow files with the rows of each append. A writer adds catalog.db, the folder
warehouse and truth.json, which lists every live data file as the writer's own library
reads it: where it is, which snapshot added it, its sequence number, its partition and
the ids of its rows in file order.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Step = dict[str, Any]


@dataclass(frozen=True)
class PartitionField:
    """One field of a partition spec, such as bucket(4,k) or day.

    Attributes:
        transform: identity, bucket, truncate, year, month, day, hour or void.
        n: the number of buckets or the width; 0 for the others.
        source: the column's name.
        id: the table's number for it; 0 where it has none yet. Fields that differ in
            nothing else are equal.
    """

    transform: str
    n: int
    source: str
    id: int = field(default=0, compare=False)

    @classmethod
    def parse(cls, text: str) -> PartitionField:
        """Reads a field as a world spells it."""
        found = re.fullmatch(r"(\w+)\((?:(\d+),)?([^)]+)\)", text)
        if found is None:
            return cls("identity", 0, text)
        return cls(found[1], int(found[2] or 0), found[3])

    @classmethod
    def of(cls, transform: str, source: str, id: int) -> PartitionField:  # noqa: A002
        """Reads a field as table metadata spells its transform, such as bucket[4]."""
        kind, _, n = transform.removesuffix("]").partition("[")
        return cls(kind, int(n or 0), source, id)

    @property
    def name(self) -> str:
        """A name for it, with letters beyond ASCII. Several may be made of one column, over time and at a time."""
        return (
            self.source
            if self.transform == "identity"
            else f"{self.source}_größe_{self.transform}{self.n or ''}"
        )


@dataclass(frozen=True)
class File:
    """A live data file.

    Attributes:
        order: the place of its snapshot on the chain of parents, the oldest known
            being 1; 0 where the chain does not reach.
        sequence: None in format version 1, and for files from before an upgrade.
        partition: a value per field of the spec.
        rows: ids, in file order.
        columns: the names of the columns that it holds.
    """

    path: str
    bytes: int
    snapshot: int
    order: int
    sequence: int | None
    spec: int
    partition: list[Any]
    rows: list[int]
    columns: list[str]


@dataclass
class Truth:
    """What a writer reads of a table that it wrote."""

    name: str
    format: int
    specs: dict[int, list[PartitionField]]
    files: list[File] = field(default_factory=list)


def tables(folder: Path) -> Iterator[dict[str, Any]]:
    """Lists the tables of a world."""
    yield from json.loads((folder / "world.json").read_text())["tables"]


def rows(folder: Path, step: Step) -> pa.Table:
    """Reads the rows of an append."""
    # Rust refuses decimals that are aligned to 8 bytes only, as the format has them.
    aligned = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.At64Byte)
    with pa.OSFile(str(folder / step["rows"])) as source:
        return pa.ipc.open_file(source, options=aligned).read_all()


def ids(path: str, column: str) -> tuple[list[int], list[str]]:
    """Reads the ids of a data file, in its order, and the names of its columns."""
    with pa.OSFile(local(path)) as source:
        file = pq.ParquetFile(source)
        return file.read(columns=[column]).column(0).to_pylist(), file.schema_arrow.names


def local(location: str) -> str:
    """The path of a location such as file:///path, file:/path or /path."""
    return re.sub(r"^file:(//)?", "", location)


def chain(snapshots: dict[int, int | None], current: int | None) -> list[int]:
    """Walks from a snapshot through its parents, as far as they are known, and lists them oldest first.

    Args:
        snapshots: each known snapshot's parent.
        current: where to begin.
    """
    found: list[int] = []
    while current is not None and current in snapshots:
        found.append(current)
        current = snapshots[current]
    return found[::-1]


def plain(value: Any) -> Any:
    """Spells a partition value in JSON: numbers of days and microseconds, base64 for bytes."""
    match value:
        case datetime.datetime():
            since = value.replace(tzinfo=None) - datetime.datetime(1970, 1, 1)
            return since // datetime.timedelta(microseconds=1)
        case datetime.date():
            return (value - datetime.date(1970, 1, 1)).days
        case datetime.time():
            return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
        case decimal.Decimal():
            return format(value, "f")
        case uuid.UUID():
            return base64.b64encode(value.bytes).decode()
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case _:
            return value


class Steps:
    """What takes the steps of a table, one method to each kind of step."""

    def take(self, table: dict[str, Any]) -> None:
        """Takes all steps of a table, in order."""
        for step in table["steps"]:
            getattr(self, "do_" + step["do"])(table["name"], step)


def save(folder: Path, truths: list[Truth]) -> None:
    """Writes truth.json."""
    (folder / "truth.json").write_text(json.dumps({"tables": [asdict(t) for t in truths]}))
