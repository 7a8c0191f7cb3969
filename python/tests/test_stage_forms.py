"""The forms of rows that programs stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from server import Server
from stage_house import TABLE, House, batches, table

import penstock
from penstock.outgoing import Rows


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def client(house: House) -> Iterator[penstock.Client]:
    with Server(house.config) as server, penstock.connect(server.address, timeout=60) as client:
        yield client


def readers() -> dict[str, Callable[[], Any]]:
    """The same rows in every form."""
    rows = table()
    return {
        "table": lambda: rows,
        "batch": lambda: rows.to_batches()[0],
        "reader": lambda: rows.to_reader(),
        "dataset": lambda: ds.dataset(rows),
        "scanner": lambda: ds.dataset(rows).scanner(),
        "generator": lambda: batches(rows.slice(0, 4), rows.slice(4)),
        "tables": lambda: iter([rows.slice(0, 4), rows.slice(4)]),
        "function": lambda: lambda: batches(rows),
        "pandas": lambda: rows.to_pandas(),
        "pandas categories": lambda: rows.to_pandas().astype({"country": "category"}),
        "polars": lambda: pl.from_arrow(rows),
        "polars categories": lambda: pl.from_arrow(rows).with_columns(pl.col("country").cast(pl.Categorical)),
        "duckdb": lambda: duckdb.connect().from_arrow(rows),
        "dictionaries": lambda: rows.set_column(1, "country", rows["country"].dictionary_encode()),
        "empty batches of views": lambda: viewed(rows).to_reader(),
        "chunks": lambda: pa.concat_tables([rows.slice(0, 3), rows.slice(3)]),
    }


def viewed(rows: pa.Table) -> pa.Table:
    """The rows with texts as views, among batches that are slices without rows."""
    rows = rows.set_column(1, "country", rows["country"].cast(pa.string_view()))
    batch = rows.combine_chunks().to_batches()[0]
    return pa.Table.from_batches([batch.slice(3, 0), batch, batch.slice(2, 0)])


@pytest.mark.parametrize("form", readers())
def test_forms_of_rows(house: House, client: penstock.Client, form: str) -> None:
    """Anything that has Arrow batches can be sent.

    spec: stage-74
    """
    staged = client.stage(TABLE, readers()[form](), key=["id"], buckets=2)
    assert staged.rows == 10
    assert house.rows() == table().to_pylist()


def test_what_is_no_rows(client: penstock.Client) -> None:
    """Mistakes are refused before the server is asked.

    spec: stage-74
    """
    for data, says in {
        "rows": (1, "must be a pyarrow table"),
        "dict": ({"id": [1]}, "must be a pyarrow table"),
        "path": ("rows.parquet", "must be a pyarrow table"),
        "nothing": (iter([]), "has no batch"),
        "numbers": ([1, 2], "must be a pyarrow table"),
    }.values():
        with pytest.raises(penstock.Invalid, match=says) as failure:
            client.stage(TABLE, data)
        assert failure.value.token
    with pytest.raises(penstock.Invalid, match="is one name, not a list"):
        client.stage(TABLE, table(), key="id")
    with pytest.raises(penstock.Invalid, match="a batch has the schema"):
        client.stage(TABLE, iter([table(), pa.table({"id": ["x"]})]), key=["id"], buckets=2)


def test_large_batches_are_divided(house: House) -> None:
    """Batches beyond the limit of a message are sent in parts.

    spec: stage-75
    """
    long = "x" * 1000
    rows = pa.table({"id": pa.array(range(60_000), pa.int64()), "country": [long] * 60_000}).combine_chunks()
    assert rows.nbytes > 50 << 20
    seen: list[penstock.ChangeProgress] = []
    with Server(house.config, "--memory", "256MiB") as small, penstock.connect(small.address) as other:
        staged = other.stage(TABLE, rows, key=["id"], buckets=2, progress=seen.append)
        assert staged.rows == 60_000
        with pytest.raises(penstock.Invalid, match="a row has") as failure:
            other.stage(TABLE, pa.table({"id": [1], "country": ["x" * (3 << 20)]}))
        assert failure.value.token
    assert all(one.rows_read <= 60_000 for one in seen)
    assert house.snapshots() == 1


def test_datasets_of_local_files_are_read_a_little_ahead(tmp_path: Path) -> None:
    """While rows are sent, the next row groups of local files are in memory, and not a whole file."""
    rows, groups = 100_000, 20
    table = pa.table({"id": pa.array(range(rows), pa.int64())})
    for name in "abc":
        with pq.ParquetWriter(tmp_path / f"{name}.parquet", table.schema) as writer:
            for _ in range(groups):
                writer.write_table(table, row_group_size=rows)
    before, most, sent = pa.total_allocated_bytes(), 0, 0
    for batch in Rows(ds.dataset(tmp_path)).batches():
        most = max(most, pa.total_allocated_bytes() - before)
        sent += batch.num_rows
    assert sent == 3 * groups * rows
    assert most < groups * table.nbytes
