"""A dataset with a column of every type that the wire has, and the rows that it must give.

The rows are computed in plain Python from the values that were written: no engine, and nothing of the server.

engine_lake.py FOLDER writes the tables, prints the path of their configuration, and writes the rows to rows.pickle, for programs
without PyIceberg. engine_lake.py FOLDER append commits a training row more.
"""

from __future__ import annotations

import datetime
import decimal
import pickle
import random
import sys
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

sys.path.insert(0, str(Path(__file__).parents[1]))
from lake import Lake, Row, join

ROWS = 4000
REQUESTS = 500

EVENTS: dict[str, IcebergType] = {
    "row": LongType(),
    "request_id": LongType(),
    "flag": BooleanType(),
    "i": IntegerType(),
    "l": LongType(),
    "f": FloatType(),
    "d": DoubleType(),
    "price": DecimalType(12, 2),
    "big": DecimalType(38, 10),
    "day": DateType(),
    "clock": TimeType(),
    "at": TimestampType(),
    "atz": TimestamptzType(),
    "text": StringType(),
    "ident": UUIDType(),
    "fixed": FixedType(4),
    "bytes": BinaryType(),
    "tags": ListType(901, StringType(), element_required=False),
    "grid": ListType(902, ListType(903, LongType(), element_required=False), element_required=False),
    "pair": StructType(
        NestedField(904, "a", IntegerType(), required=False),
        NestedField(905, "b", StringType(), required=False),
    ),
    "counts": MapType(906, StringType(), 907, LongType(), value_required=False),
}
SCORES: dict[str, IcebergType] = {
    "request_id": LongType(),
    "score": DoubleType(),
    "country": StringType(),
    "vector": ListType(901, FloatType(), element_required=False),
}

_START = datetime.datetime(2026, 10, 1, tzinfo=datetime.UTC)
# Values at which engines differ if they compare in another type, or as another order.
LONGS = (0, 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 7, 7_000_000_000)
DOUBLES = (0.0, -0.0, 1.5, -2.25, float("nan"), float("inf"), -float("inf"), 0.1, 1e300, 2.0**53)
FLOATS = (0.0, -0.0, 1.5, float("nan"), float("inf"), 0.25, -3.0)
TEXTS = ("", "a", "A", "b", "ü", "zürich", "it's", '"quoted"', "a%b_", "日本", "nul\x00in")


def _event(rng: random.Random, at: int) -> Row:
    moment = _START + datetime.timedelta(microseconds=at * 86_399_999_983 // 7)
    return {
        "flag": rng.random() < 0.5,
        "i": rng.choice([0, 1, -1, 2**31 - 1, -(2**31), rng.randrange(-50, 50)]),
        "l": rng.choice(LONGS),
        "f": rng.choice(FLOATS),
        "d": rng.choice(DOUBLES),
        "price": decimal.Decimal(rng.choice([0, 1, -1, 999, 1000, rng.randrange(-(10**11), 10**11)])).scaleb(
            -2
        ),
        "big": decimal.Decimal(rng.randrange(-(10**37), 10**37)).scaleb(-10, decimal.Context(prec=60)),
        "day": moment.date(),
        "clock": moment.time(),
        "at": moment.replace(tzinfo=None),
        "atz": moment,
        "text": rng.choice(TEXTS),
        "ident": uuid.UUID(int=rng.getrandbits(128)),
        "fixed": rng.randbytes(4),
        "bytes": rng.randbytes(rng.randrange(4)),
        "tags": rng.choice([[], ["a"], ["b", None, "zürich"]]),
        "grid": rng.choice([[], [[1, None], None, []], [[2**60]]]),
        "pair": {"a": rng.choice([None, 1, -7]), "b": rng.choice([None, "", "x"])},
        "counts": rng.choice([[], [("a", 1)], [("b", None), ("c", -(2**40))]]),
    }


def events(rng: random.Random) -> list[Row]:
    """Training rows; each value is null in one row of eleven."""
    rows = []
    for at in range(ROWS):
        values = {name: None if rng.random() < 1 / 11 else value for name, value in _event(rng, at).items()}
        request = None if at % 97 == 0 else rng.randrange(REQUESTS)
        rows.append({"row": at, "request_id": request, **values})
    return rows


def scores(rng: random.Random) -> list[Row]:
    """Staging rows of four requests in five."""
    return [
        {
            "request_id": request,
            "score": rng.choice([None, rng.random(), float("nan")]),
            "country": rng.choice([None, "de", "jp", ""]),
            "vector": rng.choice([None, [], [0.5, None], [1.0, float("nan"), -0.0]]),
        }
        for request in range(REQUESTS)
        if request % 5
    ]


def rows() -> list[Row]:
    """The rows of the join, in the order of `row`."""
    rng = random.Random(57)
    return join(events(rng), scores(rng), ("request_id", "request_id"))


def write(folder: Path) -> Path:
    """Writes the tables and a configuration with the dataset "d", and returns the configuration's path."""
    rng, made = random.Random(57), Lake(folder)
    made.write("ml.events", EVENTS, ("request_id", 4), [_stored(r) for r in events(rng)], files=2)
    made.write("features.scores", SCORES, ("request_id", 8), scores(rng))
    staging = [{"table": "features.scores"}]
    return made.config({"d": {"training": {"table": "ml.events"}, "key": ["request_id"], "staging": staging}})


def append(folder: Path) -> None:
    """Commits a training row more."""
    catalog = SqlCatalog(
        "default", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
    )
    table = catalog.load_table("ml.events")
    table.append(pa.Table.from_pylist([{"row": ROWS, "request_id": 1}], schema_to_pyarrow(table.schema())))
    catalog.engine.dispose()


def _stored(row: Row) -> Row:
    """Returns a row as pyarrow takes it."""
    return {name: value.bytes if isinstance(value, uuid.UUID) else value for name, value in row.items()}


def same(value: Any) -> Any:
    """Returns a value in a form in which equal values of any engine are equal: with one NaN, and maps as pairs."""
    if isinstance(value, float):
        return "NaN" if value != value else repr(value)
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).isoformat()
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, list | tuple):
        return [same(one) for one in value]
    if isinstance(value, dict):
        return {name: same(one) for name, one in value.items()}
    return value


if __name__ == "__main__":
    to = Path(sys.argv[1])
    if "append" in sys.argv:
        append(to)
    else:
        print(write(to))
        (to / "rows.pickle").write_bytes(pickle.dumps(rows()))
