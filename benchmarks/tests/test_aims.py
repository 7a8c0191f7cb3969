"""Aims are ratios of rounds, and say so where a contender is missing."""

from __future__ import annotations

import dataclasses
import unittest
from pathlib import Path

import aims
import joins
from checks import Summary
from columns import OneMore
from entrants import ENTRANTS
from inputs import Inputs, Source
from peers.contender import Outcome, Pass
from points import Grid, Measured, Point, ratio
from result import Floor, Result
from running import Program

ENTRANT = {entrant.name: entrant for entrant in ENTRANTS}


def outcome(seconds: float, server_cpu: float = 0.0, peak: int = 0, rows: int = 1000) -> Outcome:
    one = Pass(1, seconds, 0.0, 0.0, server_cpu, 0.0)
    return Outcome([], rows, one, one, peak, 0)


def measured(name: str, *rounds: Outcome | None, lanes: int = 1, variant: str = "") -> Measured:
    return Measured(Point(ENTRANT[name], 8192, lanes, None, variant), list(rounds))


def result(*of: Measured) -> Result:
    source = Source("t", 1, [], [], 0, 0, 0, 0)
    return Result(Inputs("t", "id", source, source, Summary()), list(of), [], [])


def verdicts(found: Result, dataset: str = joins.T) -> dict[str, str]:
    return {aim.what: aim.verdict for aim in aims.all_of({dataset: found})}


class Ratios(unittest.TestCase):
    def test_rounds_are_compared_with_their_own(self) -> None:
        # Medians would give 2 / 3.
        of = measured("penstock", outcome(1), outcome(2), outcome(10))
        to = measured("duckdb", outcome(2), outcome(4), outcome(3))
        assert ratio(of, to, lambda one: one.warm.seconds) == 0.5

    def test_failed_rounds_do_not_count(self) -> None:
        of = measured("penstock", None, outcome(3))
        to = measured("duckdb", outcome(1), outcome(1))
        assert ratio(of, to, lambda one: one.warm.seconds) == 3
        assert ratio(measured("penstock", None), measured("duckdb", None), lambda one: one.rows) is None


class Aims(unittest.TestCase):
    def test_nothing_measured(self) -> None:
        found = aims.all_of({})
        assert len(found) == len({aim.what for aim in found}) == 30
        assert {aim.verdict for aim in found} == {"not measured"}

    def test_rates(self) -> None:
        what = "T indexed over TCP: rows/s of the best engine in process"
        engines = [measured("duckdb", outcome(3)), measured("polars-loop", outcome(2))]
        assert verdicts(result(measured("penstock-indexed", outcome(1.9)), *engines))[what] == "holds"
        assert verdicts(result(measured("penstock-indexed", outcome(2.1)), *engines))[what] == "**missed**"

    def test_inner_joins_have_the_same_aims(self) -> None:
        found = result(measured("penstock-local", outcome(2)), measured("polars", outcome(1.9)))
        for dataset, title in ((joins.T, "T"), (joins.T_INNER, "T, inner,")):
            what = f"{title} plain by the local path: rows/s of the best engine in process"
            assert verdicts(found, dataset)[what] == "**missed**"

    def test_rates_are_of_rows(self) -> None:
        what = "T indexed, variant `ram`: rows/s of the echo"
        ram = measured("penstock-indexed", outcome(1.0, rows=1000), variant="ram")
        # The echo sends half of the rows, in half of the time.
        echo = measured("echo-indexed", outcome(0.5, rows=500))
        assert verdicts(result(ram, echo))[what] == "holds"
        echo = measured("echo-indexed", outcome(0.4, rows=500))
        assert verdicts(result(ram, echo))[what] == "**missed**"

    def test_times_of_a_busy_machine_prove_nothing(self) -> None:
        busy = dataclasses.replace(outcome(1.0, 1.0).warm, elsewhere=1.0)
        runs = [dataclasses.replace(outcome(1.0), warm=busy) for _ in range(3)]
        found = verdicts(
            result(
                measured("penstock-indexed", runs[0]),
                measured("duckdb", runs[1]),
                measured("penstock-indexed", runs[2], variant="before"),
            )
        )
        assert found["T indexed over TCP: rows/s of the best engine in process"] == "the machine was busy"
        assert found["T indexed: CPU of the server, warm, of variant `before`"] == "**missed**"

    def test_lanes(self) -> None:
        one = measured("penstock", outcome(1, 1.0, 100))
        within = result(one, measured("penstock", outcome(1, 1.2, 129), lanes=8))
        above = result(one, measured("penstock", outcome(1, 1.3, 131), lanes=8))
        for what in ("CPU of the server, of one lane", "peak of server and client, of one lane"):
            assert verdicts(within)[f"T plain, 8 lanes: {what}"] == "holds"
            assert verdicts(above)[f"T plain, 8 lanes: {what}"] == "**missed**"

    def test_floors(self) -> None:
        what = "TPC-H plain: CPU of the server, warm, of echo and page decompression"
        found = result(measured("penstock", outcome(1, 3.0)), measured("echo", outcome(1, 1.0)))
        assert verdicts(found, joins.TPCH)[what] == "not measured"
        found.pages.append(Floor(1.0, 1.0, 1, 1))
        ratios = {aim.what: aim.measured for aim in aims.all_of({joins.TPCH: found})}
        assert ratios[what] == 1.5

    def test_one_column_more(self) -> None:
        found = result()
        found.one_more = {"": OneMore("a", 500, 100), "ram": OneMore("a", 105, 100)}
        what = "One staging column more, warm: bytes read, of those stored"
        assert verdicts(found)[what] == "**missed**"
        assert verdicts(found)[f"{what}, variant `ram`"] == "holds"


class Points(unittest.TestCase):
    def test_variants_and_lanes_are_of_our_server_alone(self) -> None:
        program = Program(Path("p"))
        chosen = [ENTRANT["penstock"], ENTRANT["duckdb"], ENTRANT["penstock-shuffled"]]
        grid = Grid(chosen, {"": program, "ram": program})
        assert len(grid.points("t")) == 2 * 4 + 2 + 2 * 2
        assert len(grid.points("wide")) == 2 * 4 + 2  # shuffled rows are read of T alone
        floors = Grid([ENTRANT["scan"], ENTRANT["echo"], ENTRANT["duckdb"]], {"": program})
        assert len(floors.points("t")) == 4
        assert len(floors.points("t_inner")) == 2  # floors do not join
        grid = Grid(chosen[:2], {"": program}, batch_rows=(1024, 4096), lanes=(1, 8), cores=(1, 2))
        assert len(grid.points("t")) == 2 * 2 * 2 + 2 * 2
