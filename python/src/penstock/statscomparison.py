"""How statistics differ from those of a base."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from penstock import answers
from penstock.columnstats import ColumnStatistics, StatisticsSample, columns_of


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
            base=answers.number(found, "base"),
            value=answers.number(found, "value"),
            change=float(found["change"]),
            limit=float(found["limit"]),
            alarm=bool(found["alarm"]),
            part_of_whole=bool(found.get("part_of_whole", False)),
            in_seconds=bool(found.get("in_seconds", False)),
            in_partitions=answers.texts(found, "in_partitions"),
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
            added=answers.texts(found, "added"),
            removed=answers.texts(found, "removed"),
            retyped=answers.texts(found, "retyped"),
            snapshot=int(found.get("snapshot", 0)),
            time=answers.time(found),
            rows=int(found["rows"]),
            sample=StatisticsSample.of(found["sample"]),
            columns=columns_of(found, quantiles),
            partitions={
                str(one["partition"]): (int(one["rows"]), int(one["base_rows"]))
                for one in found.get("partitions") or ()
            },
            more_partitions=int(found.get("more_partitions", 0)),
            changes=tuple(StatisticsChange.decoded(one) for one in found["changes"]),
            alarms=tuple(StatisticsChange.decoded(one) for one in found["alarms"]),
        )
