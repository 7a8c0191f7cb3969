"""The blocks of docs/pytorch.md run unchanged, one after the other."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lake import Lake
from pyiceberg.types import FloatType, IntegerType, ListType, LongType, StringType
from server import Server

PAGE = Path(__file__).parents[3] / "docs" / "pytorch.md"
BLOCKS = 21


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    rng = random.Random(3)
    made = Lake(tmp_path_factory.mktemp("page"))
    texts = ListType(element_id=900, element_type=StringType(), element_required=False)
    ids = ListType(element_id=900, element_type=LongType(), element_required=False)
    shown: dict[str, Any] = {
        "request_id": LongType(),
        "item_id": LongType(),
        "price": FloatType(),
        "label": IntegerType(),
        "tags": texts,
    }
    rows = [
        {
            "request_id": i // 10,
            "item_id": rng.randrange(500),
            "price": rng.choice([None, 1.5]),
            "label": rng.choice([None, 0, 1]),
            "tags": rng.choice([None, [], ["a", "b"]]),
        }
        for i in range(1000)
    ]
    known = {"request_id": LongType(), "history": ids, "age": IntegerType(), "country": StringType()}
    features = [
        {"request_id": i, "history": [rng.randrange(500)] * 5, "age": i, "country": rng.choice(["de", "fr"])}
        for i in range(90)
    ]
    made.write("ml.shown", shown, ("request_id", 4), rows)
    made.write("features.known", known, ("request_id", 4), features)
    staging = [{"table": "features.known", "name": "features"}]
    dataset = {"training": {"table": "ml.shown"}, "key": ["request_id"], "staging": staging}
    with Server(made.config({"homefeed": dataset, "search": dataset})) as server:
        yield server.address


@pytest.mark.filterwarnings("ignore")  # the frameworks have many
def test_the_blocks_run(address: str) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == BLOCKS
    names: dict[str, Any] = {"address": address}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"{PAGE.name}, block {number}", "exec"), names)
    assert names["batch"].rows
