"""The client: datasets, plans and streams of a server."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack

import pyarrow as pa
import pyarrow.flight as flight

from penstock import arguments, errors, history, manifests, mistakes, query
from penstock.asynchronous import AsyncStream
from penstock.bound import BoundQuery
from penstock.changes import (
    Compacted,
    Demoted,
    OrphanFiles,
    ProgressFunction,
    Promoted,
    Restored,
    change,
    change_results,
    orphan_files,
)
from penstock.channel import Settings
from penstock.evaluation import Evaluation, run
from penstock.fields import Query, RunQuery
from penstock.history import TableDescription, TableSnapshot
from penstock.markup import Explanation, Report
from penstock.plan import DatasetDescription, Datasets, Plan
from penstock.private import PrivateServer, start
from penstock.progress import ProgressOption
from penstock.query import Dataset
from penstock.reading import Reading
from penstock.repeat import Repeat, RepeatedStream, epochs
from penstock.servers import Servers
from penstock.signatures import lists
from penstock.splits import Splits
from penstock.staged import Published, Staged
from penstock.staging import new_token, stage
from penstock.status import ServerStatus
from penstock.stream import Stream

T = TypeVar("T")


def connect(
    uri: str | Sequence[str],
    *,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    headers: Mapping[str, str] | None = None,
    tls_roots: bytes | None = None,
    tls_chain: bytes | None = None,
    tls_key: bytes | None = None,
    timeout: float | None = 120.0,
    lookahead: int | None = None,
    reconnect: float = 300.0,
    local: bool = True,
) -> Client:
    """Creates a client for a server, or for several servers of the same datasets. Connects at the first call.

    If its server is killed, restarted or drained, or if its connection is lost, a stream resumes with the
    very next row: the client queries again with the stream's cursor, at the next address if there are
    several. It does the same if no server accepts the stream's ticket any more. Retries wait a tenth of
    a second at first and then longer, up to ten seconds, and log a warning to the logger "penstock".
    Errors that a retry cannot fix are raised at once.

    Args:
        uri: host:port, grpc://host:port, grpc+tls://host:port or grpc+unix:///path.
            For several servers, a list of these or a comma-separated string. The first one is used until it
            fails, then the next one; give trainers different orders to balance the load.
        token: bearer token. It is pickled with the client. It is sent to other machines over TLS alone.
        token_file: file with the token, read again for each call, since tokens are replaced. The path is pickled, and
            not the token.
        headers: sent with every call, and pickled.
        tls_roots: PEM certificates to trust instead of the system's.
        tls_chain: PEM certificate chain of the client, for mutual TLS.
        tls_key: PEM key of the client, for mutual TLS.
        timeout: seconds that a call may take, None for no limit. It does not apply to streams, or to plans for
            which rows are counted.
        lookahead: bytes that the transport may buffer for a stream. None lets it choose: the fastest, with up to
            40 MB for a slow reader. About two batches' worth limits memory at nearly the same speed.
        reconnect: seconds for which a failed stream is retried before it raises; each batch received resets
            the time. 0 raises at once.
        local: read batches from mapped memory if the server runs on this host and has a `local_socket`. They
            take much less time than those that come over the network, and are equal. False never does.

    Raises:
        Invalid: an argument cannot be read.
    """
    locations = arguments.locations(uri)
    if token is not None or token_file is not None:
        arguments.check_token_is_safe(locations)
    return Client(
        Settings(
            locations=locations,
            headers=arguments.headers(headers, token),
            token_file=arguments.token_file(token_file, token),
            tls_roots=arguments.pem("tls_roots", tls_roots),
            tls_chain=arguments.pem("tls_chain", tls_chain),
            tls_key=arguments.pem("tls_key", tls_key),
            timeout=None if timeout is None else arguments.seconds("timeout", timeout),
            lookahead=None if lookahead is None else mistakes.whole("lookahead", lookahead, minimum=0),
            reconnect=arguments.seconds("reconnect", reconnect, zero=True),
            local=local,
        )
    )


def open(  # noqa: A001 - as penstock.open, as gzip.open and others are
    config: str | os.PathLike[str],
    *,
    settings: Mapping[str, Any] | None = None,
    program: str | os.PathLike[str] | None = None,
    share: bool = True,
    timeout: float | None = 120.0,
    lookahead: int | None = None,
    reconnect: float = 300.0,
    local: bool = True,
) -> Client:
    """Starts a private server of a config file, or shares one that runs, and creates a client for it.

        with penstock.open("penstock.yaml") as client:
            table = client.read("homefeed").read_all()

    The server is a process beside this one, on a socket that only this user's processes can connect to. It has this process's
    environment, and so its credentials. All processes of this user that open the same file with the same settings and
    credentials share one server, such as the ranks of a host. It ends when the last of their clients is closed or not used any
    more, and when the last of these processes ends in any way. What in the file's settings protects a server from others, or makes it known to them, does not count:
    neither its addresses, TLS, tokens and metrics, nor `policy`, `audit_log`, `ticket_keys` and `cache_dir`.

    Forked and spawned processes, such as DataLoader workers, read from the same server with the client, or by its `uri`.
    When the last process that opened it ends, their streams end with an error.

    Args:
        config: the config file of the datasets.
        settings: settings of the server that override those of the file, such as {"memory": "4GiB"}.
        program: the server's program. If omitted, it is the one that this package's wheel has installed, or else the one on
            the PATH.
        share: False starts a server for this process alone.
        timeout: as in `connect`.
        lookahead: as in `connect`.
        reconnect: as in `connect`; if the private server has ended, failures are raised at once.
        local: as in `connect`.

    Raises:
        NotFound: there is no program.
        Invalid: the config file contains mistakes, or an argument does, or the program has another version than this package.
        Unavailable: the server does not start.
    """
    private = start(config, settings, program, share=share)
    given = connect(private.address, timeout=timeout, lookahead=lookahead, reconnect=reconnect, local=local)
    return Client(replace(given.settings, private=private), private)


class Client:
    """The datasets, plans and streams of a service. Created by `connect` or `open`.

    It is safe for threads, can be forked (but not while one of its streams is open), and can be pickled,
    including credentials other than a `token_file`. Close it when done; closing ends the client's streams.

    Keyword arguments are the fields of a query, see `Query`. None leaves a field out, `shard` may be a pair
    (index, of), and the server refuses unsupported fields by name. If `wire` is not set, batches are sent in
    the form that takes fewer bytes, and converted to plain ones here.

    Every method raises one of `penstock.errors` if it fails. Each address is tried once.
    """

    def __init__(self, settings: Settings, private: PrivateServer | None = None) -> None:
        self._settings = settings
        self._servers = Servers(settings)
        self._private = private  # which closes with this client

    def datasets(self) -> Datasets:
        """Lists the datasets, including those that cannot be resolved, with the reason."""
        listed = self._servers.call(lambda client, options: list(client.list_flights(options=options)))
        return Datasets(DatasetDescription.of(found) for found in listed)

    @lists(RunQuery, Query)
    def schema(self, dataset: Dataset, **fields: Unpack[Query]) -> pa.Schema:
        """The schema of a query's batches."""

        def ask(form: dict[str, Any]) -> pa.Schema:
            descriptor = flight.FlightDescriptor.for_command(query.text(form))
            return self._servers.call(lambda client, options: client.get_schema(descriptor, options).schema)

        return _with_wire(dataset, fields, ask)

    @lists(RunQuery, Query)
    def plan(self, dataset: Dataset, **fields: Unpack[Query]) -> Plan:
        """Returns the server's plan for a query.

        With `tail="drop"` or `count="exact"` the server may count rows first; `timeout` does not apply then.
        """
        return _with_wire(dataset, fields, lambda form: BoundQuery(self._servers, form).plan().plan)

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

        The query is planned now, and errors in it are raised here; rows are read from the first batch on.
        Without `shard`, or with a `shard` without an index, the stream has the rows of all shards, one shard
        after the other.

        Args:
            dataset: the name of one that the server knows, or a dataset as a mapping.
            progress: whether to show how far the stream is; "auto" shows it on a terminal.
            repeat: the number of epochs to read one after the other, counted from epoch 0, or "forever". All of
                them read the same snapshots.
            fields: the query's other fields.
        """
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
            dataset: the name of one that the server knows, or a dataset as a mapping.
            progress: as in `read`.
            repeat: as in `read`.
            fields: the query's other fields.
        """
        return AsyncStream(lambda: self.read(dataset, progress=progress, repeat=repeat, **fields))

    @lists(RunQuery, Query)
    def head(self, dataset: Dataset, rows: int = 5, **fields: Unpack[Query]) -> pa.Table:
        """Reads the first rows of a query as a table.

        Args:
            dataset: the name of one that the server knows, or a dataset as a mapping.
            rows: at most how many.
            fields: the query's other fields.
        """
        with self.read(dataset, **fields) as stream:
            return stream.head(rows)

    @lists(RunQuery, Query)
    def explain(self, dataset: Dataset, *, splits: bool = False, **fields: Unpack[Query]) -> Explanation:
        """Explains what a query reads, in which order and why, as readable text of at most 40 lines.

        Args:
            dataset: the name of one that the server knows, or a dataset as a mapping.
            splits: return everything: each split with its file groups, each lane, and all rules in full.
            fields: the query's other fields.
        """
        action = "explain_splits" if splits else "explain"
        said = _with_wire(dataset, fields, lambda form: BoundQuery(self._servers, form).action(action))
        return Explanation(said.decode())

    @lists(RunQuery, Query)
    def manifest(
        self, dataset: Dataset, *, file: str | os.PathLike[str] | None = None, **fields: Unpack[Query]
    ) -> dict[str, Any]:
        """Returns the inputs of a query's stream, to save with a model; `replay` reads the same rows again.

        `Stream.manifest` does this for an open stream.

        Args:
            dataset: the name of one that the server knows, or a dataset as a mapping.
            file: also write the manifest to this file, as JSON, atomically.
            fields: the query's other fields.

        Raises:
            OSError: the file cannot be written.
        """
        kept = _with_wire(dataset, fields, lambda form: manifests.ask(BoundQuery(self._servers, form)))
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

        It reads the manifest's snapshots, with the definition that the dataset had then, even if the server's
        configuration has changed.

        Args:
            manifest: the result of `manifest`, or the file it was written to.
            progress: as in `read`.
            fields: query fields to read only a part of it, such as `shard`, `limit` or `cursor`.

        Raises:
            Invalid: the server's plan has different rows or columns than the manifest.
        """
        bound = manifests.bound(self._servers, manifests.load(manifest), query.form("", fields))
        return self._opened(bound, progress)

    @lists(RunQuery, Query)
    def read_splits(self, dataset: Dataset, **fields: Unpack[Query]) -> Splits:
        """Plans a query as splits, each of which is read on its own, in any order, by any process.

        Together they have every row once. The plan has one lane, which is the default here.
        """
        form_fields: Mapping[str, Any] = {**fields, "endpoints": fields.get("endpoints") or "splits"}
        return _with_wire(dataset, form_fields, lambda form: Splits.of(BoundQuery(self._servers, form)))

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

        A file gets its name once it is complete, and splits that have a file are not read again. A job that was
        killed continues where it stopped, on the snapshots of its first run, which are in the folder's
        `manifest.json`.

        Args:
            dataset: the name of one that the server knows, or a dataset as a mapping.
            folder: created if it does not exist. Each run needs its own folder.
            evaluate: called with the stream of a split; reads it to its end, and returns the result as a table: of
                pyarrow, Polars or pandas, or anything that exports an Arrow stream.
            threads: how many splits to evaluate concurrently; `evaluate` is called by this many threads.
            part: (i, n) evaluates only the splits i, i + n, … of the plan, for n jobs that share a folder.
            progress: whether to show progress.
            fields: the query's other fields.

        Raises:
            Invalid: the folder belongs to a different run, or `evaluate` did not read its stream to the end.
            Corrupt: a file in the folder is not the complete result of its split. It is left as it is.
            OSError: a file cannot be written.
        """

        def ask(form: dict[str, Any]) -> Evaluation:
            return run(BoundQuery(self._servers, form), Path(folder), evaluate, threads, part, progress)

        form_fields: Mapping[str, Any] = {**fields, "endpoints": fields.get("endpoints") or "splits"}
        return _with_wire(dataset, form_fields, ask)

    @lists(RunQuery, Query)
    def verify(self, dataset: Dataset, **fields: Unpack[Query]) -> Report:
        """Checks that the tables of a query's dataset are laid out as the join expects.

        This reads all of their keys, which may take longer than the client's `timeout`. The report's
        `findings` have a `grade`: "stream" or "rule" if they break one, "note" if they are worth knowing.
        """
        return Report(json.loads(BoundQuery(self._servers, query.form(dataset, fields)).action("verify")))

    def stage(
        self,
        table: str,
        data: Any,
        *,
        mode: Literal["append", "replace"] = "append",
        token: str | None = None,
        key: Sequence[str] | None = None,
        sort: Sequence[str] | None = None,
        buckets: int | None = None,
        like: str | None = None,
        partition: Sequence[str] | None = None,
        branch: str | None = None,
        evolve: bool = False,
        only_keys_of: str | None = None,
        allow_duplicates: bool = False,
        allow_shrink: bool = False,
        dry_run: bool = False,
        progress: ProgressFunction | None = None,
    ) -> Staged:
        """Writes rows to a table, as one change that is made once.

        The server sorts them within its memory and local disk, in the partitions and the order of the table. Nothing is
        written unless `data` has been read to its end. If the connection is lost, the call is repeated with the same
        token, for as long as the client's `reconnect` says and if `data` can be read again.

        Args:
            table: [catalog.]namespace.table.
            data: the rows: a table, batch, reader or dataset of pyarrow, a data frame of pandas or Polars, a relation of
                DuckDB, anything else that exports an Arrow stream, a generator of record batches, or a function that
                returns one of these. Tables, datasets, data frames and functions can be read again.
            mode: "replace" replaces the days, or other partitions, that have new rows.
            token: the name of the change; a call with that of an earlier one writes nothing, as long as the table keeps
                the snapshot of that one. Any text, such as history-2026-11-26. If omitted, one is made.
            key: the key's columns. If omitted, the table's bucketed columns.
            sort: of a new table: the columns to sort by, such as ["user_id", "ts desc"]. If omitted, the key.
            buckets: of a new table: the number of buckets of the key's first column.
            like: for a new table: the training table to copy the bucket count and, where the rows have the columns,
                the partitions from.
            partition: of a new table: partition fields in front of the buckets, such as ["day(ts)"].
            branch: the branch to commit to, which begins at main. If omitted, main.
            evolve: add columns that the table does not have.
            only_keys_of: a dataset or table: rows whose key none of its training rows has are dropped.
            allow_duplicates: write rows although others, or rows of the table, have the same key.
            allow_shrink: let "replace" leave less than half as many rows in the partitions that it replaces.
            dry_run: read and sort the rows, and write nothing.
            progress: called about once a second, from a thread of its own.

        Raises:
            Error: its `token` names the change.
        """
        command = {
            "table": table,
            "mode": mode,
            "token": new_token() if token is None else token,
            "key": mistakes.names("key", key),
            "sort": mistakes.names("sort", sort),
            "buckets": None if buckets is None else mistakes.whole("buckets", buckets, minimum=1),
            "like": like,
            "partition": mistakes.names("partition", partition),
            "branch": branch,
            "evolve": evolve or None,
            "only_keys_of": only_keys_of,
            "allow_duplicates": allow_duplicates or None,
            "allow_shrink": allow_shrink or None,
            "dry_run": dry_run or None,
            "progress": progress is not None or None,
        }
        given = {name: value for name, value in command.items() if value is not None}
        return stage(self._servers, given, data, progress)

    def publish(self, table: str, branch: str) -> Published:
        """Moves main of a table to the snapshot of a branch, if main has no snapshot that the branch does not have.

        Raises:
            Conflict: it has; the error names them.
        """
        return self._moved("publish", {"table": table, "branch": branch})

    def tables(self, within: str | None = None) -> tuple[TableDescription, ...]:
        """Lists the tables of the server's catalogs that the client may read. Only metadata is read.

        Args:
            within: a catalog or a namespace; None for all.
        """
        return history.tables(self._servers, within)

    def log(self, table: str, *, branch: str | None = None, limit: int = 20) -> tuple[TableSnapshot, ...]:
        """Lists the snapshots of a branch of a table, the newest first, and which of them can be taken back.

        Args:
            table: [catalog.]namespace.table.
            branch: the branch or tag; main if it is None.
            limit: how many; 0 for all.
        """
        return history.log(self._servers, table, branch, limit)

    def undo(
        self, change: Staged | Published | str, *, branch: str | None = None, dry_run: bool = False
    ) -> Published:
        """Moves the branch of a change back to where it was before, if nothing else was committed to it since.

        After the first change of a table, it is empty again; a branch that began with the change is removed. No file is removed.

        Args:
            change: the result of `publish` or `stage`; or a table, whose last change of Penstock is taken back. `undone` of the
                result has the snapshots of that change.
            branch: with a table: the branch; main if it is None.
            dry_run: with a table: move nothing.

        Raises:
            Conflict: others committed since; the error names their snapshots.
        """
        if isinstance(change, str):
            last = {"table": change, "branch": branch, "dry_run": dry_run}
            return self._moved("undo", {name: value for name, value in last.items() if value is not None})
        if branch is not None or dry_run:
            raise query.invalid("change", "must be the name of a table with branch or dry_run")
        if not change.snapshot or change.previous == change.snapshot:
            raise query.invalid("change", "has moved nothing that could be moved back")
        body: dict[str, Any] = {"table": change.table, "from": change.previous, "to": change.snapshot}
        if isinstance(change, Staged):
            if change.branch != "main":
                body["branch"] = change.branch
            if change.branched:
                body["from"] = 0
        return self._moved("undo", body)

    def compact(
        self,
        table: str,
        *,
        partition: Sequence[str] | None = None,
        key: Sequence[str] | None = None,
        min_files: int | None = None,
        file_size: int | None = None,
        branch: str | None = None,
        any_order: bool = False,
        dry_run: bool = False,
        progress: ProgressFunction | None = None,
        timeout: float | None = None,
    ) -> Compacted:
        """Rewrites the files of a table that are small or have deletes. A call that failed continues when it is repeated.

        Args:
            table: [catalog.]namespace.table.
            partition: rewrite only files of partitions with these values, such as ["ts_day=2026-11-01"].
            key: columns that are equal in all rows of a key. If omitted, the table's bucketed columns.
            min_files: rewrite small files only if a partition has at least this many; 4 if omitted.
            file_size: the bytes of new files; 256 MiB if omitted.
            branch: the branch whose files are rewritten. If omitted, main.
            any_order: also rewrite files in which rows of a key change their order.
            dry_run: write nothing.
            progress: called when a step begins and about once a second.
            timeout: seconds after which the server ends the call; None for no limit.
        """
        body = {
            "table": table,
            "partition": mistakes.names("partition", partition),
            "key": mistakes.names("key", key),
            "min_files": None if min_files is None else mistakes.whole("min_files", min_files, minimum=2),
            "file_size": None if file_size is None else mistakes.whole("file_size", file_size, minimum=1),
            "branch": branch,
            "any_order": any_order,
            "dry_run": dry_run,
        }
        return Compacted.of(table, change(self._servers, "compact", body, progress, timeout))

    def restore(
        self,
        table: str,
        snapshot: int,
        *,
        partition: Sequence[str] | None = None,
        token: str | None = None,
        branch: str | None = None,
        dry_run: bool = False,
        progress: ProgressFunction | None = None,
        timeout: float | None = None,
    ) -> Restored:
        """Restores a table, or some of its partitions, as they were at a snapshot, as one change.

        Args:
            table: [catalog.]namespace.table.
            snapshot: the snapshot whose rows are restored.
            partition: restore only partitions with these values, such as ["ts_day=2026-11-01"].
            token: the name of the change; a call with that of an earlier one writes nothing. If omitted, one is made.
            branch: the branch to commit to. If omitted, main.
            dry_run: write nothing.
            progress: called when a step begins and about once a second.
            timeout: seconds after which the server ends the call; None for no limit.

        Raises:
            Error: its `token` names the change.
        """
        body = {
            "table": table,
            "snapshot": mistakes.whole("snapshot", snapshot, minimum=1),
            "partition": mistakes.names("partition", partition),
            "token": new_token() if token is None else token,
            "branch": branch,
            "dry_run": dry_run,
        }
        try:
            return Restored.of(table, change(self._servers, "restore", body, progress, timeout))
        except errors.Error as failure:
            failure.token = str(body["token"])
            raise

    def promote(
        self,
        dataset: str,
        *entries: str,
        earlier: Literal["continue", "restart"] | None = None,
        dry_run: bool = False,
        progress: ProgressFunction | None = None,
        timeout: float | None = None,
    ) -> Promoted:
        """Makes the columns of staging entries columns of the training table. A call that failed continues when it is repeated.

        Args:
            dataset: a dataset of the server.
            entries: its staging entries, of type left or overlay.
            earlier: what to do with an unfinished promotion of other snapshots: "continue" takes the values of its
                snapshots, "restart" begins again with the current ones. If omitted, it is a conflict.
            dry_run: write nothing, and estimate.
            progress: called when a step begins and about once a second.
            timeout: seconds after which the server ends the call; None for no limit.
        """
        body = {"dataset": dataset, "entries": list(entries), "earlier": earlier, "dry_run": dry_run}
        return Promoted.of(change(self._servers, "promote", body, progress, timeout))

    def demote(
        self, table: str, *columns: str, dry_run: bool = False, timeout: float | None = None
    ) -> Demoted:
        """Takes promoted columns of a training table back, with all columns of the same promotion.

        Args:
            table: [catalog.]namespace.table.
            columns: promoted columns.
            dry_run: change nothing, and return what would be taken back.
            timeout: seconds after which the server ends the call; None for no limit.
        """
        body = {"table": table, "columns": list(columns), "dry_run": dry_run}
        return Demoted.of(change(self._servers, "demote", body, None, timeout))

    def orphans(
        self,
        *tables: str,
        older_than: str | None = None,
        remove: bool = False,
        progress: ProgressFunction | None = None,
        timeout: float | None = None,
    ) -> tuple[OrphanFiles, ...]:
        """Finds files of failed writes that no snapshot names, and removes them if `remove` is true.

        Args:
            tables: each [catalog.]namespace.table.
            older_than: how long ago they were written, such as "12h" or "7d": longer than the longest write. If omitted, 3d.
            remove: remove them.
            progress: called when a step begins and about once a second.
            timeout: seconds after which the server ends the call; None for no limit.
        """
        body = {"tables": list(tables), "older_than": older_than, "remove": remove}
        results = change_results(self._servers, "orphans", body, progress, timeout)
        return orphan_files(page for pages in results for page in pages)

    def _moved(self, name: str, body: Mapping[str, Any]) -> Published:
        action = flight.Action(name, query.text(body))
        results = self._servers.call(lambda client, options: list(client.do_action(action, options)))
        if len(results) != 1:
            raise errors.Internal(f"the server answered {name} with {len(results)} results instead of one")
        return Published.of(bytes(results[0].body.to_pybytes()))

    def status(self) -> ServerStatus:
        """Returns what the server in use does now: its streams, and what each waits for.

        It has the client's own streams, or those of all clients if the server's policy allows `status` to this one.
        """
        action = flight.Action("status", b"{}")
        results = self._servers.call(lambda client, options: list(client.do_action(action, options)))
        if len(results) != 1:
            raise errors.Internal(f"the server answered status with {len(results)} results instead of one")
        return ServerStatus.of(bytes(results[0].body.to_pybytes()))

    def tell(self, name: str, message: Mapping[str, Any], *, timeout: float) -> None:
        """Sends a message to the current server, as an action without a meaningful result.

        Args:
            name: the action's name.
            message: the action's body, sent as JSON.
            timeout: in seconds.
        """
        action = flight.Action(name, query.text(message))
        options = replace(self._settings, timeout=timeout).options(unlimited=False)
        self._servers.current.call(lambda client, _: list(client.do_action(action, options)))

    @property
    def settings(self) -> Settings:
        """The settings of its connections."""
        return self._settings

    @property
    def reconnect(self) -> float:
        """Seconds for which streams retry when a server does not respond."""
        return self._settings.reconnect

    @property
    def uri(self) -> str:
        """The addresses of its servers, as `connect` and `penstock.torch.IterableDataset` take them."""
        return ",".join(self._settings.locations)

    def close(self) -> None:
        """Closes the client's streams and connections, and the server that `open` has started for it."""
        self._servers.close()
        if self._private is not None:
            self._private.close()

    def _opened(self, bound: BoundQuery, progress: ProgressOption) -> Stream:
        found = bound.plan()
        start = bound.form.get("cursor") or None
        stream = Stream(bound, Reading.all_of(bound, found), found.plan, start, ordered=found.ordered)
        stream.show_progress(progress)
        return stream

    def _repeated(self, bound: BoundQuery, progress: ProgressOption, number: int | None) -> Stream:
        found = bound.plan()
        start = bound.form.get("cursor") or None
        stream = RepeatedStream(bound, Reading.all_of(bound, found), found.plan, start, number)
        stream.show_progress(progress)
        return stream

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return (Client, (self._settings,))

    def __repr__(self) -> str:
        locations = ", ".join(self._settings.locations)
        return f"<penstock.Client of {locations}{', closed' if self._servers.closed else ''}>"


def _with_wire(dataset: Dataset, fields: Mapping[str, Any], ask: Callable[[dict[str, Any]], T]) -> T:
    """Sends a query with its own wire form, or else with the smallest one that works.

    Indexed batches have columns named after staging tables, which is impossible if other columns have the
    same names.
    """
    mistakes.refuse(fields)
    form = query.form(dataset, fields)
    if "wire" in form:
        return ask(form)
    try:
        return ask({**form, "wire": "auto"})
    except errors.Invalid as e:
        if [fault.field for fault in e.faults] != ["wire"]:
            raise
    return ask({**form, "wire": "plain"})
