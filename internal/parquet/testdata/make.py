"""Writes files of this folder that pyarrow can write and arrow-go cannot.

Page checksums, a stored Arrow schema with other types than the table's, page
versions, delta encodings; lists as pyarrow lays them out. Run with pyarrow: python make.py
"""

import datetime as dt
import decimal

import pyarrow as pa
import pyarrow.parquet as pq


def field(name, kind, number, nullable=True):
    return pa.field(name, kind, nullable=nullable, metadata={"PARQUET:field_id": str(number)})


rows = range(300)
table = pa.table(
    {
        "id": pa.array(rows, pa.int64()),
        "s": pa.array([None if i % 7 == 0 else f"row {i % 20}" for i in rows], pa.large_string()),
        "l": pa.array([None if i % 5 == 0 else list(range(i % 4)) for i in rows], pa.large_list(pa.int64())),
        "d": pa.array([f"k{i % 3}" for i in rows]).dictionary_encode(),
    },
    schema=pa.schema(
        [
            field("id", pa.int64(), 1, nullable=False),
            field("s", pa.large_string(), 2),
            field("l", pa.large_list(field("element", pa.int64(), 5)), 3),
            field("d", pa.dictionary(pa.int32(), pa.string()), 4),
        ]
    ),
)
for version in ("1.0", "2.0"):
    pq.write_table(
        table,
        f"checksums-{version[0]}.parquet",
        row_group_size=150,
        data_page_version=version,
        data_page_size=256,
        write_batch_size=32,
        write_page_checksum=True,
        compression="zstd",
        use_dictionary=["d"],
    )
pq.write_table(
    table,
    "delta-2.parquet",
    row_group_size=150,
    data_page_version="2.0",
    data_page_size=256,
    write_batch_size=32,
    write_page_checksum=True,
    compression="none",
    use_dictionary=False,
    column_encoding={
        "id": "DELTA_BINARY_PACKED",
        "s": "DELTA_LENGTH_BYTE_ARRAY",
        "l.list.element": "DELTA_BINARY_PACKED",
        "d": "DELTA_BYTE_ARRAY",
    },
)

lists = pa.table(
    {
        "history": [
            None if i % 7 == 0 else [None if (i + j) % 11 == 0 else i * j % 50 for j in range(i % 60)]
            for i in range(400)
        ],
        "embedding": [[i * j / 2 for j in range(16)] for i in range(400)],
    },
    schema=pa.schema(
        [
            field("history", pa.list_(field("element", pa.int64(), 3)), 1),
            field(
                "embedding", pa.list_(field("element", pa.float32(), 4, nullable=False)), 2, nullable=False
            ),
        ]
    ),
)
for version in ("1.0", "2.0"):
    pq.write_table(
        lists,
        f"lists-{version[0]}.parquet",
        row_group_size=150,
        data_page_version=version,
        data_page_size=512,
        write_batch_size=32,
        compression="zstd",
        use_dictionary=["history.list.element"],
    )
pq.write_table(table.slice(0, 0), "empty.parquet", compression="zstd")
nulls = pa.table({"s": pa.array([None] * 50, pa.string())}, schema=pa.schema([field("s", pa.string(), 1)]))
for version in ("1.0", "2.0"):
    pq.write_table(nulls, f"nulls-{version[0]}.parquet", data_page_version=version, compression="brotli")

# Encodings of parquet-mr's second version and of new writers, without checksums.
split = pa.table(
    {
        "fixed": [bytes([i % 7, i % 3, 9, i % 256, 1]) for i in rows],
        "large": pa.array([None if i % 7 == 0 else i * 10**20 for i in rows], pa.decimal128(38, 4)),
        "list": pa.array(
            [None if i % 5 == 0 else [i * j for j in range(i % 4)] for i in rows],
            pa.list_(pa.decimal128(20, 2)),
        ),
        "double": [None if i % 9 == 0 else i / 4 for i in rows],
        "int": pa.array(rows, pa.int32()),
    },
    schema=pa.schema(
        [
            field("fixed", pa.binary(5), 1, nullable=False),
            field("large", pa.decimal128(38, 4), 2),
            field("list", pa.list_(field("element", pa.decimal128(20, 2), 6)), 3),
            field("double", pa.float64(), 4),
            field("int", pa.int32(), 5, nullable=False),
        ]
    ),
)
for version in ("1.0", "2.0"):
    pq.write_table(
        split,
        f"split-{version[0]}.parquet",
        row_group_size=150,
        data_page_version=version,
        data_page_size=512,
        write_batch_size=32,
        compression="none",
        use_dictionary=False,
        column_encoding={
            "fixed": "DELTA_BYTE_ARRAY",
            "large": "DELTA_BYTE_ARRAY",
            "list.list.element": "DELTA_BYTE_ARRAY",
            "double": "BYTE_STREAM_SPLIT",
            "int": "BYTE_STREAM_SPLIT",
        },
    )

# Pages with an index, in which every type has bounds.
stamps = [dt.datetime(1970, 1, 1) + dt.timedelta(hours=(i * 37 % 300) - 150, microseconds=i) for i in rows]
kinds = [
    ("bool", pa.bool_(), [i % 300 > 100 for i in rows]),
    ("int", pa.int32(), [i * 37 % 300 - 100 for i in rows]),
    ("long", pa.int64(), [(i * 37 % 300 - 100) * 10**15 for i in rows]),
    ("float", pa.float32(), [(i * 37 % 300 - 100) / 4 for i in rows]),
    ("double", pa.float64(), [(i * 37 % 300) / 8 for i in rows]),
    ("string", pa.string(), [f"{i * 37 % 300:03d}" for i in rows]),
    ("binary", pa.binary(), [bytes([i * 37 % 256]) for i in rows]),
    ("fixed", pa.binary(2), [bytes([i % 200, i % 7]) for i in rows]),
    ("small", pa.decimal128(9, 2), [decimal.Decimal(i * 37 % 300 - 100).scaleb(-2) for i in rows]),
    (
        "large",
        pa.decimal128(38, 4),
        [decimal.Decimal((i * 37 % 300 - 100) * 10**20).scaleb(-4) for i in rows],
    ),
    ("date", pa.date32(), [at.date() for at in stamps]),
    ("time", pa.time64("us"), [at.time() for at in stamps]),
    ("millis", pa.timestamp("ms", tz="UTC"), [at.replace(microsecond=0) for at in stamps]),
    ("micros", pa.timestamp("us"), stamps),
    ("nanos", pa.timestamp("ns"), stamps),
]
indexed = pa.table(
    {
        name: pa.array([None if i % 9 == 0 else v for i, v in enumerate(values)], kind)
        for name, kind, values in kinds
    }
    | {
        "nan": [float("nan") if i == 5 else float(i) for i in rows],
        "null": pa.array([None] * len(rows), pa.int32()),
    },
    schema=pa.schema(
        [field(name, kind, i + 1) for i, (name, kind, _) in enumerate(kinds)]
        + [field("nan", pa.float64(), 16), field("null", pa.int32(), 17)]
    ),
)
pq.write_table(
    indexed,
    "index-2.parquet",
    row_group_size=150,
    data_page_version="2.0",
    data_page_size=128,
    write_batch_size=16,
    compression="zstd",
    write_page_index=True,
)

# As tools write that know no Iceberg: without field ids, and elements have a name of their own.
without_ids = pa.table(
    {
        "l": pa.array([[1, None], None, []], pa.list_(pa.int64())),
        "m": pa.array([[("a", 1)], None, [("b", None)]], pa.map_(pa.string(), pa.int64())),
        "s": pa.array(
            [{"x": [{"y": 5}]}, None, {"x": None}],
            pa.struct([("x", pa.list_(pa.struct([("y", pa.int64())])))]),
        ),
    }
)
pq.write_table(
    without_ids,
    "without-ids.parquet",
    use_compliant_nested_type=False,
    store_schema=False,
    compression="none",
)
