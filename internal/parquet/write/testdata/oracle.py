"""Reads the files of a folder and prints what PyIceberg's statistics of each are, as JSON.

N.parquet is a file under test, N.arrow the rows that it was written from. pyarrow and
DuckDB must read the same rows from both, and bounds must hold for all values.
"""

import json
import math
import pathlib
import struct
import sys
import uuid

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    pyarrow_to_schema,
)
from pyiceberg.types import BinaryType, DoubleType, FloatType, ListType, MapType, StringType, StructType


def plain(value):
    """Returns a value of which NaN equals NaN, and -0.0 differs from 0.0."""
    if isinstance(value, float):
        return struct.pack(">d", math.nan if math.isnan(value) else value)
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, tuple):
        return tuple(plain(v) for v in value)
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


def leaves(kind, field_id, values):
    """Yields the field id, Iceberg type and all values of each primitive field, without nulls."""
    values = [v for v in values if v is not None]
    if isinstance(kind, StructType):
        for f in kind.fields:
            yield from leaves(f.field_type, f.field_id, [v[f.name] for v in values])
    elif isinstance(kind, MapType):
        entries = [e for v in values for e in v]
        yield from leaves(kind.key_type, kind.key_id, [k for k, _ in entries])
        yield from leaves(kind.value_type, kind.value_id, [v for _, v in entries])
    elif isinstance(kind, ListType):
        yield from leaves(kind.element_type, kind.element_id, [e for v in values for e in v])
    else:
        yield field_id, kind, values


def describe(path):
    """Returns what the readers find in a file, after comparing their rows."""
    rows = pa.ipc.open_file(path.with_suffix(".arrow")).read_all()
    stored = pq.read_table(path)
    meta = pq.read_metadata(path)
    schema = pyarrow_to_schema(meta.schema.to_arrow_schema(), format_version=3)
    assert stored.num_rows == rows.num_rows, (stored.num_rows, rows.num_rows)
    for i, name in enumerate(rows.column_names):
        have, want = stored.column(i), rows.column(i)
        assert stored.column_names[i] == name
        assert plain(have.to_pylist()) == plain(want.to_pylist()), (path, name, want.type)
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    other = con.sql(f"SELECT * FROM read_parquet('{path}')").to_arrow_table()
    assert other.num_rows == rows.num_rows
    for i, name in enumerate(rows.column_names):
        want, have = rows.column(i), other.column(i)
        if not pa.types.is_nested(want.type) and not pa.types.is_fixed_size_binary(want.type):
            assert plain(have.cast(want.type).to_pylist()) == plain(want.to_pylist()), (path, "duckdb", name)

    stats = data_file_statistics_from_parquet_metadata(
        parquet_metadata=meta,
        stats_columns=compute_statistics_plan(schema, {}),
        parquet_column_mapping=parquet_path_to_id_mapping(schema),
    )
    known = stats.to_serialized_dict()
    exact = {}
    every = [
        leaf
        for i, f in enumerate(schema.fields)
        for leaf in leaves(f.field_type, f.field_id, rows.column(i).to_pylist())
    ]
    for field_id, kind, values in every:
        found = {"type": str(kind), "nans": -1, "values": len(values)}
        if isinstance(kind, (FloatType, DoubleType)):
            found["nans"] = sum(1 for v in values if math.isnan(v))
        elif isinstance(kind, (StringType, BinaryType)) and values:
            found["extremes"] = [
                v.encode().hex() if isinstance(v, str) else v.hex() for v in (min(values), max(values))
            ]
        exact[field_id] = found
    con.close()
    return {
        "rows": known["record_count"],
        "column_sizes": known["column_sizes"],
        "value_counts": known["value_counts"],
        "null_counts": known["null_value_counts"],
        "splits": known["split_offsets"],
        "lower": {k: v.hex() for k, v in known["lower_bounds"].items()},
        "upper": {k: v.hex() for k, v in known["upper_bounds"].items()},
        "exact": exact,
        "field_ids": sorted(parquet_path_to_id_mapping(schema).values()),
        "created_by": meta.created_by,
        "sorting": [
            [[c.column_index, c.descending, c.nulls_first] for c in meta.row_group(i).sorting_columns]
            for i in range(meta.num_row_groups)
        ],
        "indexed": all(
            meta.row_group(g).column(c).has_offset_index
            for g in range(meta.num_row_groups)
            for c in range(meta.num_columns)
        ),
        "logical": [str(meta.schema.column(i).logical_type) for i in range(meta.num_columns)],
    }


def main():
    """Describes each file of a folder."""
    out = {}
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.parquet")):
        out[path.stem] = describe(path)
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main()
