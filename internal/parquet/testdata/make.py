"""Writes the files of this folder: what pyarrow writes and arrow-go cannot.

Page checksums, a stored Arrow schema with other types than the table's, page
versions, delta encodings; lists as pyarrow lays them out. Run with pyarrow: python make.py
"""

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
            field("embedding", pa.list_(field("element", pa.float32(), 4, nullable=False)), 2, nullable=False),
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
        "list": pa.array([None if i % 5 == 0 else [i * j for j in range(i % 4)] for i in rows], pa.list_(pa.decimal128(20, 2))),
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
