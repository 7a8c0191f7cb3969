"""Writes a file for every encoding, codec and page version, with columns of every type and nesting.

Each is named FORM-CODEC-VERSION.parquet; rows.arrow beside them has the rows, which pyarrow
finds in every one. Run with pyarrow: python matrix.py FOLDER [CODEC ...], by default of all codecs
in turn; "all" is every codec with every form.
"""

import datetime as dt
import decimal
import itertools
import math
import pathlib
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 150
CODECS = ("none", "snappy", "gzip", "zstd", "brotli", "lz4")
EPOCH = dt.datetime(1970, 1, 1)

Make = Callable[[random.Random], Any]


def decimals(digits: int, scale: int) -> Make:
    """Make numbers of a number of digits, some of them small."""
    most = 10**digits - 1
    return lambda r: decimal.Decimal(r.choice([r.randint(-most, most), r.randint(-9, 9)])).scaleb(-scale)


def instants(r: random.Random) -> dt.datetime:
    """Return a random microsecond in the years 1 to 9999."""
    return EPOCH + dt.timedelta(microseconds=r.randint(-62135596800 * 10**6, 253402300799 * 10**6))


TYPES: dict[str, tuple[pa.DataType, Make]] = {
    "bool": (pa.bool_(), lambda r: r.random() < 0.3),
    "int32": (pa.int32(), lambda r: r.choice([r.randint(-(2**31), 2**31 - 1), r.randint(0, 5)])),
    "int64": (pa.int64(), lambda r: r.choice([r.randint(-(2**63), 2**63 - 1), r.randint(0, 5)])),
    "float": (pa.float32(), lambda r: r.choice([0.5, -0.0, math.inf, r.randint(-1000, 1000) / 8])),
    "double": (pa.float64(), lambda r: r.choice([0.5, -0.0, -math.inf, r.random()])),
    "string": (
        pa.string(),
        lambda r: r.choice(["", "ä", "row", "x" * r.randint(0, 40), f"common {r.randint(0, 99)}"]),
    ),
    "binary": (pa.binary(), lambda r: r.randbytes(r.randint(0, 9))),
    "fixed": (pa.binary(3), lambda r: r.choice([b"abc", b"abd", r.randbytes(3)])),
    "uuid": (pa.binary(16), lambda r: r.choice([bytes(16), r.randbytes(16)])),
    "decimal9": (pa.decimal128(9, 2), decimals(9, 2)),
    "decimal18": (pa.decimal128(18, 4), decimals(18, 4)),
    "decimal38": (pa.decimal128(38, 10), decimals(38, 10)),
    "date": (pa.date32(), lambda r: instants(r).date()),
    "time": (pa.time64("us"), lambda r: instants(r).time()),
    "stamp": (pa.timestamp("us"), instants),
    "stamptz": (pa.timestamp("us", tz="UTC"), instants),
    "nanos": (pa.timestamp("ns"), lambda r: r.randint(-(2**63) + 1, 2**63 - 1)),
}

# Encodings of types in each form; other types are plain.
DELTA = {
    "int32": "DELTA_BINARY_PACKED",
    "int64": "DELTA_BINARY_PACKED",
    "date": "DELTA_BINARY_PACKED",
    "time": "DELTA_BINARY_PACKED",
    "stamp": "DELTA_BINARY_PACKED",
    "stamptz": "DELTA_BINARY_PACKED",
    "nanos": "DELTA_BINARY_PACKED",
    "string": "DELTA_BYTE_ARRAY",
    "binary": "DELTA_LENGTH_BYTE_ARRAY",
    "fixed": "DELTA_BYTE_ARRAY",
    "uuid": "DELTA_BYTE_ARRAY",
    "decimal9": "DELTA_BYTE_ARRAY",
    "decimal18": "DELTA_BYTE_ARRAY",
    "decimal38": "DELTA_BYTE_ARRAY",
    "bool": "RLE",
}
SPLIT = {name: "BYTE_STREAM_SPLIT" for name in TYPES if name not in ("bool", "string", "binary")} | {
    "string": "DELTA_LENGTH_BYTE_ARRAY",
    "binary": "DELTA_BYTE_ARRAY",
}
INTEGERS = DELTA | {"decimal9": "DELTA_BINARY_PACKED", "decimal18": "DELTA_BINARY_PACKED"}
FORMS: dict[str, dict[str, Any]] = {
    "plain": {"use_dictionary": False},
    "dictionary": {"use_dictionary": True},
    "fallback": {"use_dictionary": True, "dictionary_pagesize_limit": 64},
    "delta": {"encodings": DELTA},
    "split": {"encodings": SPLIT},
    "integers": {"encodings": INTEGERS, "store_decimal_as_integer": True},
    "splitintegers": {"encodings": SPLIT, "store_decimal_as_integer": True},
}


def nestings(
    kind: pa.DataType, null: bool
) -> Iterator[tuple[str, pa.DataType, str, Callable[[random.Random, Make], Any]]]:
    """Return the name, type, path to the values and value maker of each nesting."""
    element = pa.field("element", kind, nullable=null)
    inner = pa.field("x", kind, nullable=null)
    struct = pa.struct([inner])

    def many(r: random.Random, make: Make) -> list[Any]:
        return [make(r) for _ in range(r.choice([0, 1, 2, 7]))]

    yield "flat", kind, "", lambda r, make: make(r)
    yield "list", pa.list_(element), ".list.element", many
    yield "struct", struct, ".x", lambda r, make: {"x": make(r)}
    structs = pa.list_(pa.field("element", struct, nullable=null))
    yield "structs", structs, ".list.element.x", lambda r, make: [{"x": v} for v in many(r, make)]
    lists = pa.list_(pa.field("element", pa.list_(element), nullable=null))
    yield (
        "lists",
        lists,
        ".list.element.list.element",
        lambda r, make: [many(r, make) for _ in range(r.randint(0, 2))],
    )
    pairs = pa.map_(pa.string(), pa.field("value", kind, nullable=null))
    yield (
        "map",
        pairs,
        ".key_value.value",
        lambda r, make: [(f"k{i}", v) for i, v in enumerate(many(r, make))],
    )


def columns() -> tuple[pa.Table, dict[str, str]]:
    """Return the table, and the type of the values at each path."""
    r = random.Random(13)
    fields, arrays, paths = [], [], {}
    for (name, (kind, make)), null in itertools.product(TYPES.items(), (False, True)):
        for nesting, of, path, values in nestings(kind, null):
            column = f"{name}_{nesting}_{'null' if null else 'required'}"

            def one(r: random.Random, make: Make = make, null: bool = null) -> Any:
                return None if null and r.random() < 0.2 else make(r)

            rows = [None if null and r.random() < 0.1 else values(r, one) for _ in range(ROWS)]
            field_id = str(len(fields) + 1)
            fields.append(pa.field(column, of, nullable=null, metadata={"PARQUET:field_id": field_id}))
            arrays.append(pa.array(rows, of))
            paths[column + path] = name
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields)), paths


def write(
    folder: pathlib.Path, table: pa.Table, paths: dict[str, str], form: str, codec: str, version: int
) -> None:
    """Write a file, and check that pyarrow reads the same rows."""
    options = dict(FORMS[form])
    encodings = options.pop("encodings", None)
    if encodings is not None:
        options["use_dictionary"] = False
        options["column_encoding"] = {path: encodings.get(name, "PLAIN") for path, name in paths.items()}
        options["column_encoding"] |= {
            path.removesuffix("value") + "key": "DELTA_BYTE_ARRAY"
            for path in paths
            if path.endswith("key_value.value")
        }
    name = folder / f"{form}-{codec}-{version}.parquet"
    pq.write_table(
        table,
        name,
        compression=codec,
        data_page_version=f"{version}.0",
        row_group_size=100,
        data_page_size=400,
        write_batch_size=16,
        write_page_index=version == 2,
        write_page_checksum=version == 1,
        store_schema=False,
        **options,
    )
    if not pq.read_table(name).cast(table.schema).equals(table):  # the original type
        raise SystemExit(f"pyarrow reads other rows of {name}")


def main() -> None:
    """Write the requested files."""
    folder = pathlib.Path(sys.argv[1])
    table, paths = columns()
    # As read back: fields of null structs are null.
    write(folder, table, paths, "plain", "none", 1)
    back = pq.read_table(folder / "plain-none-1.parquet").cast(table.schema).combine_chunks()
    with pa.ipc.new_file(folder / "rows.arrow", table.schema) as out:
        out.write_table(back)
    forms = list(itertools.product(FORMS, (1, 2)))
    if sys.argv[2:] == ["all"]:
        for (form, version), codec in itertools.product(forms, CODECS):
            write(folder, table, paths, form, codec, version)
        return
    for (form, version), codec in zip(forms, itertools.cycle(CODECS), strict=False):
        write(folder, table, paths, form, codec, version)


if __name__ == "__main__":
    main()
