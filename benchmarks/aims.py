"""The aims of the speed of batches as ratios within one run: which ratio was measured, and whether the aim holds.

Absolute times depend on the machine, and on its other work. Aims in CPU seconds are therefore ratios to floors
of the same run: to the cost of decompressing the pages that are read, and of sending the batches that are sent.
The aims of left joins and of inner joins are the same.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterator, Mapping

import joins
from entrants import (
    DATAFUSION,
    DUCKDB,
    DUCKDB_FLIGHT,
    ECHO,
    ECHO_INDEXED,
    ENGINES,
    PENSTOCK,
    PENSTOCK_INDEXED,
    PENSTOCK_LOCAL,
    PENSTOCK_LOCAL_INDEXED,
    PENSTOCK_SHUFFLED,
)
from peers.contender import Outcome
from points import Measured, ratio
from result import Result

# The server's CPU time in a warm epoch, divided by that of its floors. These ratios were measured on 2026-11-26
# (83accd64), when the server took 1.19 CPU seconds (T, indexed) and 4.0 (TPC-H). The aims are 1.05 and 3.1.
_FLOORS_BEFORE = {joins.T: 1.4, joins.TPCH: 2.4}
_CPU_AIMS = {joins.T: 1.05 / 1.19, joins.TPCH: 3.1 / 4.0}

# What aims of speed are ratios of.
_RATE = "rows/s of"

# Variants of the server: with a cache in memory, with a cache on disk, and an older program.
RAM, DISK, BEFORE = "ram", "disk", "before"


@dataclasses.dataclass(frozen=True)
class Aim:
    """One aim.

    `measured` is None if the run lacks a contender. `busy` says that the aim is a ratio of times, and that the
    machine did other work, so that nothing follows from it.
    """

    what: str
    bound: float
    at_least: bool
    measured: float | None
    busy: bool = False

    @property
    def verdict(self) -> str:
        """Whether it holds."""
        if self.measured is None:
            return "not measured"
        if self.busy:
            return "the machine was busy"
        held = self.measured >= self.bound if self.at_least else self.measured <= self.bound
        return "holds" if held else "**missed**"

    def markdown(self) -> str:
        """A row of a table."""
        sign = "≥" if self.at_least else "≤"
        measured = "" if self.measured is None else f"{self.measured:.2f}"
        return f"| {self.what} | {sign} {self.bound:.2f} | {measured} | {self.verdict} |"


def all_of(results: Mapping[str, Result]) -> list[Aim]:
    """All aims."""
    groups = (_server, _network, _local, _lanes, _caches, _column, _peaks)
    busy = not all(result.quiet for result in results.values())
    found = [aim for group in groups for aim in group(results)]
    return [dataclasses.replace(aim, busy=busy and _RATE in aim.what) for aim in found]


def markdown(aims: list[Aim]) -> str:
    """A table of them."""
    lines = ["| what | aim | measured | |", "|---|---:|---:|---|"]
    return "\n".join(lines + [aim.markdown() for aim in aims])


def _server(results: Mapping[str, Result]) -> Iterator[Aim]:
    for dataset, name, echo in ((joins.T, PENSTOCK_INDEXED, ECHO_INDEXED), (joins.TPCH, PENSTOCK, ECHO)):
        result = results.get(dataset)
        share = _CPU_AIMS[dataset]
        what = f"{_form(dataset, name)}: CPU of the server, warm"
        yield Aim(
            f"{what}, of echo and page decompression",
            _FLOORS_BEFORE[dataset] * share,
            False,
            _of_floors(result, name, echo),
        )
        new, old = _point(result, name), _point(result, name, variant=BEFORE)
        yield Aim(f"{what}, of variant `{BEFORE}`", share, False, _of(new, old, _server_cpu))


def _network(results: Mapping[str, Result]) -> Iterator[Aim]:
    for dataset, bound in ((joins.T, 1.3), (joins.T_INNER, 1.3), (joins.TPCH, 1.2), (joins.TPCH_INNER, 1.2)):
        result = results.get(dataset)
        if dataset in (joins.T, joins.T_INNER):
            what = f"{_form(dataset, PENSTOCK_INDEXED)} over TCP: {_RATE} the best engine in process"
            yield Aim(what, 1.0, True, _rate(_point(result, PENSTOCK_INDEXED), _best(result)))
        what = f"{_form(dataset, PENSTOCK)} over TCP: {_RATE} DuckDB behind Flight"
        yield Aim(what, bound, True, _rate(_point(result, PENSTOCK), _best(result, (DUCKDB_FLIGHT,))))


def _local(results: Mapping[str, Result]) -> Iterator[Aim]:
    local = f"by the local path: {_RATE}"
    for dataset in (joins.T, joins.T_INNER):
        result = results.get(dataset)
        for name, bound in ((PENSTOCK_LOCAL_INDEXED, 1.3), (PENSTOCK_LOCAL, 1.0)):
            what = f"{_form(dataset, name)} {local} the best engine in process"
            yield Aim(what, bound, True, _rate(_point(result, name), _best(result)))
    for dataset in (joins.TPCH, joins.TPCH_INNER):
        result = results.get(dataset)
        mapped = _point(result, PENSTOCK_LOCAL)
        for title, engine, bound in (("DuckDB", DUCKDB, 1.0), ("DataFusion", DATAFUSION, 0.75)):
            what = f"{_form(dataset, PENSTOCK_LOCAL)} {local} {title}"
            yield Aim(what, bound, True, _rate(mapped, _best(result, (engine,))))


def _lanes(results: Mapping[str, Result]) -> Iterator[Aim]:
    for dataset, name in ((joins.T, PENSTOCK), (joins.T, PENSTOCK_SHUFFLED), (joins.TPCH, PENSTOCK)):
        result = results.get(dataset)
        one, eight = _point(result, name), _point(result, name, lanes=8)
        what = f"{_form(dataset, name)}, 8 lanes: CPU of the server, of one lane"
        yield Aim(what, 1.25, False, _of(eight, one, _server_cpu))


def _caches(results: Mapping[str, Result]) -> Iterator[Aim]:
    t = results.get(joins.T)
    echo = _point(t, ECHO_INDEXED)
    for variant, rate in ((RAM, 0.9), (DISK, 0.7)):
        cached = _point(t, PENSTOCK_INDEXED, variant=variant)
        what = f"T indexed, variant `{variant}`"
        yield Aim(f"{what}: {_RATE} the echo", rate, True, _rate(cached, echo))
        if variant == RAM:
            yield Aim(f"{what}: CPU of the server, of the echo", 1.8, False, _of(cached, echo, _server_cpu))


def _column(results: Mapping[str, Result]) -> Iterator[Aim]:
    what = "One staging column more, warm: bytes read, of those stored"
    found = results[joins.T].one_more if joins.T in results else {}
    if not found:
        yield Aim(what, 1.1, False, None)
    for variant, one in found.items():
        yield Aim(what + (f", variant `{variant}`" if variant else ""), 1.1, False, one.read / one.stored)


def _peaks(results: Mapping[str, Result]) -> Iterator[Aim]:
    for dataset in (joins.T, joins.TPCH):
        result = results.get(dataset)
        what = f"{_form(dataset, PENSTOCK)}: peak of server and client, of DataFusion"
        yield Aim(what, 0.5, False, _of(_point(result, PENSTOCK), _point(result, DATAFUSION), _peak))
    for dataset, name in ((joins.T, PENSTOCK), (joins.T, PENSTOCK_SHUFFLED), (joins.TPCH, PENSTOCK)):
        result = results.get(dataset)
        what = f"{_form(dataset, name)}, 8 lanes: peak of server and client, of one lane"
        yield Aim(what, 1.3, False, _of(_point(result, name, lanes=8), _point(result, name), _peak))


_TITLES = {joins.T: "T", joins.T_INNER: "T, inner,", joins.TPCH: "TPC-H", joins.TPCH_INNER: "TPC-H, inner,"}


def _form(dataset: str, name: str) -> str:
    form = "indexed" if "indexed" in name else "shuffled" if "shuffled" in name else "plain"
    return f"{_TITLES[dataset]} {form}"


def _point(result: Result | None, name: str, lanes: int = 1, variant: str = "") -> Measured | None:
    return result.find(name, lanes=lanes, variant=variant) if result else None


def _best(result: Result | None, names: tuple[str, ...] = ENGINES) -> Measured | None:
    """The fastest of these contenders, at its fastest batch size."""
    return result.fastest(names) if result else None


def _rate(of: Measured | None, to: Measured | None) -> float | None:
    """Rows per second, of another contender's; the echo's rows are fewer by part of a batch."""
    return _of(to, of, lambda outcome: outcome.warm.seconds / outcome.rows)


def _of(of: Measured | None, to: Measured | None, measure: Callable[[Outcome], float]) -> float | None:
    return ratio(of, to, measure) if of and to else None


def _server_cpu(outcome: Outcome) -> float:
    return outcome.warm.server_cpu


def _peak(outcome: Outcome) -> float:
    return outcome.peak


def _of_floors(result: Result | None, name: str, echo: str) -> float | None:
    penstock, ready = _point(result, name), _point(result, echo)
    if not result or not penstock or not ready or not result.pages:
        return None
    pages = statistics.median(floor.cpu for floor in result.pages)
    floors = pages + ready.median(_server_cpu)
    return penstock.median(_server_cpu) / floors if floors > 0 else None
