"""What all contenders measured on one data set."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Collection

from columns import OneMore
from entrants import DEFAULT_ROWS
from inputs import Inputs
from points import Measured

# With more busy cores than this, times mostly measure the other work.
_QUIET = 0.15


@dataclasses.dataclass(frozen=True)
class Floor:
    """A floor, measured once: seconds, CPU seconds, the bytes that it made, and the rows that they are of."""

    seconds: float
    cpu: float
    bytes: int
    rows: int


@dataclasses.dataclass
class Result:
    """All contenders and floors on one data set. `one_more` is by variant of the server."""

    inputs: Inputs
    measured: list[Measured]
    copies: list[Floor]
    pages: list[Floor]
    one_more: dict[str, OneMore] = dataclasses.field(default_factory=dict)

    @property
    def elsewhere(self) -> list[float]:
        """How many cores did other work, in each warm epoch."""
        return [outcome.warm.elsewhere for measured in self.measured for outcome in measured.outcomes]

    @property
    def quiet(self) -> bool:
        """Whether times are reliable."""
        return statistics.median(self.elsewhere or [0.0]) <= _QUIET

    def find(
        self, name: str, batch_rows: int = DEFAULT_ROWS, lanes: int = 1, variant: str = ""
    ) -> Measured | None:
        """A contender that ended, at a batch size, with as many cores as there are; None if there is none."""
        for one in self.measured:
            point = one.point
            wanted = (point.entrant.name, point.batch_rows, point.lanes, point.variant)
            if wanted == (name, batch_rows, lanes, variant) and point.cores is None and one.outcomes:
                return one
        return None

    def fastest(self, names: Collection[str]) -> Measured | None:
        """The contender with the shortest median, at its fastest batch size, with as many cores as there are."""
        ended = [
            one
            for one in self.measured
            if one.point.entrant.name in names and one.point.cores is None and one.outcomes
        ]
        return min(ended, key=lambda one: one.median(lambda outcome: outcome.warm.seconds), default=None)
