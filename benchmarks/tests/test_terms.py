"""What each value adds to a column's sum, for slices, nulls and all types; files of buckets."""

from __future__ import annotations

import datetime
import decimal
import unittest
import zlib

import pyarrow as pa
from checks import Column, Summary, sums, terms
from inputs import Source
from peers.polars_loop import by_bucket


class Terms(unittest.TestCase):
    def test_values(self) -> None:
        day, moment = datetime.date(1970, 1, 3), datetime.datetime(1970, 1, 1, 0, 0, 1)
        texts = ["", "abc", "x" * 300, "é", "abc"]
        for values, expected in (
            (pa.array([1, None, -3], pa.int32()), [1, 0, -3]),
            (pa.array([0.5, None]), [0.5, 0]),
            (pa.array([True, None, False]), [1, 0, 0]),
            (pa.array([day, None]), [2, 0]),
            (pa.array([moment, None], pa.timestamp("ns")), [1_000_000, 0]),
            (pa.array([decimal.Decimal("-1.25"), None], pa.decimal128(9, 2)), [-125, 0]),
            (pa.array([[1, 2], None, [], [5]]), [3, 0, 0, 5]),
            (pa.array([[0.5, 0.25], None], pa.large_list(pa.float32())), [0.75, 0]),
            (pa.array([*texts, None]), [*(zlib.crc32(text.encode()) for text in texts), 0]),
            (pa.array(texts, pa.string_view()), [zlib.crc32(text.encode()) for text in texts]),
            (pa.array(["a", None, "a"]).dictionary_encode(), [zlib.crc32(b"a"), 0, zlib.crc32(b"a")]),
            (pa.array([], pa.string()), []),
            (pa.array([None], pa.string()), [0]),
        ):
            with self.subTest(type=values.type):
                assert terms(values).tolist() == expected
                assert terms(values.slice(1)).tolist() == expected[1:]

    def test_sums_are_weighted(self) -> None:
        values = pa.array([[1], None, [2, 3]])
        assert sums(values) == Column(nulls=1, total=6, lengths=3)
        repeats = pa.array([2, 5, 0]).to_numpy()
        assert sums(values, repeats) == Column(nulls=5, total=2, lengths=2)

    def test_summaries_repeat(self) -> None:
        batch = pa.record_batch({"item_id": [2, 3], "user_id": [5, None], "names": [["a"], []]})
        once, thrice = Summary(), Summary()
        once.add(batch)
        assert once.pairs == 10
        for _ in range(3):
            thrice.add(batch)
        repeated = Summary()
        repeated.add_summary(once, 3)
        assert repeated == thrice
        assert Summary.from_json({"rows": 1, "pairs": 0, "columns": {}}).factors == once.factors


class Buckets(unittest.TestCase):
    def source(self, *files: str) -> Source:
        return Source("t", 1, list(files), [], 0, 0, 0, 0)

    def test_files_of_buckets(self) -> None:
        found = by_bucket(self.source("/a/k_bucket=1/x", "/a/k_bucket=0/y", "/a/k_bucket=1/z"))
        assert found == {0: ["/a/k_bucket=0/y"], 1: ["/a/k_bucket=1/x", "/a/k_bucket=1/z"]}

    def test_an_unknown_number_of_buckets_is_refused(self) -> None:
        for files in (("/a/k_bucket=1/x",), ("/a/x",)):
            with self.assertRaises(ValueError):  # noqa: PT027
                by_bucket(self.source(*files))
