"""The checks of chaos find what they are for, and its faults follow from a seed."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from chaos import checks, schedule, values
from chaos.server import allocated


class ScheduleTest(unittest.TestCase):
    def test_faults_follow_from_the_seed(self) -> None:
        first = schedule.draw(7, 100, 600, schedule.PLAIN)
        assert first == schedule.draw(7, 100, 600, schedule.PLAIN)
        assert first != schedule.draw(8, 100, 600, schedule.PLAIN)
        kinds = {kind for kind, weight in schedule.PLAIN.items() if weight}
        assert {fault.kind for fault in first} == kinds
        assert all(0 <= fault.at <= 600 for fault in first)


class ValuesTest(unittest.TestCase):
    def test_wrong_values_are_found(self) -> None:
        rows = values.training(0, 500)
        keys = rows["key"].to_pylist()
        lists = dict(
            zip(values.history()["key"].to_pylist(), values.history()["history"].to_pylist(), strict=True)
        )
        scores = dict(
            zip(values.fixed()["key"].to_pylist(), values.fixed()["score"].to_pylist(), strict=True)
        )
        score = [scores.get(k, s) for k, s in zip(keys, rows["score"].to_pylist(), strict=True)]
        joined = rows.set_column(3, "score", pa.array(score, pa.float64()))
        joined = joined.append_column(
            "history", pa.array([lists.get(k) for k in keys], pa.list_(pa.int64()))
        ).combine_chunks()
        assert values.wrong(joined) == ""
        for name in ("label", "score"):
            changed = pc.add(joined[name], 1)
            assert values.wrong(joined.set_column(joined.schema.get_field_index(name), name, changed)) == name
        moved = joined["history"].combine_chunks().slice(1).to_pylist()
        column = pa.array([*moved, None], pa.list_(pa.int64()))
        assert "history" in values.wrong(joined.set_column(4, "history", column))


class LogTest(unittest.TestCase):
    def test_lost_and_changed_steps_are_found(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "steps"
            log.write_text("0 1 10 5 .\n0 2 10 6 .\n0 3 10\n0 2 10 6 .\n1 1 10 7 .\n")
            steps, wrong = checks.logged(log)
            assert (len(steps), wrong, checks.gaps(steps)) == (3, [], [])
            log.write_text("0 1 10 5 .\n0 3 10 6 .\n0 1 10 4 .\n")
            steps, wrong = checks.logged(log)
            assert (len(wrong), len(checks.gaps(steps))) == (1, 1)

    def test_trends_are_found(self) -> None:
        grows = [(second * 360.0, 1e8 + second / 10 * (9 << 20)) for second in range(10)]
        assert round(checks.slope(grows), 3) == 9
        grows[4] = (grows[4][0], 2e8)  # one measurement met something else
        assert abs(checks.slope(grows) - 9) < 1

    def test_the_heap_is_that_of_the_statistics(self) -> None:
        text = "heap profile: 3: 9 [9: 9] @ heap/1048576\n1: 1048576 [1: 9] @ 0x1\n\n# Alloc = 7\n# HeapAlloc = 4711\n"
        assert allocated(text) == 4711


if __name__ == "__main__":
    unittest.main()
