"""What the values of columns are like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from penstock import answers

Value = int | float | str
"""A value of a column. Booleans, dates, times, NaN and infinite numbers are texts; binary values are base64."""


@dataclass(frozen=True)
class Histogram:
    """The distribution of the values in the sample.

    Attributes:
        edges: the limits of the bins; there is one more than there are bins.
        counts: the number of values in each bin.
        below: the number of values below the first edge.
        above: the number of values above the last edge.
    """

    edges: tuple[Value, ...]
    counts: tuple[int, ...]
    below: int = 0
    above: int = 0

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        return cls(
            edges=tuple(found["edges"]),
            counts=tuple(int(one) for one in found["counts"]),
            below=int(found.get("below", 0)),
            above=int(found.get("above", 0)),
        )


@dataclass(frozen=True)
class FrequentValue:
    """A frequent value of a column.

    Attributes:
        value: the value.
        count: how often the sample has it.
        share: its share of the values in the sample.
    """

    value: Value
    count: int
    share: float

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        return cls(value=found["value"], count=int(found["count"]), share=float(found["share"]))


@dataclass(frozen=True)
class ColumnStatistics:
    """A column, or the lengths, norms or elements of a column of lists.

    Attributes that are None do not apply to the type, or there are no values.

    Attributes:
        name: its name, followed by .lengths, .norms or .elements for lists.
        type: its Arrow type.
        rows: the number of rows or, for elements, of elements; 0 for lengths and norms.
        nulls: the number of nulls.
        values: the number of values that are not null.
        nan: the number of NaN.
        infinite: the number of infinite values.
        zeros: the number of zeros.
        empty: the number of empty texts.
        mean_bytes: the mean length of texts in bytes.
        min: the least value.
        max: the greatest value.
        mean: the mean of the finite values.
        deviation: the standard deviation of the finite values.
        distinct: the number of distinct values.
        distinct_exact: whether `distinct` is exact, and not an estimate.
        quantiles: the quantiles of the sample, by their shares of the values, such as 0.5.
        histogram: the distribution of the sample; None for texts.
        top: the most frequent values of the sample.
        sampled: the number of values in the sample.
    """

    name: str
    type: str
    rows: int
    nulls: int
    values: int
    nan: int
    infinite: int
    zeros: int | None
    empty: int | None
    mean_bytes: float | None
    min: Value | None
    max: Value | None
    mean: float | None
    deviation: float | None
    distinct: int | None
    distinct_exact: bool
    quantiles: Mapping[float, Value]
    histogram: Histogram | None
    top: tuple[FrequentValue, ...]
    sampled: int

    @classmethod
    def of(cls, found: Mapping[str, Any], quantiles: tuple[float, ...]) -> Self:
        """Decodes a part of the server's answer, given the shares of its quantiles."""
        counts = ("rows", "nulls", "values", "nan", "infinite", "sampled")
        return cls(
            name=str(found["name"]),
            type=str(found["type"]),
            min=found.get("min"),
            max=found.get("max"),
            distinct_exact=bool(found.get("distinct_exact", False)),
            quantiles=dict(zip(quantiles, found.get("quantiles") or (), strict=False)),
            histogram=answers.part(found, "histogram", Histogram.of),
            top=tuple(FrequentValue.of(one) for one in found.get("top") or ()),
            zeros=answers.whole(found, "zeros"),
            empty=answers.whole(found, "empty"),
            distinct=answers.whole(found, "distinct"),
            mean_bytes=answers.number(found, "mean_bytes"),
            mean=answers.number(found, "mean"),
            deviation=answers.number(found, "deviation"),
            **{name: int(found.get(name, 0)) for name in counts},
        )


@dataclass(frozen=True)
class StatisticsSample:
    """How exact statistics are.

    Attributes:
        rows: the number of rows in the sample, from which quantiles, histograms and frequent values are.
        rate: the probability of each row to be in the sample.
        quantile_error: the error of quantiles of columns without nulls, as a share of the values, with a probability of
            99 %; 0 is exact.
        distinct_error: the relative standard error of numbers of distinct values that are estimates.
    """

    rows: int
    rate: float
    quantile_error: float
    distinct_error: float

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        return cls(
            rows=int(found["rows"]),
            rate=float(found["rate"]),
            quantile_error=float(found["quantile_error"]),
            distinct_error=float(found["distinct_error"]),
        )


def columns_of(found: Mapping[str, Any], quantiles: tuple[float, ...]) -> dict[str, ColumnStatistics]:
    """Decodes the columns of a part of the server's answer, given the shares of its quantiles."""
    return {str(one["name"]): ColumnStatistics.of(one, quantiles) for one in found["columns"]}
