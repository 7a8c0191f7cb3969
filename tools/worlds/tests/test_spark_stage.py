"""Tables that penstock stage writes, as Spark, PyIceberg, DuckDB and the product read them."""

from __future__ import annotations

import datetime
import decimal
import random
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from plain import plain_rows
from spark_session import attach
from staging import Lake, same

pytestmark = pytest.mark.timeout(300)  # the first test starts Spark

_NAN, _INFINITY = float("nan"), float("inf")
_DECIMAL = decimal.Decimal
_FIRST = datetime.date(2026, 1, 1)
_EPOCH = datetime.datetime(1969, 12, 31, 12)

# The columns of every type that Spark reads, and the values that a random row draws from.
_TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "yes": (pa.bool_(), [None, True, False]),
    "i": (pa.int32(), [None, 0, -1, 2**31 - 1, -(2**31), 7]),
    "l": (pa.int64(), [None, 0, 2**63 - 1, -(2**63), 42]),
    "f": (pa.float32(), [None, _NAN, -0.0, 0.0, _INFINITY, -_INFINITY, 1.5, -2.25]),
    "d": (pa.float64(), [None, _NAN, -0.0, 0.0, 1e300, -1e-300, _INFINITY]),
    "cents": (pa.decimal128(9, 2), [None, _DECIMAL("-1.50"), _DECIMAL("0.00"), _DECIMAL("9999999.99")]),
    "mid": (pa.decimal128(18, 6), [None, _DECIMAL("-999999999999.999999"), _DECIMAL("0.000001")]),
    "wide": (pa.decimal128(38, 4), [None, _DECIMAL("-1e33"), _DECIMAL("12345678901234567890.1234")]),
    "ts": (pa.timestamp("us"), [None, *(_EPOCH + datetime.timedelta(hours=h, microseconds=h) for h in range(30))]),
    "tz": (pa.timestamp("us", "UTC"), [None, *((_EPOCH + datetime.timedelta(days=d)).replace(tzinfo=datetime.UTC) for d in (-20000, 0, 20000))]),
    "s": (pa.string(), [None, "", "a", "é", "😀x", "\uffff", "\U0010ffff" * 20, "long" * 40, "\x00b"]),
    "bin": (pa.binary(), [None, b"", b"\xff" * 40, b"\x00", b"\xff\x00a"]),
    "id": (pa.uuid(), [None, *(uuid.UUID(int=i << 120 | i).bytes for i in (0, 1, 127, 128, 255))]),
    "fixed": (pa.binary(4), [None, b"\x00" * 4, b"\xff" * 4, b"abcd"]),
    "history": (pa.list_(pa.float32()), [None, [], [1.0, _NAN], [None, -0.0], [3.0] * 50]),
    "nested": (pa.list_(pa.list_(pa.string())), [None, [], [[], None, ["x", None]], [["y"] * 3]]),
    "m": (pa.map_(pa.string(), pa.int64()), [None, [], [("a", 1), ("b", None)], [("", -1)]]),
    "st": (
        pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string()), ("d", pa.float64())]))]),
        [None, {"a": None, "b": None}, {"a": 1, "b": {"c": None, "d": _NAN}}, {"a": 2, "b": {"c": "x", "d": -0.0}}],
    ),
    "items": (pa.list_(pa.struct([("a", pa.int32()), ("q", pa.decimal128(5, 1))])), [None, [], [None, {"a": 1, "q": _DECIMAL("1.5")}]]),
}  # fmt: skip
_DAYS = 4


def some_rows(count: int, seed: int = 0, types: list[str] | None = None) -> pa.Table:
    """Random rows with numbers, keys and days."""
    draw = random.Random(seed)
    numbers = range(seed * 100_000, seed * 100_000 + count)
    columns: dict[str, pa.Array] = {
        "item": pa.array(numbers, pa.int64()),
        "k": pa.array([None if i % 11 == 0 else f"k{i % 97}" for i in numbers], pa.string()),
        "day": pa.array([_FIRST + datetime.timedelta(days=i % _DAYS) for i in numbers], pa.date32()),
        # All values of a day are equal, so that bounds are what they seem to be.
        "zero": pa.array([[-0.0, 0.0, _NAN, None][i % _DAYS] for i in numbers], pa.float64()),
    }
    for name, (of, values) in _TYPES.items():
        if types is None or name in types:
            storage = of.storage_type if isinstance(of, pa.BaseExtensionType) else of
            drawn = pa.array([draw.choice(values) for _ in numbers], storage)
            columns[name] = pa.ExtensionArray.from_storage(of, drawn) if storage is not of else drawn
    return pa.table(columns)


# Filters as Spark, PyIceberg and DuckDB spell them.
_FILTERS = {
    "an item": ("item = 77",) * 3,
    "no item": ("item = 40000000000",) * 3,
    "a range of items": ("item >= 500 AND item < 520",) * 3,
    "a key": ("k = 'k5'",) * 3,
    "keys": ("k IN ('k5', 'k6', 'none')",) * 3,
    "null keys": ("k IS NULL AND item < 60",) * 3,
    "a day": ("day = '2026-01-02' AND item < 60",) * 3,
    "other days": ("day <> '2026-01-02' AND item < 60",) * 3,
    "a key of a day": ("k = 'k5' AND day > '2026-01-02'",) * 3,
    "truth": ("yes = true AND item < 60",) * 3,
    "the largest long": ("l = 9223372036854775807",) * 3,
    "the smallest int": ("i <= -2147483648",) * 3,
    "negative floats": ("f < 0",) * 3,
    "nan": ("isnan(d)", "d IS NAN", "isnan(d)"),
    "nans of a day": ("isnan(zero) AND item < 60", "zero IS NAN AND item < 60", "isnan(zero) AND item < 60"),
    "no number": ("zero IS NULL AND item < 60",) * 3,
    "below zero": ("zero < 0.0",) * 3,
    "a decimal": ("cents = -1.50", "cents = '-1.50'", "cents = -1.50"),
    "small decimals": ("mid < 0", "mid < '0.000000'", "mid < 0"),
    "before the epoch": ("ts < '1970-01-01 00:00:00'", "ts < '1970-01-01T00:00:00'", "ts < '1970-01-01 00:00:00'"),
    "an instant": ("tz = '1969-12-31 12:00:00'", "tz = '1969-12-31T12:00:00+00:00'", "tz = '1969-12-31 12:00:00+00'"),
    "a text": ("s = '😀x'",) * 3,
    "an empty text": ("s = '' AND item < 200",) * 3,
    "a long text": (f"s = '{'long' * 40}' AND item < 900",) * 3,
    "texts above": ("s > '\uffff'",) * 3,
    "a prefix": ("s LIKE 'lo%'", "s LIKE 'lo%'", "s LIKE 'lo%'"),
    # Spark pushes this down as a text, and then finds no uuid, in its own tables neither.
    "a uuid": ("concat(id, '') = '7f000000-0000-0000-0000-00000000007f'", *("id = '7f000000-0000-0000-0000-00000000007f'",) * 2),
}  # fmt: skip


def fresh(jvm: Any, folder: Any) -> Lake:
    """A lake with a session of Spark of its own."""
    session = jvm.newSession()
    attach(session, folder, "default")
    session.sql("CREATE NAMESPACE default.ml")
    return Lake(session, folder)


@pytest.fixture(scope="module")
def typed(jvm: Any, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake with a table of all types, which three calls made."""
    lake = fresh(jvm, tmp_path_factory.mktemp("typed"))
    lake.stage(
        "ml.typed", some_rows(1500), "--key", "k", "--buckets", "3", "--partition", "day", "--sort", "item"
    )
    lake.sql(
        "ALTER TABLE default.ml.typed SET TBLPROPERTIES ("
        + ", ".join(
            f"'write.parquet.bloom-filter-enabled.column.{name}' = 'true'"
            for name in ("item", "k", "s", "l", "f", "id", "cents")
        )
        + ")"
    )
    for seed in (1, 2):
        lake.stage("ml.typed", some_rows(700, seed))
    lake.lists_of_structs = [some_rows(0).schema.get_field_index("items")]
    return lake


# spec: stage-90
def test_every_type(typed: Lake) -> None:
    """Spark, PyIceberg, DuckDB and Penstock read the rows that were staged."""
    typed.check("ml.typed", plain_rows(pa.concat_tables(pq.read_table(file) for file in typed.sources)))


# spec: stage-90
def test_filters(typed: Lake) -> None:
    """No filter loses rows by the bounds, page indexes and Bloom filters that were written."""
    read = typed.elsewhere("ml.typed", [(p, d) for _, p, d in _FILTERS.values()], typed.sources)
    pruned = 0
    for (name, (spark, _, _)), answer in zip(_FILTERS.items(), read, strict=True):
        want = answer["sources"]
        same(answer["pyiceberg"], typed.by_pyiceberg(want), f"{name}, PyIceberg")
        same(answer["duckdb"], want, f"{name}, DuckDB")
        same(typed.in_spark("ml.typed", spark), want, f"{name}, Spark")
        assert answer["count"] == typed.in_spark("ml.typed", spark, "count(*)")[0][0] == len(want), name
        assert bool(want) != (name in ("no item", "below zero")), name
        pruned += answer["files"] < read[0]["files"]
    assert pruned > 3
