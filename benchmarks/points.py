"""The points of a measurement: each contender with its batch sizes, lanes, cores and server programs."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence

import joins
from entrants import DEFAULT_ROWS, Entrant
from peers.contender import Outcome
from running import Program


@dataclasses.dataclass(frozen=True)
class Point:
    """One contender as it is measured. `cores` is None for all; `variant` names the server's program."""

    entrant: Entrant
    batch_rows: int
    lanes: int = 1
    cores: int | None = None
    variant: str = ""

    def __str__(self) -> str:
        parts = [self.entrant.name, f"batches of {self.batch_rows}"]
        parts += [f"{self.lanes} lanes"] if self.lanes > 1 else []
        parts += [f"{self.cores} cores"] if self.cores else []
        parts += [self.variant] if self.variant else []
        return ", ".join(parts)


@dataclasses.dataclass
class Measured:
    """All rounds of one point on one data set. A round that failed is None."""

    point: Point
    rounds: list[Outcome | None] = dataclasses.field(default_factory=list)

    @property
    def outcomes(self) -> list[Outcome]:
        """The rounds that ended."""
        return [outcome for outcome in self.rounds if outcome is not None]

    def median(self, measure: Callable[[Outcome], float]) -> float:
        """The median over the rounds."""
        return statistics.median(measure(outcome) for outcome in self.outcomes)


def ratio(of: Measured, to: Measured, measure: Callable[[Outcome], float]) -> float | None:
    """The median of the ratios of rounds, which other work on the machine affects less than medians."""
    both = [(one, two) for one, two in zip(of.rounds, to.rounds, strict=True) if one and two]
    ratios = [measure(one) / measure(two) for one, two in both if measure(two) > 0]
    return statistics.median(ratios) if ratios else None


@dataclasses.dataclass(frozen=True)
class Grid:
    """What was asked for. None leaves a choice to each contender."""

    entrants: Sequence[Entrant]
    variants: Mapping[str, Program]  # "" is the plain one
    batch_rows: Sequence[int] | None = None
    lanes: Sequence[int] | None = None
    cores: Sequence[int | None] = (None,)

    def points(self, dataset: str) -> list[Point]:
        """All points of a data set, in the order of their turns."""
        return [
            Point(entrant, batch_rows, lanes, cores, variant)
            for entrant in self.entrants
            if self._reads(entrant, dataset)
            for cores in self.cores
            for variant in (self.variants if entrant.serves == "penstock" else ("",))
            for batch_rows, lanes in self._sizes(entrant)
        ]

    def _reads(self, entrant: Entrant, dataset: str) -> bool:
        if dataset in joins.INNER and not entrant.joins:
            return False
        return not entrant.datasets or dataset in entrant.datasets

    def _sizes(self, entrant: Entrant) -> list[tuple[int, int]]:
        sizes = self.batch_rows or entrant.batch_rows
        found = [(size, 1) for size in sizes]
        if entrant.serves != "penstock":
            return found
        if self.lanes is not None:
            return [(size, lanes) for size in sizes for lanes in self.lanes]
        size = DEFAULT_ROWS if DEFAULT_ROWS in sizes else sizes[0]
        return found + [(size, lanes) for lanes in entrant.lanes]
