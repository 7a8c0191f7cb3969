"""What statistics of a dataset have, and those of a table do not: staging entries, and how well columns predict a label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from penstock import answers
from penstock.columnstats import ColumnStatistics, columns_of


@dataclass(frozen=True)
class LabelRelation:
    """How well a column predicts a label.

    Attributes:
        column: the column.
        value: the area under the ROC curve, or the correlation.
        rows: the number of rows of the sample in which both have a value.
        leak: whether the column probably has the label itself.
        base: the value of the base of a comparison; None without one.
        rise_limit: the limit of the rise of an area from the base; 0 without one.
        risen: whether the column predicts the label better than in the base by more than the limit.
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
            base=answers.number(found, "base"),
            rise_limit=float(found.get("rise_limit", 0)),
            risen=bool(found.get("risen", False)),
        )


@dataclass(frozen=True)
class LabelStatistics:
    """How well columns predict a label.

    Attributes:
        column: the label.
        measure: "auc" or "correlation".
        limit: the limit beyond which a column probably has the label itself.
        columns: the columns, those that predict the label best first.
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
        matches = found.get("matches") or {}
        return cls(
            name=str(found["name"]),
            table=str(found["table"]),
            snapshot=int(found.get("snapshot", 0)),
            promoted=bool(found.get("promoted", False)),
            match_rate=answers.number(matches, "match_rate"),
            match_rates={
                str(one["partition"]): float(one["match_rate"]) for one in found.get("partitions") or ()
            },
            keys=answers.part(found, "keys", EntryKeys.of),
            note=str(found.get("note", "")),
            age=answers.part(found, "age", lambda age: ColumnStatistics.of(age, quantiles)),
            age_unit=str(found.get("age_unit", "")),
            columns=columns_of(found, quantiles),
            **{name: answers.whole(matches, name) for name in ("matched", "null_keys", "duplicates")},
        )
