"""The demo's Iceberg tables, and the server's configuration.

PyIceberg writes them into a SQLite catalog, bucketed by the request id with three different counts.
Everything is in one place: a folder, or a folder that an S3 gateway serves. Its marker is written
last and names what the tables were made by, so that finished tables are used again, and tables that
are unfinished, damaged or of an older demo are created again.
"""

from __future__ import annotations

import dataclasses
import datetime
import fcntl
import hashlib
import importlib.metadata
import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import movielens
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from failure import DemoError
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import (
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

KEY = "request_id"
DATASET = "movielens"
RATINGS = "ml.ratings"
USER_HISTORY = "features.user_history"
GENRE_AFFINITY = "features.genre_affinity"
STAGING = (USER_HISTORY, GENRE_AFFINITY)

_LATEST = 0.2  # the latest share of the ratings is used for the test
_FINISHED = "finished.json"
_LOCK = "lock"


@dataclasses.dataclass(frozen=True)
class Place:
    """Where the tables are, and how they are reached.

    Attributes:
        home: the folder with catalog, configuration and marker.
        warehouse: the location that the tables' files are under.
        files: the folder that this location is on this machine.
        properties: what PyIceberg must know to write there.
        catalog: the server's catalog, as names and values of its configuration.
    """

    home: Path
    warehouse: str
    files: Path
    properties: dict[str, str]
    catalog: dict[str, str]

    def local(self, location: str) -> str:
        """The local path of a file."""
        return str(self.files) + location.removeprefix(self.warehouse)


def disk(folder: Path) -> Place:
    """Tables in a folder, with the catalog in a SQLite file next to them."""
    home = folder.resolve() / "tables"
    warehouse = f"file://{home}/warehouse"
    catalog = {"type": "sql", "uri": _database(home), "warehouse": warehouse}
    return Place(home, warehouse, home / "warehouse", {}, catalog)


def _database(home: Path) -> str:
    return f"sqlite:///{home}/catalog.db"


class BusyError(DemoError):
    """Another run of the demo uses the folder."""


@dataclasses.dataclass(frozen=True)
class Written:
    """One table as it was written."""

    name: str
    buckets: int
    rows: int
    files: dict[str, int]  # path to size in bytes
    digest: str  # of the files' content


@dataclasses.dataclass(frozen=True)
class Facts:
    """Facts about the tables, for the demo to show, and to check the streams against."""

    source: list[str]
    users: int
    movies: int
    first_day: str
    last_day: str
    tested_from: str  # the first day of the test ratings
    train_rows: int
    test_rows: int
    tables: list[Written]


_LONGS = ListType(element_id=101, element_type=LongType(), element_required=False)
_FLOATS = ListType(element_id=101, element_type=FloatType(), element_required=False)

_LAYOUT: dict[str, tuple[int, Schema]] = {
    RATINGS: (
        16,
        Schema(
            NestedField(1, KEY, LongType(), required=True),
            NestedField(2, "user_id", LongType(), required=True),
            NestedField(3, "movie_id", LongType(), required=True),
            NestedField(4, "rating", FloatType(), required=True),
            NestedField(5, "ts", TimestamptzType(), required=True),
            NestedField(6, "title", StringType(), required=False),
            NestedField(7, "year", IntegerType(), required=False),
            NestedField(8, "genres", _LONGS, required=True),
        ),
    ),
    USER_HISTORY: (
        12,
        Schema(
            NestedField(1, KEY, LongType(), required=True),
            NestedField(2, "ratings_before", IntegerType(), required=True),
            NestedField(3, "mean_rating", DoubleType(), required=True),
            NestedField(4, "last_movies", _LONGS, required=True),
        ),
    ),
    GENRE_AFFINITY: (
        8,
        Schema(
            NestedField(1, KEY, LongType(), required=True),
            NestedField(2, "affinity", _FLOATS, required=True),
        ),
    ),
}

_CONFIG = """\
catalogs:
  default:
{catalog}
datasets:
  {dataset}:
    training:
      table: {ratings}
    key: [{key}]
    staging:
      - table: {user_history}
      - table: {genre_affinity}
"""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock the folder for this process; BusyError if another one has it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _LOCK).open("w") as lock:
        _lock(lock, folder)
        yield


def configured(place: Place) -> Path:
    """Writes the server's configuration, and returns its path."""
    path = place.home / "penstock.yaml"
    lines = (f"    {name}: {json.dumps(value)}" for name, value in place.catalog.items())
    path.write_text(
        _CONFIG.format(
            catalog="\n".join(lines),
            dataset=DATASET,
            key=KEY,
            ratings=RATINGS,
            user_history=USER_HISTORY,
            genre_affinity=GENRE_AFFINITY,
        )
    )
    return path


def ready(place: Place) -> Facts | None:
    """The facts of finished tables; None if there are none."""
    try:
        marker = json.loads((place.home / _FINISHED).read_text())
        if marker["made_by"] != _made_by(place):
            return None
        written = [Written(**table) for table in marker["facts"].pop("tables")]
        facts = Facts(**marker["facts"], tables=written)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    whole = (place.home / "catalog.db").exists()
    return facts if whole and all(_whole(table) for table in facts.tables) else None


def make(place: Place) -> Facts:
    """Create the tables from the package's data, replacing older ones."""
    events, movies = movielens.load()
    rows = movielens.tables(events, movies)
    for old in (place.home / _FINISHED, place.home / "catalog.db"):
        old.unlink(missing_ok=True)
    shutil.rmtree(place.files, ignore_errors=True)
    place.home.mkdir(parents=True, exist_ok=True)
    parts = {
        RATINGS: rows.ratings,
        USER_HISTORY: rows.user_history,
        GENRE_AFFINITY: rows.genre_affinity,
    }
    catalog = open_catalog(place)
    for namespace in dict.fromkeys(name.partition(".")[0] for name in parts):
        catalog.create_namespace(namespace)
    tables = [_write(catalog, place, name, part) for name, part in parts.items()]
    catalog.close()
    facts = _facts(events, rows.ratings, tables)
    marker = {"made_by": _made_by(place), "facts": dataclasses.asdict(facts)}
    unfinished = place.home / (_FINISHED + ".new")
    unfinished.write_text(json.dumps(marker))
    unfinished.rename(place.home / _FINISHED)
    return facts


def open_catalog(place: Place) -> SqlCatalog:
    """The catalog that holds the tables; the caller closes it."""
    return SqlCatalog("default", uri=_database(place.home), warehouse=place.warehouse, **place.properties)


def files_of(catalog: SqlCatalog, place: Place, name: str, snapshot: int) -> list[str]:
    """The Parquet files of a table's snapshot, as local paths."""
    planned = catalog.load_table(name).scan(snapshot_id=snapshot).plan_files()
    return sorted(place.local(scan.file.file_path) for scan in planned)


def _lock(lock: IO[str], folder: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise BusyError(f"another run of the demo uses {folder}: wait for its end") from None


def _made_by(place: Place) -> dict[str, Any]:
    """The inputs of the tables: place, our own code, the packages."""
    here = Path(__file__).parent
    code = b"".join((here / name).read_bytes() for name in ("movielens.py", "lakehouse.py"))
    packages = (movielens.PACKAGE, "pyiceberg", "pyarrow")
    return {
        "folder": str(place.home),
        "warehouse": place.warehouse,
        "code": hashlib.sha256(code).hexdigest(),
        "packages": {name: importlib.metadata.version(name) for name in packages},
    }


def _whole(table: Written) -> bool:
    try:
        return _digest(table.files) == table.digest
    except OSError:
        return False


def _digest(files: Iterable[str]) -> str:
    """The digest of the files' content, in order."""
    return hashlib.sha256(
        b"".join(hashlib.sha256(Path(path).read_bytes()).digest() for path in files)
    ).hexdigest()


def _write(catalog: SqlCatalog, place: Place, name: str, rows: pa.Table) -> Written:
    buckets, schema = _LAYOUT[name]
    key = schema.find_field(KEY).field_id
    field = PartitionField(
        source_id=key, field_id=1000, transform=BucketTransform(buckets), name=f"{KEY}_bucket"
    )
    table = catalog.create_table(
        name,
        schema,
        partition_spec=PartitionSpec(field),
        properties={"format-version": "2", "write.parquet.compression-codec": "zstd"},
    )
    table.append(rows.cast(schema_to_pyarrow(schema, include_field_ids=False)))
    files = _files(place, table)
    return Written(name, buckets, rows.num_rows, files, _digest(files))


def _files(place: Place, table: Table) -> dict[str, int]:
    return {
        place.local(scan.file.file_path): scan.file.file_size_in_bytes for scan in table.scan().plan_files()
    }


def _facts(events: movielens.Events, ratings: pa.Table, tables: list[Written]) -> Facts:
    tested_from = _day(int(np.quantile(events.second, 1 - _LATEST)))
    border = datetime.datetime.fromisoformat(tested_from).replace(tzinfo=datetime.UTC)
    before = pc.sum(pc.less(ratings["ts"], pa.scalar(border, pa.timestamp("us", "UTC")))).as_py()
    return Facts(
        source=movielens.source(),
        users=len(np.unique(events.user)),
        movies=len(np.unique(events.movie)),
        first_day=_day(int(events.second.min())),
        last_day=_day(int(events.second.max())),
        tested_from=tested_from,
        train_rows=before,
        test_rows=ratings.num_rows - before,
        tables=tables,
    )


def _day(second: int) -> str:
    return datetime.datetime.fromtimestamp(second, datetime.UTC).date().isoformat()
