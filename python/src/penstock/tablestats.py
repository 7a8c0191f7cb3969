"""What the values of a table's or dataset's columns are like."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from penstock import files

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
        histogram = found.get("histogram")
        counts = ("rows", "nulls", "values", "nan", "infinite", "sampled")
        return cls(
            name=str(found["name"]),
            type=str(found["type"]),
            min=found.get("min"),
            max=found.get("max"),
            distinct_exact=bool(found.get("distinct_exact", False)),
            quantiles=dict(zip(quantiles, found.get("quantiles") or (), strict=False)),
            histogram=None if histogram is None else Histogram.of(histogram),
            top=tuple(FrequentValue.of(one) for one in found.get("top") or ()),
            zeros=_whole(found, "zeros"),
            empty=_whole(found, "empty"),
            distinct=_whole(found, "distinct"),
            mean_bytes=_number(found, "mean_bytes"),
            mean=_number(found, "mean"),
            deviation=_number(found, "deviation"),
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


@dataclass(frozen=True)
class StatisticsChange:
    """A measure of a column that was compared with that of the base.

    Attributes:
        column: the column or, for the measure "match_rate", the staging entry.
        partition: the partition that was compared; "" for all rows.
        measure: the measure, such as "nulls"; docs/statistics.md lists the measures.
        base: the measure of the base; None if there is none.
        value: the measure of the table or dataset; None if there is none.
        change: the change.
        limit: the limit of the change.
        alarm: whether the change is beyond its limit.
        of: the frequent value of the measure "top", or the quantile of the measure "quantile"; "matches" for a shift of
            the times of staging rows that match; "" otherwise.
        text: the change as text; "" if it is no alarm.
        part_of_whole: whether this is an alarm of a partition that the alarm of all rows stands for.
        in_seconds: whether base, value and change are seconds, where they are values of the column.
        in_partitions: the partitions that have the same alarm, for an alarm of all rows.
        entry: the staging entry that has the column, of a dataset; "" otherwise.
        cause: "match_rate" if the match rate of the entry, which is beyond its limit, explains the nulls; "" otherwise.
    """

    column: str
    partition: str
    measure: str
    base: float | None
    value: float | None
    change: float
    limit: float
    alarm: bool
    of: str = ""
    text: str = ""
    part_of_whole: bool = False
    in_seconds: bool = False
    in_partitions: tuple[str, ...] = ()
    entry: str = ""
    cause: str = ""

    @classmethod
    def decoded(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        return cls(
            **{
                name: str(found.get(name, ""))
                for name in ("column", "partition", "measure", "of", "text", "entry", "cause")
            },
            base=_number(found, "base"),
            value=_number(found, "value"),
            change=float(found["change"]),
            limit=float(found["limit"]),
            alarm=bool(found["alarm"]),
            part_of_whole=bool(found.get("part_of_whole", False)),
            in_seconds=bool(found.get("in_seconds", False)),
            in_partitions=_texts(found, "in_partitions"),
        )


@dataclass(frozen=True)
class StatisticsComparison:
    """The base of a comparison, and how the values differ from it.

    Attributes:
        table: the table; "" for a dataset.
        dataset: the dataset; "" for a table.
        snapshot: the snapshot of the table, or of the training table; 0 if there is none.
        time: when the snapshot was committed; None if it is unknown.
        rows: the number of rows.
        sample: how exact the statistics of the base are.
        columns: the columns of the base. Their histograms have the bins of the table or dataset.
        added: columns that the base lacks.
        removed: columns that only the base has.
        retyped: columns that have another type in the base.
        partition: the field by which rows are divided; "" if they are not.
        partitions: for each partition, the numbers of rows of the table or dataset and of the base.
        more_partitions: the number of earlier partitions, which are compared only as part of all rows.
        changes: the measures that were compared.
        alarms: the changes that are beyond their limits, those that matter most first.
    """

    table: str
    dataset: str
    snapshot: int
    time: datetime | None
    rows: int
    sample: StatisticsSample
    columns: Mapping[str, ColumnStatistics]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    retyped: tuple[str, ...]
    partition: str
    partitions: Mapping[str, tuple[int, int]]
    more_partitions: int
    changes: tuple[StatisticsChange, ...]
    alarms: tuple[StatisticsChange, ...]

    @classmethod
    def of(cls, found: Mapping[str, Any], quantiles: tuple[float, ...]) -> Self:
        """Decodes a part of the server's answer, given the shares of its quantiles."""
        return cls(
            table=str(found.get("table", "")),
            dataset=str(found.get("dataset", "")),
            partition=str(found.get("partition", "")),
            added=_texts(found, "added"),
            removed=_texts(found, "removed"),
            retyped=_texts(found, "retyped"),
            snapshot=int(found.get("snapshot", 0)),
            time=_time(found),
            rows=int(found["rows"]),
            sample=StatisticsSample.of(found["sample"]),
            columns=_columns(found, quantiles),
            partitions={
                str(one["partition"]): (int(one["rows"]), int(one["base_rows"]))
                for one in found.get("partitions") or ()
            },
            more_partitions=int(found.get("more_partitions", 0)),
            changes=tuple(StatisticsChange.decoded(one) for one in found["changes"]),
            alarms=tuple(StatisticsChange.decoded(one) for one in found["alarms"]),
        )


@dataclass(frozen=True)
class LabelRelation:
    """How well a column tells a label.

    Attributes:
        column: the column.
        value: the area under the ROC curve, or the correlation.
        rows: the number of rows of the sample in which both have a value.
        leak: whether the column probably has the label itself.
        base: the value of the base of a comparison; None without one.
        rise_limit: the limit of the rise of an area from the base; 0 without one.
        risen: whether the column tells the label better than in the base by more than the limit.
    """

    column: str
    value: float
    rows: int
    leak: bool
    base: float | None = None
    rise_limit: float = 0.0
    risen: bool = False

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        return cls(
            column=str(found["column"]),
            value=float(found["value"]),
            rows=int(found["rows"]),
            leak=bool(found.get("leak", False)),
            base=_number(found, "base"),
            rise_limit=float(found.get("rise_limit", 0)),
            risen=bool(found.get("risen", False)),
        )


@dataclass(frozen=True)
class LabelStatistics:
    """How well columns tell a label.

    Attributes:
        column: the label.
        measure: "auc" or "correlation".
        limit: the limit beyond which a column probably has the label itself.
        columns: the columns, those that tell the label best first.
    """

    column: str
    measure: str
    limit: float
    columns: tuple[LabelRelation, ...]

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        return cls(
            column=str(found["column"]),
            measure=str(found["measure"]),
            limit=float(found["limit"]),
            columns=tuple(LabelRelation.of(one) for one in found["columns"]),
        )


@dataclass(frozen=True)
class EntryKeys:
    """The keys of a staging table.

    Attributes:
        rows: the rows that pass the entry's filter.
        null_rows: rows with a null in the key.
        keys: the number of distinct keys.
        duplicate_keys: the number of keys with several rows.
        surplus_rows: the number of rows after the first row of each key.
        orphan_keys: the number of keys that no training row has.
    """

    rows: int
    null_rows: int
    keys: int
    duplicate_keys: int
    surplus_rows: int
    orphan_keys: int

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        return cls(**{name: int(found[name]) for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class EntryStatistics:
    """A staging entry of a dataset.

    Attributes:
        name: its name.
        table: its table.
        snapshot: the snapshot of the table; 0 if there is none.
        promoted: whether its values are columns of the training table. Then it is unknown which rows match.
        matched: the number of training rows with a match; None if it is unknown.
        match_rate: their share of the training rows; None if it is unknown.
        null_keys: the number of training rows with a null in the key; None if it is unknown.
        duplicates: the number of training rows with several matches; None if it is unknown.
        match_rates: the match rate of each partition.
        keys: the keys of the staging table; None if they were not counted.
        note: the command that shows the keys of training rows without a match, and how many of them exist in another
            spelling; "" if less than 1 % of the rows have such a key.
        age: how much older the staging row is than the training row; None for entries without point_in_time.
        age_unit: the unit of `age`: "s", or "" for integers.
        columns: the columns that the entry adds, in all training rows.
    """

    name: str
    table: str
    snapshot: int
    promoted: bool
    matched: int | None
    match_rate: float | None
    null_keys: int | None
    duplicates: int | None
    match_rates: Mapping[str, float]
    keys: EntryKeys | None
    note: str
    age: ColumnStatistics | None
    age_unit: str
    columns: Mapping[str, ColumnStatistics]

    @classmethod
    def of(cls, found: Mapping[str, Any], quantiles: tuple[float, ...]) -> Self:
        """Decodes a part of the server's answer, given the shares of its quantiles."""
        matches, keys, age = found.get("matches") or {}, found.get("keys"), found.get("age")
        return cls(
            name=str(found["name"]),
            table=str(found["table"]),
            snapshot=int(found.get("snapshot", 0)),
            promoted=bool(found.get("promoted", False)),
            match_rate=_number(matches, "match_rate"),
            match_rates={
                str(one["partition"]): float(one["match_rate"]) for one in found.get("partitions") or ()
            },
            keys=None if keys is None else EntryKeys.of(keys),
            note=str(found.get("note", "")),
            age=None if age is None else ColumnStatistics.of(age, quantiles),
            age_unit=str(found.get("age_unit", "")),
            columns=_columns(found, quantiles),
            **{name: _whole(matches, name) for name in ("matched", "null_keys", "duplicates")},
        )


@dataclass(frozen=True)
class Alarm:
    """A change beyond its limit, or a column that tells the label too well.

    Attributes:
        column: the column, or the staging entry.
        partition: the partition; "" for all rows.
        measure: the measure, such as "nulls" or "auc".
        text: what was found, as text.
    """

    column: str
    partition: str
    measure: str
    text: str


@dataclass(frozen=True)
class Statistics:
    """The result of `Client.stats`. A notebook shows it as a page with charts.

    Attributes:
        table: the table; "" for a dataset.
        dataset: the dataset; "" for a table.
        training: the training table of a dataset; "" for a table.
        snapshot: the snapshot of the table, or of the training table; 0 if there is none.
        time: when the snapshot was committed; None for a dataset, and if there is no snapshot.
        rows: the number of rows, without deleted ones.
        files: the number of data files; None for a dataset, and if columns are withheld from the client.
        bytes: the bytes of data files; None for a dataset, and if columns are withheld from the client.
        sample: how exact the statistics are.
        columns: the columns; for a dataset, those of the training table.
        not_described: the columns whose types are not described.
        entries: the staging entries of a dataset.
        partition: the field by which the rows of a dataset are divided; "" if they are not.
        partitions: the rows of each partition of a dataset.
        label: how well columns tell the label; None without one.
        against: the comparison with a base; None without one.
        kept: the location of the table's statistics file with the result; "" if it was not kept.
        page: the HTML page.
    """

    table: str
    dataset: str
    training: str
    snapshot: int
    time: datetime | None
    rows: int
    files: int | None
    bytes: int | None
    sample: StatisticsSample
    columns: Mapping[str, ColumnStatistics]
    not_described: tuple[str, ...]
    entries: Mapping[str, EntryStatistics]
    partition: str
    partitions: Mapping[str, int]
    label: LabelStatistics | None
    against: StatisticsComparison | None
    kept: str
    page: str = field(repr=False, compare=False)

    @classmethod
    def of(cls, found: Mapping[str, Any], page: str) -> Self:
        """Decodes a server's result."""
        quantiles = tuple(float(one) for one in found["quantiles"])
        label, against = found.get("label"), found.get("against")
        return cls(
            **{
                name: str(found.get(name, ""))
                for name in ("table", "dataset", "training", "partition", "kept")
            },
            snapshot=int(found.get("snapshot", 0)),
            time=_time(found),
            rows=int(found["rows"]),
            files=_whole(found, "files"),
            bytes=_whole(found, "bytes"),
            sample=StatisticsSample.of(found["sample"]),
            columns=_columns(found, quantiles),
            not_described=_texts(found, "not_described"),
            entries={
                str(one["name"]): EntryStatistics.of(one, quantiles) for one in found.get("entries") or ()
            },
            partitions={str(one["partition"]): int(one["rows"]) for one in found.get("partitions") or ()},
            label=None if label is None else LabelStatistics.of(label),
            against=None if against is None else StatisticsComparison.of(against, quantiles),
            page=page,
        )

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """The columns that tell the label too well, and the changes beyond their limits, those that matter most first."""
        found = []
        if self.label is not None:
            measure = {"auc": "AUC"}.get(self.label.measure, self.label.measure)
            found += [
                Alarm(
                    one.column,
                    "",
                    self.label.measure,
                    f"its {measure} with {self.label.column} is {one.value:.4f}"
                    + (
                        ": it probably has the label itself"
                        if one.leak
                        else f", and was {one.base:.4f} in the base"
                    ),
                )
                for one in self.label.columns
                if one.leak or one.risen
            ]
        if self.against is not None:
            found += [Alarm(one.column, one.partition, one.measure, one.text) for one in self.against.alarms]
        return tuple(found)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to a file, which is created or replaced."""
        files.write_atomically(Path(path), lambda out: out.write(self.page.encode()))

    def _repr_html_(self) -> str:
        # The frame has its own style. It runs no scripts, and loads nothing, even if the page were hostile. Links to
        # parts of the page would load the notebook in the frame.
        said = f"Statistics of {self.dataset or self.table}: {self.rows:,} rows, {len(self.alarms)} alarms"
        page = html.escape(_LINK.sub(r"\1", self.page))
        return (
            f'<div class="tex2jax_ignore mathjax_ignore"><div>{html.escape(said)}</div>'
            f'<iframe sandbox title="{html.escape(said)}" srcdoc="{page}" style="{_FRAME}"></iframe></div>'
        )


_LINK = re.compile(r'<a href="#c\d+">(.*?)</a>', re.DOTALL)
_FRAME = "box-sizing: border-box; width: 100%; height: 640px; resize: vertical; border: 1px solid #8c959f"


def _columns(found: Mapping[str, Any], quantiles: tuple[float, ...]) -> dict[str, ColumnStatistics]:
    return {str(one["name"]): ColumnStatistics.of(one, quantiles) for one in found["columns"]}


def _texts(found: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return tuple(str(one) for one in found.get(name) or ())


def _whole(found: Mapping[str, Any], name: str) -> int | None:
    return int(found[name]) if found.get(name) is not None else None


def _number(found: Mapping[str, Any], name: str) -> float | None:
    return float(found[name]) if found.get(name) is not None else None


def _time(found: Mapping[str, Any]) -> datetime | None:
    return datetime.fromisoformat(str(found["time"])) if found.get("time") else None
