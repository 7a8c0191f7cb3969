"""The examples that need torch, as a user runs them, beside the same in plain terms."""

from __future__ import annotations

import importlib.util
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lake import Lake
from pyiceberg.types import IntegerType, ListType, LongType
from server import Server

import penstock

EXAMPLES = Path(__file__).parents[2] / "examples"
ROWS, REQUESTS = 3000, 200


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    rng = random.Random(2)
    made = Lake(tmp_path_factory.mktemp("towers"))
    ids = ListType(element_id=900, element_type=LongType(), element_required=False)
    shown: dict[str, Any] = {"request_id": LongType(), "item_id": LongType(), "label": IntegerType()}
    rows = [
        {"request_id": i * REQUESTS // ROWS, "item_id": rng.randrange(500), "label": int(rng.random() < 0.2)}
        for i in range(ROWS)
    ]
    histories = [
        {"request_id": i, "history": [rng.randrange(500) for _ in range(rng.randrange(30))]}
        for i in range(REQUESTS)
        if i % 9
    ]
    made.write("ml.shown", shown, ("request_id", 4), rows)
    made.write("features.users", {"request_id": LongType(), "history": ids}, ("request_id", 8), histories)
    staging = [{"table": "features.users", "name": "features"}]
    dataset = {"training": {"table": "ml.shown"}, "key": ["request_id"], "staging": staging}
    with Server(made.config({"homefeed": dataset})) as server:
        yield server.address


def test_the_model_learns_from_each_history_once(address: str) -> None:
    command = [sys.executable, str(EXAMPLES / "deduplicated_model.py"), address, "homefeed", "features"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    steps = re.findall(r"^step \d+: loss ([\d.]+), (\d+) histories for (\d+) rows$", ran.stdout, re.MULTILINE)
    assert len(steps) == len(ran.stdout.splitlines()) == 3
    losses, histories, rows = zip(*((float(a), int(b), int(c)) for a, b, c in steps), strict=True)
    assert all(0 < loss < 10 for loss in losses)
    assert sum(rows) == ROWS
    # One for each request with a history, one more of nothing in each batch, and those that two batches share.
    known = sum(1 for i in range(REQUESTS) if i % 9)
    assert known <= sum(histories) <= known + 3 + 2


def test_loss_and_gradients_are_those_of_the_plain_batch(address: str) -> None:
    spec = importlib.util.spec_from_file_location("deduplicated_model", EXAMPLES / "deduplicated_model.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    torch.manual_seed(1)
    model = example.TwoTowers("features").double()
    seen: dict[str, Any] = {}
    for wire in ("indexed", "plain"):
        with (
            penstock.connect(address) as client,
            client.read("homefeed", columns=example.COLUMNS, wire=wire, batch_rows=500) as stream,
        ):
            batch = example.converter(stream)(next(iter(stream)))
        scores = (
            model(batch)
            if wire == "indexed"
            else model.scores(model.users(batch["history"]), batch["item_id"])
        )
        model.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, batch["label"].double())
        loss.backward()
        seen[wire] = [scores.detach(), loss.detach(), *(p.grad.clone() for p in model.parameters())]
    for one, other in zip(seen["indexed"], seen["plain"], strict=True):
        torch.testing.assert_close(one, other)
