"""Codes by hashing, beside the values that Iceberg's specification writes down, and PyIceberg's."""

from __future__ import annotations

import random
import uuid
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import BinaryType, IcebergType, LongType, StringType, UUIDType

import penstock
from penstock.torch import Converter, Vocabulary, bucket

ALL = 2**31 - 1


# spec: tensor-10
@pytest.mark.parametrize(
    ("values", "hashed"),
    [
        # Appendix B of the specification; -1 in hexadecimal is the hash of the last one.
        (pa.array([34], pa.int32()), 2017239379),
        (pa.array([34], pa.int64()), 2017239379),
        (pa.array(["iceberg"]), 1210000089),
        (pa.array([uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes], pa.binary(16)), 1488055340),
        (pa.array([bytes([0, 1, 2, 3])]), -188683207),
    ],
)
def test_hashes_are_those_of_the_specification(values: pa.Array, hashed: int) -> None:
    assert bucket(values, ALL).tolist() == [(hashed & 0x7FFFFFFF) % ALL]


ALPHABET = "ab\0zü日🚚"


def texts(rng: random.Random, count: int) -> list[str]:
    return ["".join(rng.choices(ALPHABET, k=rng.choice([0, 1, 2, 3, 4, 5, 8, 13, 40]))) for _ in range(count)]


# spec: tensor-10
@pytest.mark.parametrize("count", [1, 7, 1000, ALL])
@pytest.mark.parametrize("seed", range(4))
def test_buckets_are_icebergs(seed: int, count: int) -> None:
    rng = random.Random(seed)
    strings = texts(rng, 200)
    numbers = [rng.choice([0, -1, rng.randrange(-(2**63), 2**63), rng.randrange(100)]) for _ in range(200)]
    given: list[tuple[pa.Array, IcebergType, list[Any]]] = [
        (pa.array(strings), StringType(), strings),
        (pa.array(strings, pa.large_string()), StringType(), strings),
        (pa.array(strings, pa.string_view()), StringType(), strings),
        (pa.array([text.encode() for text in strings]), BinaryType(), [text.encode() for text in strings]),
        (pa.array(numbers, pa.int64()), LongType(), numbers),
        (pa.array([rng.randbytes(16)] * 3, pa.binary(16)), UUIDType(), []),
    ]
    for array, kind, values in given:
        whole = BucketTransform(count).transform(kind)
        expected = [whole(value) for value in values or array.to_pylist()]
        assert bucket(array, count).tolist() == expected
        assert bucket(array.slice(3, 50), count).tolist() == expected[3:53]
        assert bucket(array.slice(5, 0), count).tolist() == []


def test_uuids_are_hashed_and_looked_up_by_their_bytes() -> None:
    stored = pa.array([bytes([n] * 16) for n in (1, 2, 1)], pa.binary(16))
    ids = pa.ExtensionArray.from_storage(pa.uuid(), stored)
    lists = pa.ListArray.from_arrays([0, 1, 1, 3], ids)
    batch = pa.RecordBatch.from_arrays([ids, lists, ids], ["hashed", "list", "known"])
    convert = Converter(
        batch.schema,
        hash={"hashed": 50, "list": 50},
        vocab={"known": [bytes([2] * 16), bytes([1] * 16)]},
        nulls={"*": "error"},
    )
    found = convert(batch.slice(1))
    assert found["hashed"].tolist() == bucket(stored, 50).tolist()[1:]
    assert found["list"].values.tolist() == bucket(stored, 50).tolist()[1:]
    assert found["known"].tolist() == [0, 1]


def test_columns_are_hashed_like_their_values() -> None:
    rows = ["de", None, "", "zürich", "de"]
    whole = BucketTransform(50).transform(StringType())
    column = pa.array(rows)
    lists = pa.array([[text, "x"] for text in rows])
    batch = pa.RecordBatch.from_arrays(
        [column, column.dictionary_encode(), lists, pa.array(range(5))], list("cdln")
    )
    fill = {"fill": "jp"}
    convert = Converter(
        batch.schema,
        hash={"c": 50, "d": 50, "l": 50, "n": 50},
        nulls={"c": fill, "d": "mask", "l": "error", "l[]": fill, "n": "error"},
    )
    found = convert(batch)
    expected = [whole(text if text is not None else "jp") for text in rows]
    assert found["c"].tolist() == expected
    assert found["d"].tolist() == [
        0 if text is None else code for text, code in zip(rows, expected, strict=True)
    ]
    assert found["d_mask"].tolist() == [text is not None for text in rows]
    assert [row.tolist() for row in found["l"]] == [[code, whole("x")] for code in expected]
    assert found["n"].tolist() == [BucketTransform(50).transform(LongType())(n) for n in range(5)]
    assert convert.columns["c"].codes == 50


def test_categories_are_coded_like_their_texts() -> None:
    """Each value of a dictionary is coded once; a value that no row has need not be in the vocabulary."""
    texts = pa.array(["b", None, "a", "b", "a", "a"])
    unused = pa.DictionaryArray.from_arrays(
        pa.array([0, None, 1, 0, 1, 1], pa.int32()), pa.array(["b", "a", "stranger"])
    )
    nothing = pa.DictionaryArray.from_arrays(pa.array([None] * 2, pa.int32()), pa.array([], pa.string()))
    rules: list[dict[str, Any]] = [{"vocab": {"c": ["a", "b"]}}, {"hash": {"c": 50}}]
    for rule in rules:
        want = Converter(pa.schema({"c": pa.string()}), nulls="mask", **rule)
        convert = Converter(pa.schema({"c": unused.type}), nulls="mask", **rule)
        assert convert.columns == want.columns
        plain = want(pa.RecordBatch.from_arrays([texts], ["c"]))
        for column in (texts.dictionary_encode(), unused, pa.concat_arrays([unused, unused])[6:]):
            found = convert(pa.RecordBatch.from_arrays([column], ["c"]))
            assert found["c"].tolist() == plain["c"].tolist()
            assert found["c_mask"].tolist() == plain["c_mask"].tolist()
        assert convert(pa.RecordBatch.from_arrays([nothing], ["c"]))["c_mask"].tolist() == [False, False]
    with pytest.raises(penstock.Invalid, match="'x', 'y'"):
        coded = pa.array(["a", "x", "y", "x"]).dictionary_encode()
        Converter(pa.schema({"c": coded.type}), vocab={"c": ["a"]}, nulls="error")(
            pa.RecordBatch.from_arrays([coded], ["c"])
        )


def test_codes_of_a_dictionary_are_not_a_tensor() -> None:
    with pytest.raises(penstock.Invalid, match="other codes in each batch") as refused:
        Converter(pa.schema({"c": pa.dictionary(pa.int32(), pa.string())}), nulls="error")
    assert "vocab={name: values} or hash={name: buckets}" in refused.value.remedy


def test_narrow_integers_hash_as_wide_ones() -> None:
    values = [-128, -1, 0, 127]
    wide = bucket(pa.array(values, pa.int64()), 1000).tolist()
    for kind in (pa.int8(), pa.int16(), pa.int32()):
        assert bucket(pa.array(values, kind), 1000).tolist() == wide


def test_vocabulary_size_is_the_number_of_codes() -> None:
    assert Vocabulary(["a", "b"]).size == 2
    assert Vocabulary(["a", "b"], unknown=7).size == 8
    assert Vocabulary({"a": 41}).size == 42
    assert Vocabulary([]).size == 0
    assert repr(Vocabulary(["a"], unknown=1)) == "Vocabulary(1 values, unknown=1)"


@pytest.mark.parametrize("code", [-1, True, 1.5, 2**63, "1"])
def test_codes_are_whole_numbers_from_zero_on(code: Any) -> None:
    with pytest.raises(ValueError, match="not a whole number of at least 0"):
        Vocabulary({"a": code})
    with pytest.raises(ValueError, match="not a whole number of at least 0"):
        Vocabulary(["a"], unknown=code)
