"""The client: datasets, plans and streams of a server."""

from __future__ import annotations

import json
import os
import threading
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
    """Creates a client for one or several servers of the same datasets. It connects at its first call.

    If the server is killed, restarted or drained, or the connection is lost, a stream resumes with the very next row:
    the client queries again with the stream's cursor, at the next address if there are several. It also queries again
    if no server accepts the stream's ticket. Calls that only read, such as `plan` and `read`, are retried, too, once a
    server has answered the client; if no server ever has, the failure is raised at once. Retries wait a tenth of a
    second at first, then longer, up to ten seconds; each logs a warning to the logger "penstock". Errors that a retry
    cannot fix are raised at once.

    Args:
        uri: host:port, grpc://host:port, grpc+tls://host:port or grpc+unix:///path.
            For several servers, a list of these or a comma-separated string. The client uses the first one until it
            fails, then the next one; give trainers different orders to balance the load.
        token: bearer token. It is pickled with the client, and sent to other machines only over TLS.
        token_file: file with the token, read again for each call, so that the token can be replaced. The path is
            pickled, but not the token.
        headers: sent with every call, and pickled.
        tls_roots: PEM certificates to trust instead of the system's.
        tls_chain: PEM certificate chain of the client, for mutual TLS.
        tls_key: PEM key of the client, for mutual TLS.
        timeout: seconds that one attempt of a call may take, None for no limit. A call that takes longer is not
            retried. It does not apply to streams or to plans that count rows.
        lookahead: bytes that the transport may buffer for a stream. None lets the transport choose, which is fastest
            but takes up to 40 MB for a slow reader. The size of about two batches limits memory at nearly the same
            speed.
        reconnect: seconds for which a failed stream or call is retried before it raises an error; each received batch
            resets the time. 0 raises at once.
        local: read batches from mapped memory if the server runs on this host and has a `local_socket`. This is much
            faster than the network, and the batches are equal. False always uses the network.

    Raises:
        Invalid: an argument is not valid.
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
    """Starts a private server for a config file, or shares a running one, and creates a client for it.

        with penstock.open("penstock.yaml") as client:
            table = client.read("homefeed").read_all()

    The server is a separate process with a socket to which only this user's processes can connect. It inherits this
    process's environment, including its credentials. All processes of this user that open the same file with the same
    settings and credentials, such as the ranks of a host, share one server. It ends when the last of their clients is
    closed or unused, or when the last of these processes ends. Settings in the file that protect a server or expose it
    to others are ignored: its addresses, TLS, tokens and metrics, `policy`, `audit_log`, `ticket_keys` and `cache_dir`.

    Forked and spawned processes, such as DataLoader workers, can use the client or its `uri` to read from the same
    server. When the last process that opened the server ends, their streams end with an error.

    Args:
        config: the config file with the datasets.
        settings: server settings that override the file's, such as {"memory": "4GiB"}.
        program: the server program. If omitted, the one installed by this package's wheel, or else the one on the PATH.
        share: False starts a server for this process only.
        timeout: as in `connect`.
        lookahead: as in `connect`.
        reconnect: as in `connect`; if the private server has ended, failures are raised at once.
        local: as in `connect`.

    Raises:
        NotFound: there is no program.
        Invalid: the config file or an argument contains a mistake, or the program's version differs from this
            package's.
        Unavailable: the server does not start.
    """
    private = start(config, settings, program, share=share)
    given = connect(private.address, timeout=timeout, lookahead=lookahead, reconnect=reconnect, local=local)
    return Client(replace(given.settings, private=private), private)


class Client:
    """The datasets, plans and streams of a service. Created by `connect` or `open`.

    A client is safe for threads. It survives a fork, unless one of its streams is open. It can be pickled, including
    its credentials; of a `token_file`, only the path is pickled. Close it when done; closing ends the client's streams.

    Keyword arguments are the fields of a query, see `Query`. None leaves a field out, `shard` may be a pair (index,
    of), and the server rejects unsupported fields by name. If `wire` is not set, the server sends batches in the
    smaller form, and the client converts them to plain batches.

    A method that fails raises one of `penstock.errors`. Methods that only read are retried as `connect` describes,
    except `status`. Methods that change tables try each address once, except `stage`, which repeats its call.
    """

    def __init__(self, settings: Settings, private: PrivateServer | None = None) -> None:
        self._settings = settings
        self._servers = Servers(settings)
        self._private = private  # closed with this client

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
            return self._servers.call(lambda client, options: client.get_schema(descriptor, options).schema)

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
            lambda: self.read_once(dataset, progress=progress, repeat=repeat, **fields)
        )

    @lists(RunQuery, Query)
    def read_once(
        self,
        dataset: Dataset,
        *,
        progress: ProgressOption = False,
        repeat: Repeat | None = None,
        **fields: Unpack[Query],
    ) -> Stream:
        """Opens the stream of a query like `read`, but tries each address once, for callers that retry themselves.

        Args:
            dataset: as in `read`.
            progress: as in `read`.
            repeat: as in `read`.
            fields: as in `read`.
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
            dataset: the name of a dataset on the server, or a dataset as a mapping.
            progress: as in `read`.
            repeat: as in `read`.
            fields: the query's other fields.
        """

        def open_stream(closed: threading.Event) -> Stream:
            return self._servers.retried(
                lambda: self.read_once(dataset, progress=progress, repeat=repeat, **fields), closed
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
    def explain(self, dataset: Dataset, *, splits: bool = False, **fields: Unpack[Query]) -> Explanation:
        """Explains what a query reads, in which order and why, in at most 40 lines of text.

        Args:
            dataset: the name of a dataset on the server, or a dataset as a mapping.
            splits: return the full explanation: each split with its file groups, each lane, and all rules.
            fields: the query's other fields.
        """
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
    def verify(self, dataset: Dataset, **fields: Unpack[Query]) -> Report:
        """Checks that the tables of a query's dataset have the layout that the join expects.

        The server reads all keys of the tables, which may take longer than the client's `timeout`. Each of the report's
        `findings` has a `grade`: "stream" if it breaks streams, "rule" if it breaks a rule of the dataset, or "note"
        for information.
        """
        bound = BoundQuery(self._servers, query.form(dataset, fields))
        return Report(json.loads(self._servers.retried(lambda: bound.action("verify"))))

    def stage(
        self,
        table: str,
        data: Any,
        *,
        mode: Literal["append", "replace"] = "append",
        token: str | None = None,
        again: bool | None = None,
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
        no_check: bool = False,
        progress: ProgressFunction | None = None,
    ) -> Staged:
        """Writes rows to a table, as one change that is made exactly once.

        The server sorts the rows into the table's partitions and order, within its memory and local disk. It writes
        nothing until it has received all of `data`. If an earlier call wrote the same rows in the same order and mode,
        and the branch still has them, it writes nothing, and the result's `existed` is true. If the connection is lost, the call is repeated with the same token
        for up to the client's `reconnect` seconds, provided that `data` can be read again.

        Args:
            table: [catalog.]namespace.table.
            data: the rows: a pyarrow table, batch, reader or dataset, a pandas or Polars data frame, a DuckDB relation,
                anything else that exports an Arrow stream, a generator of record batches, or a function that returns
                one of these. Tables, datasets, data frames and functions can be read again.
            mode: "append" adds rows; "replace" replaces the days, or other partitions, that have new rows.
            token: the name of the change, such as history-2026-11-26. A later call with the same token writes nothing,
                whatever its rows are, as long as the table keeps the snapshot of the first one. If omitted, the client
                generates a token.
            again: whether to write rows that the branch has from an earlier call. If omitted, they are written only if
                there is a `token`, which tells then whether the call was made.
            key: the columns of the key. If omitted, the table's bucketed columns.
            sort: for a new table: the columns to sort by, such as ["user_id", "ts desc"]. If omitted, the key.
            buckets: for a new table: the number of buckets of the key's first column.
            like: for a new table: the training table from which to copy the bucket count, and the partitions whose
                columns the rows have.
            partition: for a new table: partition fields before the buckets, such as ["day(ts)"].
            branch: the branch to commit to; a new branch begins at main. If omitted, main.
            evolve: add columns that the table does not have.
            only_keys_of: a dataset or table; only rows whose key is in its training rows are written.
            allow_duplicates: allow rows with the same key as other rows of the data or the table.
            allow_shrink: allow "replace" to leave fewer than half of the rows in the replaced partitions.
            dry_run: read and sort the rows, and write nothing.
            no_check: do not check the datasets that read the table. The check takes at most 10 seconds. If it finds a
                dataset that can no longer be read, it logs a warning to the logger "penstock".
            progress: called about once a second, usually from a separate thread.

        Raises:
            Error: the change failed; the error's `token` names the change.
        """
        command = {
            "table": table,
            "mode": mode,
            "token": new_token() if token is None else token,
            "again": token is not None if again is None else again,
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
            "no_check": no_check or None,
            "progress": progress is not None or None,
        }
        given = {name: value for name, value in command.items() if value is not None}
        return stage(self._servers, given, data, progress)

    def publish(self, table: str, branch: str) -> Published:
        """Moves a table's main to the snapshot of a branch, if the branch contains all snapshots of main.

        Raises:
            Conflict: main has other snapshots; the error names them.
        """
        return self._moved("publish", {"table": table, "branch": branch})

    def tables(self, within: str | None = None) -> tuple[TableDescription, ...]:
        """Lists the tables of the server's catalogs that the client may read. The server reads only metadata.

        Args:
            within: a catalog, a namespace or a table; None for all.
        """
        return self._servers.retried(lambda: history.tables(self._servers, within))

    def log(self, table: str, *, branch: str | None = None, limit: int = 20) -> tuple[TableSnapshot, ...]:
        """Lists the snapshots of a table's branch, newest first, and shows which ones can be undone.

        Args:
            table: [catalog.]namespace.table.
            branch: the branch or tag; main if it is None.
            limit: the maximum number of snapshots; 0 for all.
        """
        return self._servers.retried(lambda: history.log(self._servers, table, branch, limit))

    def undo(
        self,
        change: Staged | Published | str,
        *,
        branch: str | None = None,
        drop: bool = False,
        dry_run: bool = False,
        no_check: bool = False,
    ) -> Published:
        """Moves a branch back to its snapshot before a change, if nothing else was committed to it since.

        If the change created the table, and nobody else has committed to the table, the table is dropped, which needs
        `drop`. If the change was the table's first otherwise, the table is empty again; if the change created the
        branch, the branch is removed. No data files are removed.

        Args:
            change: the result of `publish` or `stage`; or a table, whose last change by Penstock is undone. The
                result's `undone` then has the snapshots of that change.
            branch: for a table: the branch; main if it is None.
            drop: drop the table if the change created it.
            dry_run: for a table: move nothing.
            no_check: do not check the datasets that read the table; see `stage`.

        Raises:
            Conflict: others committed since; the error names their snapshots. Or the table would be dropped, and `drop`
                is false; the error names datasets that read the table.
        """
        if isinstance(change, str):
            named = {"table": change} if branch is None else {"table": change, "branch": branch}
            # The snapshots are named, so that a call that is repeated after a lost answer does not undo another change.
            last = self._moved("undo", {**named, "dry_run": True})
            if dry_run:
                return last
            done = self._moved(
                "undo",
                {**named, "from": last.snapshot, "to": last.previous, "drop": drop, "no_check": no_check},
            )
            return replace(done, undone=last.undone)
        if branch is not None or dry_run:
            raise query.invalid("change", "must be the name of a table with branch or dry_run")
        if not change.snapshot or change.previous == change.snapshot:
            raise query.invalid("change", "has moved nothing that could be moved back")
        body: dict[str, Any] = {
            "table": change.table,
            "from": change.previous,
            "to": change.snapshot,
            "drop": drop,
            "no_check": no_check,
        }
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
        """Rewrites the files of a table that are small or have deletes. Repeat a failed call to continue it.

        Args:
            table: [catalog.]namespace.table.
            partition: rewrite only files of partitions with these values, such as ["ts_day=2026-11-01"].
            key: the columns of the key; rows with the same key keep their order. If omitted, the table's bucketed
                columns.
            min_files: rewrite small files only if a partition has at least this many; 4 if omitted.
            file_size: the bytes of new files; 256 MiB if omitted.
            branch: the branch whose files are rewritten. If omitted, main.
            any_order: also rewrite files if this changes the order of a key's rows.
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
        allow_duplicates: bool = False,
        dry_run: bool = False,
        progress: ProgressFunction | None = None,
        timeout: float | None = None,
    ) -> Restored:
        """Restores a table, or some of its partitions, to their state at a snapshot, as one change.

        Args:
            table: [catalog.]namespace.table.
            snapshot: the snapshot whose rows are restored.
            partition: restore only partitions with these values, such as ["ts_day=2026-11-01"].
            token: the name of the change; a later call with the same token writes nothing. If omitted, the client
                generates one.
            branch: the branch to commit to. If omitted, main.
            allow_duplicates: restore partitions even if rows of them or of other partitions have the same key.
            dry_run: write nothing.
            progress: called when a step begins and about once a second.
            timeout: seconds after which the server ends the call; None for no limit.

        Raises:
            Error: the change failed; the error's `token` names the change.
        """
        body = {
            "table": table,
            "snapshot": mistakes.whole("snapshot", snapshot, minimum=1),
            "partition": mistakes.names("partition", partition),
            "token": new_token() if token is None else token,
            "branch": branch,
            "allow_duplicates": allow_duplicates,
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
        no_check: bool = False,
        progress: ProgressFunction | None = None,
        timeout: float | None = None,
    ) -> Promoted:
        """Adds the columns of staging entries to the training table. Repeat a failed call to continue it.

        Args:
            dataset: a dataset of the server.
            entries: staging entries of the dataset, of type left or overlay.
            earlier: what to do with an unfinished promotion of other snapshots: "continue" uses the values of its
                snapshots, "restart" starts over with the current ones. If omitted, the call raises Conflict.
            dry_run: write nothing, and return estimates.
            no_check: do not check the datasets that read the table; see `stage`.
            progress: called when a step begins and about once a second.
            timeout: seconds after which the server ends the call; None for no limit.
        """
        body = {
            "dataset": dataset,
            "entries": list(entries),
            "earlier": earlier,
            "dry_run": dry_run,
            "no_check": no_check,
        }
        return Promoted.of(change(self._servers, "promote", body, progress, timeout))

    def demote(
        self,
        table: str,
        *columns: str,
        dry_run: bool = False,
        no_check: bool = False,
        timeout: float | None = None,
    ) -> Demoted:
        """Undoes the promotion of columns of a training table, including all columns of the same promotion.

        Args:
            table: [catalog.]namespace.table.
            columns: promoted columns.
            dry_run: change nothing, and return the columns that would be dropped.
            no_check: do not check the datasets that read the table; see `stage`.
            timeout: seconds after which the server ends the call; None for no limit.
        """
        body = {"table": table, "columns": list(columns), "dry_run": dry_run, "no_check": no_check}
        return Demoted.of(change(self._servers, "demote", body, None, timeout))

    def orphans(
        self,
        *tables: str,
        older_than: str | None = None,
        remove: bool = False,
        progress: ProgressFunction | None = None,
        timeout: float | None = None,
    ) -> tuple[OrphanFiles, ...]:
        """Finds files of failed writes that no snapshot references, and removes them if `remove` is true.

        Args:
            tables: the tables, as [catalog.]namespace.table.
            older_than: the minimum age of the files, such as "12h" or "7d"; must exceed the longest write. If omitted,
                3d.
            remove: remove the files.
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

    def status(self, *, timeout: float | None = None) -> ServerStatus:
        """Returns the current state of the server in use: its streams, and the cause of each one's wait. Does not retry.

        The result has the client's own streams, or the streams of all clients if the server's policy allows this client
        `status`.

        Args:
            timeout: in seconds; that of the client if omitted.
        """
        action = flight.Action("status", b"{}")
        settings = self._settings if timeout is None else replace(self._settings, timeout=timeout)
        options = settings.options(unlimited=False)
        results = self._servers.call(lambda client, _: list(client.do_action(action, options)))
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
        """The settings of the connections."""
        return self._settings

    @property
    def reconnect(self) -> float:
        """The seconds for which streams and calls retry if no server responds."""
        return self._settings.reconnect

    @property
    def uri(self) -> str:
        """The addresses of the servers, in the form that `connect` and `penstock.torch.IterableDataset` accept."""
        return ",".join(self._settings.locations)

    def close(self) -> None:
        """Closes the client's streams and connections, and its use of the server that `open` started."""
        self._servers.close()
        if self._private is not None:
            self._private.close()

    def _retried(self, dataset: Dataset, fields: Mapping[str, Any], ask: Callable[[dict[str, Any]], T]) -> T:
        return self._servers.retried(lambda: _with_wire(dataset, fields, ask))

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
    """Sends a query with its own wire form, or with the smallest form that works if it sets none.

    Indexed batches have columns named after staging tables, so they are impossible if other columns have the same
    names.
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
