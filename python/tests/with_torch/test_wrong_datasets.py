"""Mistakes of new users of `IterableDataset`: each error names the argument, and what to write.

No server is needed: a mistake is refused where it is made, and not at the first batch.
"""

from __future__ import annotations

from typing import Any

import pytest

import penstock
from penstock.torch import IterableDataset

# What is written wrong, the argument that is named, and what the remedy says.
WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"shuffle": True}, "shuffle", 'order="shuffled", seed=1'),
    ({"seed": 7}, "seed", 'order="shuffled", seed=7'),
    ({"columns": "item"}, "columns", "columns=['item']"),
    ({"batch_rows": 8192.0}, "batch_rows", "batch_rows=8192"),
    ({"prefetch": 2.5}, "prefetch", "prefetch=2"),
    ({"prefetch": "2"}, "prefetch", "prefetch=2"),
    ({"epoch": 1}, "epoch", "set_epoch"),
    ({"rank": "0", "world": "2"}, "rank", "rank=0"),
    ({"shard": (0, 4)}, "shard", "rank= and world="),
]


@pytest.mark.parametrize(("fields", "named", "remedy"), WRONG)
def test_a_mistake_says_what_to_write(fields: dict[str, Any], named: str, remedy: str) -> None:
    with pytest.raises(penstock.Invalid) as caught:
        IterableDataset("127.0.0.1:1", "d", **fields)
    assert named in [fault.field for fault in caught.value.faults]
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("epoch", "remedy"), [("2", "set_epoch(2)"), (2.0, "set_epoch(2)"), (None, "set_epoch(1)")]
)
def test_an_epoch_is_a_whole_number(epoch: Any, remedy: str) -> None:
    ds = IterableDataset("127.0.0.1:1", "d")
    with pytest.raises(penstock.Invalid, match="epoch") as caught:
        ds.set_epoch(epoch)
    assert remedy in caught.value.remedy
    assert ds.epoch == 0
