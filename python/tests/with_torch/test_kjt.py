"""Columns as a KeyedJaggedTensor, embedded by TorchRec, beside sums over the rows in plain Python."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
import torch
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection

from penstock.torch import Batch, Converter

IDS = 40
Row = dict[str, Any]

TRAINING = pa.schema(
    [
        pa.field("item", pa.int64(), nullable=False),
        pa.field("tags", pa.list_(pa.int32())),
        pa.field("score", pa.float32()),
    ]
)
FEATURES = {
    "history": pa.struct({"pins": pa.list_(pa.int64()), "country": pa.int16(), "age": pa.float64()}),
    "request": pa.struct({"query": pa.list_(pa.int64(), 3)}),
}
LISTS = ("item", "tags", "pins", "country", "query")


def ids(rng: random.Random, most: int) -> list[int]:
    return [rng.randrange(IDS) for _ in range(rng.randrange(most))]


def rows_of(rng: random.Random, count: int) -> tuple[list[Row], dict[str, tuple[list[Row], list[int]]]]:
    """Training rows, and of each level distinct rows and which of them each row has."""
    training = [
        {"item": rng.randrange(IDS), "tags": rng.choice([None, ids(rng, 5)]), "score": 0.5}
        for _ in range(count)
    ]
    history = [
        {"pins": rng.choice([None, ids(rng, 8)]), "country": rng.randrange(IDS), "age": 1.0}
        for _ in range(1 + count // 3)
    ]
    request = [{"query": [rng.randrange(IDS) for _ in range(3)]} for _ in range(1 + count // 7)]
    levels: dict[str, list[Row]] = {"history": history, "request": request}
    return training, {
        name: (distinct, [rng.randrange(len(distinct)) for _ in range(count)])
        for name, distinct in levels.items()
    }


def indexed(training: Sequence[Row], levels: Mapping[str, tuple[list[Row], list[int]]]) -> Batch:
    """The rows as an indexed batch has them."""
    batch = pa.RecordBatch.from_pylist(list(training), TRAINING)
    for name, (distinct, inverse) in levels.items():
        column = pa.DictionaryArray.from_arrays(
            pa.array(inverse, pa.int32()), pa.array(distinct, FEATURES[name])
        )
        batch = batch.append_column(name, column)
    nulls: Any = {"tags": "empty", "pins": "empty", "country": "error", "query": "error"}
    return Converter(batch.schema, nulls=nulls)(batch)


def as_list(value: Any) -> list[int]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def row_by_row(
    training: Sequence[Row], levels: Mapping[str, tuple[list[Row], list[int]]], key: str
) -> list[list[int]]:
    """The ids of a column in each row of the batch."""
    for distinct, inverse in levels.values():
        if key in distinct[0]:
            return [as_list(distinct[at][key]) for at in inverse]
    return [as_list(row[key]) for row in training]


KEYS = [["pins"], ["item"], ["tags", "item"], ["pins", "query"], ["item", "pins", "tags", "country", "query"]]


# spec: tensor-13
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("seed", range(3))
def test_torchrec_embedding_equals_the_sum_per_row(keys: list[str], seed: int) -> None:
    rng = random.Random(seed)
    training, levels = rows_of(rng, 50)
    batch = indexed(training, levels)
    torch.manual_seed(seed)
    module = EmbeddingBagCollection(
        tables=[
            EmbeddingBagConfig(name=f"t_{key}", embedding_dim=4, num_embeddings=IDS, feature_names=[key])
            for key in keys
        ]
    )
    weights = {key: module.embedding_bags[f"t_{key}"].weight.tolist() for key in keys}
    found = module(batch.to_kjt(keys)).to_dict()
    for key in keys:
        assert found[key].shape == (50, 4)
        for row, own in zip(found[key].tolist(), row_by_row(training, levels, key), strict=True):
            expected = [sum(weights[key][one][i] for one in own) for i in range(4)]
            assert row == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("keys", KEYS)
def test_kjt_values_are_those_of_the_distinct_rows(keys: list[str]) -> None:
    training, levels = rows_of(random.Random(7), 60)
    found = indexed(training, levels).to_kjt(keys)
    assert found.keys() == keys
    assert found.values().dtype == torch.int64
    by_key = found.to_dict()
    for at, key in enumerate(keys):
        distinct, inverse = training, list(range(60))
        for rows, taken in levels.values():
            if key in rows[0]:
                distinct, inverse = rows, taken
        lists = [as_list(row[key]) for row in distinct]
        assert by_key[key].lengths().tolist() == [len(one) for one in lists]
        assert by_key[key].values().tolist() == [one for some in lists for one in some]
        if found.inverse_indices_or_none() is not None:
            assert found.stride_per_key_per_rank()[at] == [len(distinct)]
            assert found.inverse_indices()[0] == keys
            assert found.inverse_indices()[1][at].tolist() == inverse
        else:
            assert inverse == list(range(60))
            assert found.stride() == 60


def test_a_plain_batch_has_no_inverse() -> None:
    training, levels = rows_of(random.Random(1), 20)
    batch = indexed(training, levels).expand()
    found = batch.to_kjt(LISTS)
    assert found.inverse_indices_or_none() is None
    assert found.stride() == 20
    for key in LISTS:
        own = row_by_row(training, levels, key)
        assert found[key].lengths().tolist() == [len(one) for one in own]
        assert found[key].values().tolist() == [one for some in own for one in some]


def test_unsupported_types_and_names_are_refused() -> None:
    batch = indexed(*rows_of(random.Random(1), 20))
    assert batch.to_kjt(["item", "tags"], dtype=torch.int32).values().dtype == torch.int32
    with pytest.raises(
        TypeError, match=r"'age' has type torch.float64, which cannot be converted to torch.int64"
    ):
        batch.to_kjt(["item", "age"])
    assert batch.to_kjt(["age", "item"], dtype=torch.float32).values().dtype == torch.float32
    with pytest.raises(KeyError, match="nobody"):
        batch.to_kjt(["nobody"])
    with pytest.raises(KeyError, match="history"):
        batch.to_kjt(["history"])
    with pytest.raises(ValueError, match="at least one column"):
        batch.to_kjt([])
    batch["item"] = batch["item"] + 2**31
    with pytest.raises(TypeError, match=r"'item' contains \d+, which exceeds torch.int32"):
        batch.to_kjt(["item"], dtype=torch.int32)
    batch["item"] = -batch["item"]
    with pytest.raises(TypeError, match=r"'item' contains -\d+, which exceeds torch.int32"):
        batch.to_kjt(["item"], dtype=torch.int32)


def test_batches_without_rows() -> None:
    batch = indexed([], {"history": ([], []), "request": ([], [])})
    found = batch.to_kjt(LISTS)
    assert found.values().shape == (0,)
    assert found.inverse_indices()[1].shape == (5, 0)


def test_error_without_torchrec_says_what_to_install() -> None:
    program = """
import sys
sys.modules["torchrec"] = None  # as if it were not installed
import torch
from penstock.torch import Batch
try:
    Batch({"a": torch.tensor([1])}, rows=1).to_kjt(["a"])
except ImportError as e:
    print(e.name, e)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "torchrec to_kjt needs TorchRec: pip install 'penstock[torchrec]'\n"
