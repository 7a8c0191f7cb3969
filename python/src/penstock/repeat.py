"""A stream of several epochs, one after the other."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import pyarrow as pa

from penstock import errors, mistakes, query, reports
from penstock.bound import BoundQuery
from penstock.fields import Cursor, RunQuery
from penstock.markup import Report
from penstock.plan import Plan
from penstock.reading import Reading
from penstock.servers import retried
from penstock.stream import Stats, Stream

Repeat = int | Literal["forever"]


def epochs(repeat: Any, fields: Mapping[str, Any]) -> int | None:
    """Returns the number of epochs of a repeated stream; None if it never ends.

    Raises:
        Invalid: the value is not a number of epochs, or a field cannot be combined with `repeat`.
    """
    for name in ("limit", "endpoints"):
        if fields.get(name) is not None:
            raise query.invalid("repeat", f"cannot be combined with {name}", f"leave repeat or {name} out")
    number = None if repeat == "forever" else mistakes.whole("repeat", repeat, minimum=1)
    first = fields.get("epoch") or 0
    if number is not None and not fields.get("cursor") and first >= number:
        raise query.invalid(
            "repeat",
            f"{number} epochs are the epochs 0 to {number - 1}, without {first}",
            f"write repeat={first + 1}",
        )
    return number


class RepeatedStream(Stream):
    """A `Stream` that begins the next epoch, on the same snapshots, when an epoch ends.

    Its cursors are the cursors of the epochs' streams: a query with a cursor and the same `repeat` resumes with the
    very next row. Its length is unknown, and it has no manifest.
    """

    def __init__(
        self,
        bound: BoundQuery,
        readings: Sequence[Reading],
        plan: Plan,
        start: Cursor | list[Cursor] | None,
        number: int | None,
    ) -> None:
        """Prepares to read.

        Args:
            bound: the query of the first epoch.
            readings: the reading of the query's only endpoint.
            plan: the query's plan.
            start: the query's own cursor.
            number: the number of epochs, counted from epoch 0; None for no end.

        Raises:
            Invalid: the query has several shards, or its cursor is from an epoch after the last one.
        """
        super().__init__(bound, readings, plan, start)
        if len(readings) != 1:
            raise query.invalid("repeat", "the query has several shards", "name one: shard=(0, 4)")
        first = start[0] if isinstance(start, list) else start
        self._epoch = int(first["epoch"] if first else bound.form.get("epoch", 0))
        self._from_step = int(first["step"]) if first else 0
        self._number = number
        if number is not None and self._epoch >= number:
            raise query.invalid(
                "repeat",
                f"the cursor is from epoch {self._epoch}, and {number} epochs end with epoch {number - 1}",
                f"write repeat={self._epoch + 1}",
            )
        self._before = Stats(0, 0, 0.0, 0.0, 0)  # the sum over earlier epochs
        self._reports: list[dict[str, Any]] = []
        self._ending = threading.Event()

    @property
    def stats(self) -> Stats:
        """Statistics of the stream so far, over all epochs."""
        now, before = super().stats, self._before
        return replace(
            now,
            rows=now.rows + before.rows,
            batches=now.batches + before.batches,
            resumed=now.resumed + before.resumed,
            moved=now.moved + before.moved,
        )

    @property
    def report(self) -> Report:
        """The report after the end: the totals of rows, batches and matches, and `epochs` with the report of each epoch."""
        return Report(reports.total("epochs", [*self._reports, super().report]))

    def manifest(self, *, file: str | os.PathLike[str] | None = None) -> dict[str, Any]:  # noqa: ARG002
        """Raises an error, because a manifest describes only one epoch.

        Raises:
            Invalid: always.
        """
        raise query.invalid(
            "repeat", "a manifest is of one epoch", "read one epoch, or call Client.manifest for each"
        )

    def _batches(self) -> int | None:
        return None

    def _rows(self) -> int | None:
        return None

    def _next(self) -> pa.RecordBatch | None:
        while True:
            batch = super()._next()
            if batch is not None or self._epoch + 1 == self._number:
                return batch
            self._begin_next_epoch()

    def _begin_next_epoch(self) -> None:
        [ended] = self._readings
        end = ended.cursor
        assert end is not None  # an ended stream has a report with the last cursor
        if int(end["step"]) == 0:
            raise query.invalid(
                "repeat", f"epoch {self._epoch} has no batch", "leave repeat out, or check the filter"
            )
        bound = BoundQuery(self._bound.servers, self._form_after(end)).restarted(self._plan, None)
        found = retried(bound.plan, bound.servers.settings.reconnect, self._ending)
        if not found.plan.schema.equals(self._plan.schema):
            # The dataset may have other columns now. The stream keeps its original columns.
            bound = bound.with_columns_of(self._plan.schema)
            found = retried(bound.plan, bound.servers.settings.reconnect, self._ending)
        if not found.plan.schema.equals(self._plan.schema):
            raise errors.Corrupt("the schema of the next epoch differs", remedy="read it from the start")
        if self._number is not None:
            assert ended.report is not None
            self._reports.append(ended.report)
        self._before = self.stats
        self._bound, self._plan = bound, found.plan
        self._epoch, self._from_step = self._epoch + 1, 0
        # Until the first batch, the position is the end of the previous epoch.
        self._start, self._readings, self._at = end, Reading.all_of(bound, found), 0
        if self._tensor_plan is not None:
            self._accept_blocks(self._tensor_plan)
        if self._closed:
            self.close()

    def _form_after(self, end: Cursor) -> dict[str, Any]:
        """Returns the query of the next epoch, given the cursor at the end of the current one."""
        # A query with a cursor can omit the fields that its cursor contains.
        said = {name: end[name] for name in RunQuery.__annotations__ if end.get(name)}
        if said.get("algorithm") == 1:  # the default; servers of the release before do not know the field
            del said["algorithm"]
        form = {**said, **self._bound.form, "epoch": self._epoch + 1}
        form.pop("cursor", None)
        form["shard"] = end["shard"]
        if self._bound.step_stride > 1:
            # The readers of every n-th step take turns across epochs: the first step of an epoch belongs to the reader
            # after the reader of the previous epoch's last step.
            of, own = self._bound.step_stride, int(self._bound.form["every"]["step"])
            form["every"] = {"step": (own - (int(end["step"]) - self._from_step)) % of, "of": of}
        return form

    def close(self) -> None:
        """Closes the stream, on the server too. Cursor and report remain available."""
        self._ending.set()
        super().close()
