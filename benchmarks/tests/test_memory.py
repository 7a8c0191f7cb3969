"""The tables of the memory benchmark have the layouts that it says."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

import memory
import pyarrow.compute as pc
import pyarrow.parquet as pq
from checks import Summary

SIZES = memory.Sizes(rows=4_000, requests=800)


class Layouts(unittest.TestCase):
    def rows(self, layout: str) -> tuple[dict[str, dict[str, int]], Summary, int]:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / layout
            files = memory.ensure(folder, layout, SIZES)
            assert files == memory.ensure(folder, layout, SIZES)
            buckets: dict[str, dict[str, int]] = {}
            most = 0
            for name in ("training", "staging"):
                buckets[name] = {}
                for file in files[name]:
                    bucket = next(part for part in file.split("/") if "_bucket=" in part)
                    ids = pq.ParquetFile(file).read(columns=["request_id"])["request_id"]
                    buckets[name][bucket] = buckets[name].get(bucket, 0) + len(ids)
                    if name == "training":
                        most = max(most, pc.max(pc.value_counts(ids).field("counts")).as_py())
            return buckets, memory.answer(folder, files), most

    def test_even(self) -> None:
        buckets, answer, most = self.rows("even")
        for rows in buckets.values():
            assert len(rows) == 16
            assert max(rows.values()) < 2 * sum(rows.values()) / 16
        assert answer.rows == SIZES.rows
        assert answer.columns["user_id"].nulls > 0
        assert most < 30

    def test_bucket(self) -> None:
        buckets, answer, _ = self.rows("bucket")
        for rows in buckets.values():
            assert 0.45 < max(rows.values()) / sum(rows.values()) < 0.55
        assert answer.rows == SIZES.rows

    def test_key(self) -> None:
        _, answer, most = self.rows("key")
        assert most >= SIZES.rows // 2
        assert answer.rows == SIZES.rows
        assert answer.columns["user_id"].nulls < SIZES.rows // 20


if __name__ == "__main__":
    unittest.main()
