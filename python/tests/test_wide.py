"""A table of very many columns: a query may name thousands of them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from lake import Lake
from pyiceberg.types import FloatType, IcebergType, LongType
from server import Server

import penstock

COLUMNS, ASKED, ROWS = 20_000, 5_000, 3


# spec: ticket-7
@pytest.mark.more
@pytest.mark.timeout(300)
def test_thousands_of_columns(tmp_path: Path) -> None:
    rng = random.Random(17)
    names = [f"feature_{rng.getrandbits(40):x}_{i}" for i in range(COLUMNS)]
    made = Lake(tmp_path / "lake")
    fields: dict[str, IcebergType] = {"request_id": LongType(), **dict.fromkeys(names, FloatType())}
    made.write(
        "ml.wide",
        fields,
        ("request_id", 2),
        [{"request_id": row, **{name: row + i for i, name in enumerate(names)}} for row in range(ROWS)],
    )
    asked = rng.sample(names, ASKED)
    place = {name: i for i, name in enumerate(names)}
    dataset = {"training": {"table": "ml.wide"}, "key": ["request_id"]}
    with Server(made.config({"wide": dataset})) as server, penstock.connect(server.address) as client:
        with client.read("wide", columns=["request_id", *asked]) as stream:
            found = stream.read_all()
        assert found.column_names == ["request_id", *asked]
        assert sorted(found["request_id"].to_pylist()) == list(range(ROWS))
        for row in found.to_pylist():
            first = row.pop("request_id")
            assert row == {name: first + place[name] for name in asked}
        with pytest.raises(penstock.Invalid, match="columns: the ticket takes"):
            client.read("wide", columns=names[:10_000]).read_all()
