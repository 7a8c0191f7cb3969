"""The rows that each member of a mix gives to each step, as a pure function of the step's number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from penstock import query

WINDOW = 10_000
"""The number of consecutive rows over which shares are promised."""

PROMISED = Fraction(1, 100)
"""The maximum distance of a member's share from its weight, over any `WINDOW` rows."""

# The maximum deviation of a schedule's shares. It is below PROMISED because the ends of a window cut steps, which adds
# a few rows.
_LIMIT = Fraction(95, 10_000)
# One small batch of each member, together, has at most 1/50, 1/100 or 1/200 of a window's rows. The first value that
# keeps the limit is used, because larger batches cost less.
_FINENESS = (50, 100, 200)
# The maximum distance of a batch from the member's exact share, if the member gives one batch to each step.
_ROUNDING = Fraction(1, 100)


@dataclass(frozen=True)
class Share:
    """The batches that one member contributes.

    Attributes:
        rows: the rows of each of its batches, over all ranks.
        rate: the number of its batches per step; 1 means one batch in each step.
    """

    rows: int
    rate: Fraction

    def before(self, step: int) -> int:
        """Returns the number of its batches before a step."""
        return math.floor(step * self.rate + Fraction(1, 2))

    def due(self, step: int) -> int:
        """Returns the number of its batches in a step."""
        return self.before(step + 1) - self.before(step)

    def last_step(self, batches: int) -> int:
        """Returns the last step before which there are at most this many batches."""
        return math.ceil((batches + Fraction(1, 2)) / self.rate) - 1

    @property
    def is_even(self) -> bool:
        """Whether it gives the same number of batches to each step."""
        return self.rate.denominator == 1


def weight(value: float) -> Fraction:
    """Returns a weight as it is written: 0.1 is exactly one tenth.

    Raises:
        ValueError: the value is not a positive, finite number.
    """
    found = Fraction(repr(float(value)))  # refuses "nan" and "inf"
    if found <= 0:
        raise ValueError(f"{value!r} is not positive")
    return found


def divide(weights: Sequence[Fraction], lanes: Sequence[int], rows: int) -> tuple[Share, ...]:
    """Divides the rows of a step among members.

    A member gives one batch to each step if its exact share, rounded to a multiple of its lanes, is within 1 % of the
    exact share. Otherwise, it gives small batches, a varying number per step, so that it is never ahead or behind by
    more than one batch. A member with a small share then gives a batch only every n-th step.

    Args:
        weights: the weight of each member; only the ratios matter.
        lanes: the number of lanes of each member; the rows of its batches are a multiple of it.
        rows: the rows of a step, over all ranks.

    Raises:
        Invalid: the step is too small to keep the shares.
    """
    whole = sum(weights)
    parts = [weight / whole for weight in weights]
    found = _divided(parts, lanes, rows)
    if found is not None:
        return found
    unit = math.lcm(*lanes)
    enough = math.ceil(sum(lanes) / unit) * unit
    while _divided(parts, lanes, enough) is None:
        enough *= 2
    message = f"batches of whole lanes cannot keep the shares within 1 % in steps of {rows} rows"
    raise query.invalid("global_batch_rows", message, f"write global_batch_rows={enough}, or use fewer lanes")


def _divided(parts: Sequence[Fraction], lanes: Sequence[int], rows: int) -> tuple[Share, ...] | None:
    if rows < sum(lanes):  # a step could be empty
        return None
    exact = [part * rows for part in parts]
    for sizes in (_whole_step(exact, lanes, rows), _nearest(exact, lanes)):
        made = sum(sizes)
        if all(sizes) and all(_is_near(Fraction(s, made), p) for s, p in zip(sizes, parts, strict=True)):
            return tuple(Share(size, Fraction(1)) for size in sizes)
    nearest = _nearest(exact, lanes)
    for finest in (max(WINDOW, rows) // (parts_of_window * len(parts)) for parts_of_window in _FINENESS):
        uneven = [_uneven(due, of, finest) for due, of in zip(exact, lanes, strict=True)]
        some = [
            Share(size, Fraction(1)) if abs(size - due) <= _ROUNDING * due else other
            for size, due, other in zip(nearest, exact, uneven, strict=True)
        ]
        for shares in (some, uneven):
            if deviation(shares, parts, rows) <= _LIMIT:
                return tuple(shares)
    return None


def deviation(shares: Sequence[Share], parts: Sequence[Fraction], rows: int) -> Fraction:
    """Returns a bound on the distance of a member's share from its weight, over any `WINDOW` rows.

    Within a step, the rows of the members alternate. So only members that give a varying number of batches cause
    deviations: each by less than one batch, in any sequence of steps.
    """
    made = sum(share.rows * share.rate for share in shares)
    uneven = [0 if share.is_even else share.rows for share in shares]
    worst = Fraction(0)
    for share, own, part in zip(shares, uneven, parts, strict=True):
        rounding = abs(share.rows * share.rate / made - part)
        worst = max(worst, rounding + ((1 - part) * own + part * (sum(uneven) - own)) / max(WINDOW, rows))
    return worst


def _whole_step(exact: Sequence[Fraction], lanes: Sequence[int], rows: int) -> list[int]:
    """Rounds down to multiples of lanes, and gives the rest to those that lost most. The sum is `rows` if lanes allow it."""
    sizes = [math.floor(due / of) * of for due, of in zip(exact, lanes, strict=True)]
    lost = [(due - size) / of for due, size, of in zip(exact, sizes, lanes, strict=True)]
    left = rows - sum(sizes)
    for at in sorted(range(len(sizes)), key=lambda at: (-lost[at], at)):
        if lanes[at] <= left:
            sizes[at] += lanes[at]
            left -= lanes[at]
    return sizes


def _nearest(exact: Sequence[Fraction], lanes: Sequence[int]) -> list[int]:
    return [math.floor(due / of + Fraction(1, 2)) * of for due, of in zip(exact, lanes, strict=True)]


def _is_near(share: Fraction, part: Fraction) -> bool:
    return abs(share - part) <= _ROUNDING * part


def _uneven(due: Fraction, lanes: int, finest: int) -> Share:
    """Returns a share of small batches: at most `finest` rows or the rows due per step, but at least one row per lane."""
    rows = lanes * max(1, min(finest, math.floor(due)) // lanes)
    return Share(rows, due / rows)
