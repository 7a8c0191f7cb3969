"""Tables whose layout PyIceberg changed while they grew, and keys inside structs, against the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lake import Lake
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform
from pyiceberg.types import LongType, NestedField, StructType, TimestampType
from server import Server

import penstock

ROWS = 600
KEYS = 200


def _grown(lake: Lake) -> tuple[list[dict[str, Any]], dict[int, int]]:
    """Writes a training table of three specs, the last two by a key inside a struct, and a staging table."""
    user = StructType(NestedField(5, "id", LongType(), required=False))
    schema = Schema(
        NestedField(1, "item", LongType(), required=False),
        NestedField(2, "at", TimestampType(), required=False),
        NestedField(3, "user", user, required=False),
    )
    table = lake.catalog.create_table("ml.grown", schema, partition_spec=PartitionSpec())
    nested = table.schema().find_field("user.id").field_id
    arrow = schema_to_pyarrow(table.schema())
    rows = [
        {
            "item": i,
            "at": 1_790_000_000_000_000 + i * 3_600_000_000,
            "user": None if i % 17 == 0 else {"id": None if i % 19 == 0 else i * 7 % KEYS},
        }
        for i in range(ROWS)
    ]

    def append(part: int) -> None:
        chosen = [
            pa.array(
                [r[name] for r in rows[part * ROWS // 3 : (part + 1) * ROWS // 3]], arrow.field(name).type
            )
            for name in arrow.names
        ]
        table.append(pa.Table.from_arrays(chosen, schema=arrow))

    append(0)
    with table.update_spec() as update:
        update.add_field("user.id", BucketTransform(8), "user_bucket")
        update.add_field("at", DayTransform(), "day")
    append(1)
    with table.update_spec() as update:
        update.remove_field("user_bucket")
        update.add_field("user.id", BucketTransform(12), "user_twelve")
    append(2)
    features = Schema(
        NestedField(1, "uid", LongType(), required=False), NestedField(2, "score", LongType(), required=False)
    )
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(7), "uid_bucket"))
    staging = lake.catalog.create_table("features.users", features, partition_spec=spec)
    scores = {uid: uid * 3 for uid in range(0, KEYS, 2)}
    staging.append(
        pa.Table.from_pylist(
            [{"uid": u, "score": s} for u, s in scores.items()], schema_to_pyarrow(staging.schema())
        )
    )
    assert nested == table.schema().find_field("user.id").field_id
    return rows, scores


@pytest.fixture(scope="module")
def grown(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[penstock.Client, list[Any], dict[int, int]]]:
    lake = Lake(Path(tmp_path_factory.mktemp("grown")))
    rows, scores = _grown(lake)
    dataset = {
        "training": {"table": "ml.grown"},
        "key": ["user.id"],
        "staging": [{"table": "features.users", "key": {"user.id": "uid"}, "matched_as": "known"}],
    }
    with Server(lake.config({"grown": dataset})) as server, penstock.connect(server.address) as client:
        yield client, rows, scores


def test_every_row_finds_its_match(grown: tuple[penstock.Client, list[Any], dict[int, int]]) -> None:
    client, rows, scores = grown
    got = client.read("grown", columns=["item", "score", "known"]).to_reader().read_all().to_pylist()
    want = []
    for row in rows:
        uid = row["user"] and row["user"]["id"]
        want.append({"item": row["item"], "score": scores.get(uid), "known": uid in scores})
    assert sorted(got, key=lambda r: r["item"]) == want
    assert {r["known"] for r in want} == {True, False}


def test_sample_and_its_complement_cover_all_rows(
    grown: tuple[penstock.Client, list[Any], dict[int, int]],
) -> None:
    client, rows, _ = grown
    parts = [
        [
            r["item"]
            for b in client.read("grown", columns=["item"], sample={"hash": part})
            for r in b.to_pylist()
        ]
        for part in ([0, 0.25], [0.25, 0])
    ]
    assert all(parts)
    assert sorted(parts[0] + parts[1]) == [r["item"] for r in rows]


def test_explain_shows_how_rows_are_read(grown: tuple[penstock.Client, list[Any], dict[int, int]]) -> None:
    text = grown[0].explain("grown", splits=True)
    for words in ("bucket(8)", "bucket(12)", "bucket(7)"):
        assert words in text, text


def test_verify_finds_the_tables_sound(grown: tuple[penstock.Client, list[Any], dict[int, int]]) -> None:
    report = grown[0].verify("grown")
    assert not [found for found in report["findings"] if found["grade"] != "note"], report
