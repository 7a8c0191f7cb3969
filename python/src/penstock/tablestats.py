"""The statistics of a table or a dataset."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from penstock import answers, files
from penstock.columnstats import ColumnStatistics, StatisticsSample, columns_of
from penstock.datasetstats import EntryStatistics, LabelStatistics
from penstock.statscomparison import StatisticsComparison


@dataclass(frozen=True)
class Alarm:
    """A change beyond its limit, or a column that predicts the label too well.

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
        label: how well columns predict the label; None without one.
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
    def of(cls, results: Sequence[Mapping[str, Any]]) -> Self:
        """Decodes a server's two results: the statistics, and their page."""
        found, page = results
        quantiles = tuple(float(one) for one in found["quantiles"])
        return cls(
            **{
                name: str(found.get(name, ""))
                for name in ("table", "dataset", "training", "partition", "kept")
            },
            snapshot=int(found.get("snapshot", 0)),
            time=answers.time(found),
            rows=int(found["rows"]),
            files=answers.whole(found, "files"),
            bytes=answers.whole(found, "bytes"),
            sample=StatisticsSample.of(found["sample"]),
            columns=columns_of(found, quantiles),
            not_described=answers.texts(found, "not_described"),
            entries={
                str(one["name"]): EntryStatistics.of(one, quantiles) for one in found.get("entries") or ()
            },
            partitions={str(one["partition"]): int(one["rows"]) for one in found.get("partitions") or ()},
            label=answers.part(found, "label", LabelStatistics.of),
            against=answers.part(found, "against", lambda base: StatisticsComparison.of(base, quantiles)),
            page=str(page["html"]),
        )

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """The columns that predict the label too well, and the changes beyond their limits, those that matter most first."""
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
