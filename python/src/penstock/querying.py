"""The calls of a client that query datasets."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, Unpack

import pyarrow as pa
import pyarrow.flight as flight

from penstock import errors, manifests, mistakes, query
from penstock.answers import parsed
from penstock.asynchronous import AsyncStream
from penstock.bound import BoundQuery
from penstock.evaluation import Evaluation, run
from penstock.fields import Query, RunQuery
from penstock.markup import Explanation
from penstock.plan import DatasetDescription, Datasets, Plan
from penstock.progress import ProgressOption
from penstock.query import Dataset
from penstock.reading import Reading
from penstock.repeat import Repeat, RepeatedStream, epochs
from penstock.servers import Servers
from penstock.signatures import lists
from penstock.splits import Splits
from penstock.stream import Stream
from penstock.verification import Verification

T = TypeVar("T")


class QueryCalls:
    """The methods of `Client` that query datasets."""

    _servers: Servers  # set by the subclass

    def datasets(self) -> Datasets:
        """Lists the datasets, including those that cannot be resolved, with the reason."""
        listed = self._servers.retried(
            lambda: self._servers.call(lambda client, options: list(client.list_flights(options=options)))
        )
        return Datasets(DatasetDescription.of(found) for found in listed)

    @lists(RunQuery, Query)
    def schema(self, dataset: Dataset, **fields: Unpack[Query]) -> pa.Schema:
        """The schema of a query's batches."""

        def ask(form: dict[str, Any]) -> pa.Schema:
            descriptor = flight.FlightDescriptor.for_command(query.text(form))
            return self._servers.call(
                lambda client, options: client.get_schema(descriptor, options).schema,
                key=BoundQuery(self._servers, form).key,
            )

        return self._retried(dataset, fields, ask)

    @lists(RunQuery, Query)
    def plan(self, dataset: Dataset, **fields: Unpack[Query]) -> Plan:
        """Returns the server's plan for a query.

        With `tail="drop"` or `count="exact"` the server may count rows first; `timeout` does not apply then.
        """
        return self._retried(dataset, fields, lambda form: BoundQuery(self._servers, form).plan().plan)

    @lists(RunQuery, Query)
    def read(
        self,
        dataset: Dataset,
        *,
        progress: ProgressOption = False,
        repeat: Repeat | None = None,
        **fields: Unpack[Query],
    ) -> Stream:
        """Opens the stream of a query.

        The query is planned now, and its errors are raised here; the server reads rows when the first batch is
        requested. Without `shard`, or with a `shard` without an index, the stream has the rows of all shards, one shard
        after the other.

        Args:
            dataset: the name of a dataset on the server, or a dataset as a mapping.
            progress: whether to show the stream's progress; "auto" shows it on a terminal.
            repeat: the number of epochs to read one after the other, counted from epoch 0, or "forever". All epochs
                read the same snapshots.
            fields: the query's other fields.
        """
        return self._servers.retried(
            lambda: self._read_once(dataset, progress=progress, repeat=repeat, **fields)
        )

    def _read_once(
        self,
        dataset: Dataset,
        *,
        progress: ProgressOption = False,
        repeat: Repeat | None = None,
        **fields: Unpack[Query],
    ) -> Stream:
        """Opens the stream of a query like `read`, but tries each address once, for callers that retry themselves."""
        number = None if repeat is None else epochs(repeat, fields)

        def ask(form: dict[str, Any]) -> Stream:
            bound = BoundQuery(self._servers, form)
            return (
                self._opened(bound, progress) if repeat is None else self._repeated(bound, progress, number)
            )

        return _with_wire(dataset, fields, ask)

    @lists(RunQuery, Query)
    def read_async(
        self,
        dataset: Dataset,
        *,
        progress: ProgressOption = False,
        repeat: Repeat | None = None,
        **fields: Unpack[Query],
    ) -> AsyncStream:
        """Returns the stream of a query for asyncio, which plans and reads it in a thread.

        Args:
            dataset: the name of a dataset on the server, or a dataset as a mapping.
            progress: as in `read`.
            repeat: as in `read`.
            fields: the query's other fields.
        """

        def open_stream(closed: threading.Event) -> Stream:
            return self._servers.retried(
                lambda: self._read_once(dataset, progress=progress, repeat=repeat, **fields), closed
            )

        return AsyncStream(open_stream)

    @lists(RunQuery, Query)
    def head(self, dataset: Dataset, rows: int = 5, **fields: Unpack[Query]) -> pa.Table:
        """Reads the first rows of a query as a table.

        Args:
            dataset: the name of a dataset on the server, or a dataset as a mapping.
            rows: the maximum number of rows.
            fields: the query's other fields.
        """
        with self.read(dataset, **fields) as stream:
            return stream.head(rows)

    @lists(RunQuery, Query)
    def explain(
        self, dataset: Dataset, *, splits: bool = False, scale: str | None = None, **fields: Unpack[Query]
    ) -> Explanation:
        """Explains what a query reads, in which order and why, in at most 40 lines of text.

        Args:
            dataset: the name of a dataset on the server, or a dataset as a mapping.
            splits: return the full explanation: each split with its file groups, each lane, and all rules.
            scale: return instead what trainers need to read the query, such as "trainers=64,step=5ms".
            fields: the query's other fields.

        Raises:
            Invalid: both `splits` and `scale` are given.
        """
        if scale is not None:
            if splits:
                raise errors.Invalid(
                    "splits shows a plan, and scale shows figures", remedy="give one of them"
                )
            sized = self._retried(
                dataset,
                fields,
                lambda form: BoundQuery(self._servers, form).action("explain_scale", scale=scale),
            )
            with errors.decoding("the server's explanation"):
                return Explanation(parsed(sized)["text"])
        action = "explain_splits" if splits else "explain"
        said = self._retried(dataset, fields, lambda form: BoundQuery(self._servers, form).action(action))
        return Explanation(said.decode())

    @lists(RunQuery, Query)
    def manifest(
        self, dataset: Dataset, *, file: str | os.PathLike[str] | None = None, **fields: Unpack[Query]
    ) -> dict[str, Any]:
        """Returns the inputs of a query's stream, to save with a model; `replay` reads the same rows again.

        `Stream.manifest` does this for an open stream.

        Args:
            dataset: the name of a dataset on the server, or a dataset as a mapping.
            file: also write the manifest to this file, as JSON, atomically.
            fields: the query's other fields.

        Raises:
            OSError: the file cannot be written.
        """
        kept = self._retried(dataset, fields, lambda form: manifests.ask(BoundQuery(self._servers, form)))
        if file is not None:
            manifests.save(kept, file)
        return kept

    @lists(RunQuery, Query)
    def replay(
        self,
        manifest: Mapping[str, Any] | str | os.PathLike[str],
        *,
        progress: ProgressOption = False,
        **fields: Unpack[Query],
    ) -> Stream:
        """Opens the stream of a manifest: the same rows in the same batches.

        The stream reads the manifest's snapshots with the dataset's definition at that time, even if the server's
        configuration has changed.

        Args:
            manifest: the result of `manifest`, or the file it was written to.
            progress: as in `read`.
            fields: query fields that select a part of the stream, such as `shard`, `limit` or `cursor`.

        Raises:
            Invalid: the server's plan has different rows or columns than the manifest.
        """
        loaded, form = manifests.load(manifest), query.form("", fields)
        return self._servers.retried(
            lambda: self._opened(manifests.bound(self._servers, loaded, form), progress)
        )

    @lists(RunQuery, Query)
    def read_splits(self, dataset: Dataset, **fields: Unpack[Query]) -> Splits:
        """Plans a query as splits, which any process can read separately, in any order.

        Together, the splits have every row once. The plan has one lane by default.
        """
        form_fields: Mapping[str, Any] = {**fields, "endpoints": fields.get("endpoints") or "splits"}
        return self._retried(dataset, form_fields, lambda form: Splits.of(BoundQuery(self._servers, form)))

    @lists(RunQuery, Query)
    def evaluate(
        self,
        dataset: Dataset,
        folder: str | os.PathLike[str],
        evaluate: Callable[[Stream], Any],
        *,
        threads: int = 4,
        part: tuple[int, int] = (0, 1),
        progress: ProgressOption = False,
        **fields: Unpack[Query],
    ) -> Evaluation:
        """Evaluates every split of a query once, and writes one Parquet file per split to a folder.

        A file gets its name once it is complete, and splits with a file are not read again. A killed job continues
        where it stopped, on the snapshots of its first run, which the folder's `manifest.json` records.

        Args:
            dataset: the name of a dataset on the server, or a dataset as a mapping.
            folder: created if it does not exist. Each run needs its own folder.
            evaluate: a function that reads the stream of a split to its end and returns a table of pyarrow, Polars or
                pandas, or anything that exports an Arrow stream.
            threads: the number of splits to evaluate concurrently, which is the number of threads that call `evaluate`.
            part: (i, n) evaluates only the splits i, i + n, … of the plan, when n jobs share a folder.
            progress: whether to show progress.
            fields: the query's other fields.

        Raises:
            Invalid: the folder belongs to a different run, or `evaluate` did not read its stream to the end.
            Corrupt: a file in the folder is not the complete result of its split. The file is not changed.
            OSError: a file cannot be written.
        """

        def ask(form: dict[str, Any]) -> Evaluation:
            return run(BoundQuery(self._servers, form), Path(folder), evaluate, threads, part, progress)

        form_fields: Mapping[str, Any] = {**fields, "endpoints": fields.get("endpoints") or "splits"}
        return _with_wire(dataset, form_fields, ask)

    @lists(RunQuery, Query)
    def verify(self, dataset: Dataset, **fields: Unpack[Query]) -> Verification:
        """Checks that the tables of a query's dataset have the layout that the join expects.

        The server reads all keys of the tables, which may take longer than the client's `timeout`. Each of the report's
        `findings` has a `grade`: "stream" if it breaks streams, "rule" if it breaks a rule of the dataset, or "note"
        for information.
        """
        bound = BoundQuery(self._servers, query.form(dataset, fields))
        answer = self._servers.retried(lambda: bound.action("verify"))
        with errors.decoding("the server's report of the check"):
            return Verification(parsed(answer))

    def _retried(self, dataset: Dataset, fields: Mapping[str, Any], ask: Callable[[dict[str, Any]], T]) -> T:
        return self._servers.retried(lambda: _with_wire(dataset, fields, ask))

    def _opened(self, bound: BoundQuery, progress: ProgressOption) -> Stream:
        found = bound.plan()
        start = bound.form.get("cursor") or None
        stream = Stream(bound, Reading.all_of(bound, found), found.plan, start, ordered=found.ordered)
        stream._show_progress(progress)
        return stream

    def _repeated(self, bound: BoundQuery, progress: ProgressOption, number: int | None) -> Stream:
        found = bound.plan()
        start = bound.form.get("cursor") or None
        stream = RepeatedStream(bound, Reading.all_of(bound, found), found.plan, start, number)
        stream._show_progress(progress)
        return stream


def _with_wire(dataset: Dataset, fields: Mapping[str, Any], ask: Callable[[dict[str, Any]], T]) -> T:
    """Checks the fields of a query, and sends it with its wire form, or with the smallest one that works."""
    mistakes.refuse(fields)
    return query.in_smallest_form(query.form(dataset, fields), ask)
