"""What a server draws for shuffled windows, and whether it is drawn evenly."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from window_oracle import Part, Rules, Seen, Table, units

# Of 10 equally likely tenths, chi-square is above this once in a million tests.
CHI_SQUARE = 46


@dataclass
class Drawn:
    """What is drawn for each part, as places in it from 0 to 1: to be spread evenly, and independently."""

    places: dict[str, list[float]] = field(default_factory=dict)

    def add(self, parts: list[Part], others: dict[str, list[Part]]) -> None:
        """Adds the parts of a point, and their distance to each other and to those of other points."""
        known = {(part.run, part.number, part.rows): _place(part) for part in parts if part.start is not None}
        self.places.setdefault("starts", []).extend(known.values())
        self._add("parts", itertools.pairwise(known.values()))
        for name, other in others.items():
            found = ((known.get((p.run, p.number, p.rows)), p) for p in other if p.start is not None)
            self._add(name, ((place, _place(part)) for place, part in found if place is not None))

    def add_order(self, table: Table, seen: Seen, rules: Rules) -> None:
        """Adds where the request, or row, that is stored first in a window comes in it."""
        place = {row: at for at, row in enumerate(seen.run.rows)}
        for window in seen.by_window():
            order = units(table, window) if rules.shuffle == "requests" else [[row] for row in window]
            first = min(range(len(order)), key=lambda unit: place[order[unit][0]])
            self.places.setdefault("order", []).append((first + _DITHER.random()) / len(order))

    def add_cuts(self, places: list[float]) -> None:
        """Adds where splits are cut that several lanes share."""
        self.places.setdefault("cuts", []).extend(places)

    def _add(self, name: str, pairs: Iterable[tuple[float, float]]) -> None:
        self.places.setdefault(name, []).extend((a - b) % 1 for a, b in pairs)

    def check(self) -> None:
        """Fails if starts, or the distances between them, are not spread evenly."""
        uneven = []
        for name, values in self.places.items():
            counts, expected = Counter(int(10 * value) for value in values), len(values) / 10
            assert expected >= 5, f"{name}: {len(values)} are too few to be judged"
            squares = sum((counts[tenth] - expected) ** 2 / expected for tenth in range(10))
            if squares > CHI_SQUARE:
                uneven.append(f"{name}: of {len(values)}, {sorted(counts.items())} in each tenth")
        assert not uneven, "; ".join(uneven)


_DITHER = random.Random(5)


def _place(part: Part) -> float:
    """Where a part begins: a number in the tenths that its first row covers, so that all are equally likely."""
    assert part.start is not None
    return (part.start + _DITHER.random()) / part.rows
