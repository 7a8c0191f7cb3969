"""UUIDs of tables in streams, as pyarrow, pandas, Polars and DuckDB read them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, NestedField, StructType, UUIDType
from server import Server

import penstock

IDS = [uuid.UUID(int=1 << 120 | n) for n in range(6)]


def column(ids: Sequence[uuid.UUID | None]) -> pa.Array:
    stored = pa.array([one and one.bytes for one in ids], pa.binary(16))
    return pa.ExtensionArray.from_storage(pa.uuid(), stored)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[penstock.Client]:
    """A client of a server with the dataset "users", whose tables were staged, and with "nested"."""
    catalog = SqlCatalog(
        "default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    catalog.create_namespace("features")
    kind = UUIDType()
    inner = StructType(NestedField(6, "id", kind, required=False))
    nested = catalog.create_table(
        "features.nested",
        Schema(
            NestedField(1, "row", LongType(), required=False),
            NestedField(2, "ids", ListType(4, kind, element_required=False), required=False),
            NestedField(3, "pair", inner, required=False),
        ),
    )
    pairs = pa.StructArray.from_arrays([pa.array([IDS[2].bytes], pa.binary(16))], ["id"])
    lists = pa.array([[IDS[0].bytes, IDS[1].bytes]], pa.list_(pa.binary(16)))
    arrow = nested.schema().as_arrow()
    rows = [
        pa.array([1], pa.int64()),
        lists.cast(arrow.field("ids").type),
        pairs.cast(arrow.field("pair").type),
    ]
    nested.append(pa.Table.from_arrays(rows, schema=arrow))
    config = tmp_path / "penstock.yaml"
    config.write_text(
        f"catalogs: {{default: {{type: sql, uri: 'sqlite:///{tmp_path}/catalog.db',"
        f" warehouse: 'file://{tmp_path}/warehouse', writes: {{namespaces: [features]}}}}}}\n"
        "datasets:\n"
        "  users: {training: {table: features.events}, key: [owner], staging: [{table: features.users}]}\n"
        "  nested: {training: {table: features.nested}, key: [row]}\n"
    )
    with Server(config) as server, penstock.connect(server.address, timeout=60) as client:
        events = pa.table({"owner": column([*IDS, None]), "n": pa.array(range(7), pa.int64())})
        client.stage("features.events", events, key=["owner"], buckets=4)
        users = pa.table({"owner": column(IDS[:3]), "friend": column([IDS[5], None, IDS[4]])})
        client.stage("features.users", users, key=["owner"], like="features.events")
        yield client


JOINED = [
    {"owner": one, "n": at, "friend": {0: IDS[5], 2: IDS[4]}.get(at)} for at, one in enumerate([*IDS, None])
]


@pytest.mark.parametrize("wire", ["plain", "indexed", "auto"])
def test_uuids_are_uuids(client: penstock.Client, wire: Any) -> None:
    """Keys and other columns have pyarrow's type of UUIDs, and so have columns inside.

    spec: wire-54
    """
    with client.read("users", wire=wire) as stream:
        found = pa.Table.from_batches([penstock.expand(batch) for batch in stream])
    assert found.schema.field("owner").type == pa.uuid()
    assert found.schema.field("friend").type == pa.uuid()
    assert sorted(found.to_pylist(), key=lambda row: row["n"]) == JOINED
    with client.read("nested", wire=wire) as stream:
        assert stream.schema.field("ids").type.value_type == pa.uuid()
        assert stream.schema.field("pair").type.field("id").type == pa.uuid()
        assert pa.Table.from_batches(stream).to_pylist() == [
            {"row": 1, "ids": [IDS[0], IDS[1]], "pair": {"id": IDS[2]}}
        ]
    with client.read("users", wire="grouped", batch_requests=4) as stream:
        assert stream.schema.field("owner").type == pa.uuid()
        assert stream.schema.field("friend").type == pa.uuid()


def test_other_libraries_read_uuids(client: penstock.Client) -> None:
    """DuckDB and pandas have UUIDs, and Polars their bytes.

    spec: wire-54
    """
    with client.read("users") as stream, duckdb.connect() as connection:
        assert stream  # DuckDB finds it by its name
        rows = connection.execute("FROM stream SELECT owner, n, friend ORDER BY n").fetchall()
    assert rows == [tuple(row.values()) for row in JOINED]
    stored = [
        {key: value.bytes if isinstance(value, uuid.UUID) else value for key, value in row.items()}
        for row in JOINED
    ]
    for frame in (client.read("users").to_polars(), pl.DataFrame(client.read("users"))):
        assert frame.sort("n").to_dicts() == stored
    pandas = client.read("users").to_pandas().sort_values("n")
    assert list(pandas["friend"])[:3] == [row["friend"] for row in JOINED[:3]]


def test_frames_with_uuids_are_staged(client: penstock.Client) -> None:
    """A stream's rows can be staged as they are, and so can UUIDs of DuckDB, which sends them as texts.

    spec: stage-74, stage-150
    """
    more = [uuid.uuid4() for _ in range(3)]
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE more (owner UUID, n BIGINT)")
        connection.executemany("INSERT INTO more VALUES (?, ?)", [(one, 9) for one in more])
        client.stage("features.events", connection.sql("FROM more"))
    with client.read("users", filter="n = 9") as stream:
        assert {row["owner"] for row in pa.Table.from_batches(stream).to_pylist()} == set(more)
    with client.read("users") as stream:
        copied = client.stage("features.copy", stream, key=["owner"], buckets=2)
    assert copied.rows == len(JOINED) + len(more)
