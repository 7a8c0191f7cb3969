"""Writes the files spark-*.parquet of this folder: what parquet-mr writes and pyarrow cannot.

Timestamps as INT96, lists of two levels, Hadoop's framing of LZ4, fixed-length bytes as
deltas. Tests know the values by these formulas. Run with PySpark 4: python make_spark.py
"""

import datetime as dt
import decimal
import pathlib
import shutil
import sys
import tempfile
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

ROWS = 200
UTC = dt.UTC

# Instants of 12:34:56.789012 or of midnight, in every kind of year.
INSTANTS = [
    dt.datetime(1, 1, 1, tzinfo=UTC),
    dt.datetime(4, 2, 29, 23, 59, 59, 999999, tzinfo=UTC),
    dt.datetime(1582, 10, 10, 12, tzinfo=UTC),
    dt.datetime(1677, 9, 21, 0, 12, 43, 145223, tzinfo=UTC),
    dt.datetime(1900, 3, 1, 12, 34, 56, 789012, tzinfo=UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    dt.datetime(1970, 1, 1, tzinfo=UTC),
    dt.datetime(2024, 2, 29, 12, 34, 56, 789012, tzinfo=UTC),
    dt.datetime(2262, 4, 11, 23, 47, 16, 854776, tzinfo=UTC),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
]


def numbered(name: str, kind: t.DataType, field_id: int, nullable: bool = True) -> t.StructField:
    """Make a field with an Iceberg field id."""
    return t.StructField(name, kind, nullable, {"parquet.field.id": field_id})


def some(i: int, value: Any) -> Any:
    """Return the value, or None in every seventh row."""
    return None if i % 7 == 0 else value


def int96(spark: SparkSession) -> DataFrame:
    """Make timestamps, top-level and nested; column few has a dictionary."""
    kind = t.StructType(
        [
            numbered("at", t.TimestampType(), 1),
            numbered("few", t.TimestampType(), 2, nullable=False),
            numbered("inner", t.StructType([numbered("at", t.TimestampType(), 4)]), 3),
            numbered("list", t.ArrayType(t.TimestampType()), 5),
            numbered("map", t.MapType(t.StringType(), t.TimestampType()), 6),
        ]
    )
    rows = []
    for i in range(ROWS):
        at = INSTANTS[i % len(INSTANTS)]
        other = dt.datetime(1999, 1, 1, tzinfo=UTC) + dt.timedelta(days=i, microseconds=i)
        rows.append(
            (
                some(i, at if i % 2 else other),
                INSTANTS[i % 3],
                some(i, (None if i % 3 == 0 else at,)),
                some(i, [None if j == 1 else other for j in range(i % 4)]),
                some(i, {f"k{j}": other for j in range(i % 3)}),
            )
        )
    return spark.createDataFrame(rows, kind)


def lists(spark: SparkSession) -> DataFrame:
    """Make lists; those without null elements have two levels in the legacy form."""

    def array(kind: t.DataType) -> t.ArrayType:
        return t.ArrayType(kind, containsNull=False)

    pair = t.StructType([numbered("a", t.IntegerType(), 21), numbered("b", t.StringType(), 22)])
    single = t.StructType([numbered("only", t.LongType(), 23)])
    kind = t.StructType(
        [
            numbered("ints", array(t.IntegerType()), 1),
            numbered("texts", array(t.StringType()), 2),
            numbered("pairs", array(pair), 3),
            numbered("singles", array(single), 4),
            numbered("nested", array(array(t.LongType())), 5),
            numbered("bags", t.ArrayType(t.IntegerType(), containsNull=True), 6),
            numbered("maps", t.MapType(t.StringType(), array(t.IntegerType())), 7),
            numbered("price", t.DecimalType(9, 2), 8),
            numbered("required", array(t.DoubleType()), 9, nullable=False),
        ]
    )
    rows = []
    for i in range(ROWS):
        n = i % 4
        rows.append(
            (
                some(i, [i + j for j in range(n)]),
                some(i, [f"t{i + j}" for j in range(n)]),
                some(i, [(i, None if j == 1 else f"b{j}") for j in range(n)]),
                some(i, [(None if j == 1 else i * j,) for j in range(n)]),
                some(i, [[i * 10 + k for k in range(j)] for j in range(n)]),
                some(i, [None if j == 1 else j for j in range(n)]),
                some(i, {f"k{j}": list(range(j)) for j in range(n)}),
                some(i, decimal.Decimal(i * 101 - 5000) / 100),
                [j / 2 for j in range(n)],
            )
        )
    return spark.createDataFrame(rows, kind)


def encodings(spark: SparkSession) -> DataFrame:
    """Use each encoding of parquet-mr's version 2 pages, with decimals as fixed-length bytes."""
    inner = t.StructType([numbered("large", t.DecimalType(30, 4), 11)])
    kind = t.StructType(
        [
            numbered("int", t.IntegerType(), 1),
            numbered("long", t.LongType(), 2, nullable=False),
            numbered("text", t.StringType(), 3),
            numbered("large", t.DecimalType(38, 4), 4),
            numbered("flag", t.BooleanType(), 5),
            numbered("double", t.DoubleType(), 6),
            numbered("inner", inner, 7),
            numbered("list", t.ArrayType(t.DecimalType(20, 2)), 8),
            numbered("required", t.DecimalType(25, 1), 9, nullable=False),
            numbered("long text", t.StringType(), 10),
        ]
    )
    rows = []
    for i in range(ROWS):
        large = decimal.Decimal(i * 10**20 - 10**22).scaleb(-4)
        rows.append(
            (
                some(i, i * 3 - 100),
                i * 10**12,
                some(i, f"row {i}"),
                some(i, large),
                some(i, i % 3 == 0),
                some(i, i / 4),
                some(i, (None if i % 5 == 0 else large,)),
                some(i, [None if j == 1 else decimal.Decimal(i * j - 7).scaleb(-2) for j in range(i % 4)]),
                decimal.Decimal(i * 10**18 + 5).scaleb(-1),
                f"{i % 10}" * 4000,
            )
        )
    return spark.createDataFrame(rows, kind)


BLOOM = ("int", "long", "text", "bytes", "price", "large", "day", "at", "inner.key")


def bloom(spark: SparkSession) -> DataFrame:
    """Make values that statistics cannot prune: row i has key(i), which is even, in each type."""
    kind = t.StructType(
        [
            numbered("int", t.IntegerType(), 1),
            numbered("long", t.LongType(), 2),
            numbered("text", t.StringType(), 3),
            numbered("bytes", t.BinaryType(), 4),
            numbered("price", t.DecimalType(9, 2), 5),
            numbered("large", t.DecimalType(30, 4), 6),
            numbered("day", t.DateType(), 7),
            numbered("at", t.TimestampType(), 8),
            numbered("inner", t.StructType([numbered("key", t.LongType(), 10)]), 9),
            numbered("row", t.IntegerType(), 11),
        ]
    )
    rows = []
    for i in range(ROWS):
        key = i * 7919 % 1000 * 2 - 1000
        values = (
            key,
            key * 10**12,
            f"key {key}",
            str(key).encode(),
            decimal.Decimal(key).scaleb(-2),
            decimal.Decimal(key * 10**20).scaleb(-4),
            dt.date(1970, 1, 1) + dt.timedelta(days=key),
            dt.datetime(1970, 1, 1, tzinfo=UTC) + dt.timedelta(hours=key, microseconds=key),
            (key,),
            i,
        )
        rows.append(tuple(None if i % 7 == 0 and n < 9 else v for n, v in enumerate(values)))
    return spark.createDataFrame(rows, kind)


def long_texts(spark: SparkSession) -> DataFrame:
    """Make strings that are too long for the statistics in a footer."""
    kind = t.StructType([numbered("long", t.StringType(), 1), numbered("row", t.IntegerType(), 2)])
    rows = [(None if i % 50 == 3 else f"{i:03d}" + "x" * 5000, i) for i in range(ROWS)]
    return spark.createDataFrame(rows, kind)


def save(frame: DataFrame, name: str, **options: str) -> None:
    """Write a frame to a file in this folder."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        writer = frame.coalesce(1).write
        for key, value in options.items():
            writer = writer.option(key.replace("__", "."), value)
        writer.parquet(str(out))
        (part,) = out.glob("part-*.parquet")
        shutil.copyfile(part, pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".") / name)


def main() -> None:
    """Write all files."""
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.int96RebaseModeInWrite", "CORRECTED")
        .config("spark.sql.parquet.outputTimestampType", "INT96")
        .getOrCreate()
    )
    small = {"parquet.block.size": "20000", "parquet.page.size": "2048", "parquet.page.row.count.limit": "64"}
    stamps, nested, many = int96(spark), lists(spark), encodings(spark)
    save(stamps, "spark-int96.parquet", compression="snappy", **small)
    save(stamps, "spark-int96-v2.parquet", compression="zstd", **{"parquet.writer.version": "v2"}, **small)
    filters = {f"parquet.bloom.filter.enabled#{c}": "true" for c in BLOOM}
    filters |= {f"parquet.bloom.filter.expected.ndv#{c}": "60" for c in BLOOM}
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    groups = {
        "parquet.block.size": "2000",
        "parquet.page.size.row.check.min": "10",
        "parquet.page.size.row.check.max": "10",
    }
    groups |= {"parquet.block.size.row.check.min": "10", "parquet.block.size.row.check.max": "10"}
    save(long_texts(spark), "spark-long.parquet", compression="zstd", **groups)
    save(bloom(spark), "spark-bloom.parquet", compression="zstd", **filters, **groups)
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    spark.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
    save(nested, "spark-legacy.parquet", compression="gzip")
    save(
        nested, "spark-legacy-v2.parquet", compression="lz4_raw", **{"parquet.writer.version": "v2"}, **small
    )
    save(many, "spark-lz4-v1.parquet", compression="lz4")
    for codec in ("lz4", "gzip"):  # pages that Hadoop frames as several blocks
        save(
            many,
            f"spark-{codec}-v2.parquet",
            compression=codec,
            **{
                "parquet.writer.version": "v2",
                "parquet.enable.dictionary": "false",
                "parquet.page.size": "2000000",
            },
        )
    save(
        many,
        "spark-fallback-v2.parquet",
        compression="zstd",
        **{
            "parquet.writer.version": "v2",
            "parquet.dictionary.page.size": "1024",
            "parquet.page.size": "1024",
        },
    )
    spark.stop()


if __name__ == "__main__":
    main()
