"""The report of a check of a dataset's tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from penstock import answers
from penstock.markup import Report


@dataclass(frozen=True)
class BrokenLimit:
    """A value beyond a limit of a dataset.

    Attributes:
        column: the column, or a series of a list such as "items.lengths".
        partition: the partition by time; "" for all rows.
        measure: the measure, such as "nulls" or "psi".
        bound: whether the limit is one of the value, and not of its change since a base.
        value: the value; None for "psi".
        base: the value of the base; None for a bound and for "psi".
        change: the change, or the value for a bound.
        limit: the limit.
    """

    column: str
    partition: str
    measure: str
    bound: bool
    value: float | None
    base: float | None
    change: float
    limit: float

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        return cls(
            column=str(found["column"]),
            partition=str(found.get("partition", "")),
            measure=str(found["measure"]),
            bound=bool(found.get("bound", False)),
            value=found.get("value"),
            base=found.get("base"),
            change=float(found["change"]),
            limit=float(found["limit"]),
        )


@dataclass(frozen=True)
class Finding:
    """A finding of `Client.verify`.

    Attributes:
        grade: "stream" if it breaks streams, "rule" if it breaks a rule of the dataset, or "note" for information.
        kind: what was found, such as "layout" or "duplicates"; docs/reports.md lists the kinds.
        message: what was found, as text.
        table: the staging entry, or "training"; "" if the finding is about several tables.
        file: the file; "" if the finding is not about one file.
        limit: the limit of values that is broken; None if the finding is not about one.
    """

    grade: str
    kind: str
    message: str
    table: str = ""
    file: str = ""
    limit: BrokenLimit | None = None

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        texts: dict[str, Any] = {
            name: str(found.get(name, "")) for name in ("grade", "kind", "message", "table", "file")
        }
        return cls(**texts, limit=answers.part(found, "limit", BrokenLimit.of))


@dataclass(frozen=True)
class VerifiedKeys:
    """How the keys of a staging table compare with those of the training rows.

    Attributes:
        training_rows: the training rows.
        matched: training rows with a match.
        missing: training rows without a match.
        null_keys: training rows with a null in the key; they are among `missing`.
        match_rate: the share of training rows with a match.
        min_match: the share that the dataset requires.
        rows: staging rows that pass the filter.
        null_rows: staging rows with a null in the key.
        keys: the number of distinct staging keys.
        duplicate_keys: the number of keys with several rows.
        surplus_rows: the number of rows after the first row of each key.
        duplicates_asked: the number of duplicate keys that a training row has.
        orphan_keys: the number of keys that no training row has.
        orphan_rows: the number of their rows.
        unmatched: a few keys of training rows without a match, with texts in quotes.
    """

    training_rows: int
    matched: int
    missing: int
    null_keys: int
    match_rate: float
    min_match: float
    rows: int
    null_rows: int
    keys: int
    duplicate_keys: int
    surplus_rows: int
    duplicates_asked: int
    orphan_keys: int
    orphan_rows: int
    unmatched: tuple[str, ...] = ()

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        numbers: dict[str, Any] = {
            name: found[name] for name in cls.__dataclass_fields__ if name != "unmatched"
        }
        return cls(**numbers, unmatched=tuple(found.get("unmatched") or ()))


@dataclass(frozen=True)
class VerifiedTable:
    """A table that `Client.verify` has read.

    Attributes:
        name: the staging entry, or "training".
        table: the name of the table.
        rows: the rows of its files.
        files: the number of its files.
        left_out: training files that were not read, because filters or the sample exclude them.
        keys: how its keys compare with those of the training rows; None for the training table, and for an entry whose
            values are promoted columns.
    """

    name: str
    table: str
    rows: int
    files: int
    left_out: int
    keys: VerifiedKeys | None

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """Decodes a part of the server's answer."""
        return cls(
            name=str(found["name"]),
            table=str(found["table"]),
            rows=int(found["rows"]),
            files=len(found["files"]),
            left_out=int(found["left_out"]),
            keys=answers.part(found, "join", VerifiedKeys.of),
        )


class Verification(Report):
    """The result of `Client.verify`: the server's report as a dictionary, with its main parts as attributes.

    docs/reports.md lists the fields of the dictionary, which also has each file, the first duplicate and orphan keys,
    and how the keys of both tables are written.
    """

    @property
    def clean(self) -> bool:
        """Whether no finding breaks a stream or a rule of the dataset."""
        return all(finding.grade == "note" for finding in self.findings)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings, the worst first."""
        return tuple(Finding.of(one) for one in self["findings"])

    @property
    def tables(self) -> tuple[VerifiedTable, ...]:
        """The training table, then the staging tables."""
        return tuple(VerifiedTable.of(one) for one in self["tables"])
