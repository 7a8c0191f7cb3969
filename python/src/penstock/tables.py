"""The calls of a client that describe and change tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from penstock import errors, history, mistakes, query
from penstock.answers import parsed
from penstock.changes import Compacted, Demoted, OrphanFiles, Promoted, Restored, orphan_files
from penstock.history import TableDescription, TableSnapshot
from penstock.longcalls import ProgressFunction, long_call, results_of
from penstock.servers import Servers
from penstock.sqlrows import SqlRows
from penstock.staged import Published, Staged
from penstock.staging import new_token, stage
from penstock.tablediff import TableDiff
from penstock.tablestats import Statistics

if TYPE_CHECKING:
    from penstock.client import Client


class TableCalls:
    """The methods of `Client` that describe and change tables. `Client` is the only subclass."""

    _servers: Servers  # set by the subclass

    def stage(
        self,
        table: str,
        data: Any = None,
        *,
        sql: str | None = None,
        mode: Literal["append", "replace"] = "append",
        token: str | None = None,
        again: bool | None = None,
        rows_id: str | None = None,
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
            sql: a SELECT that computes the rows, in place of `data`, in this process with the module duckdb. Tables of
                the server have the names that queries use, such as ml.impressions, and are read at one snapshot.
            mode: "append" adds rows; "replace" replaces the days, or other partitions, that have new rows.
            token: the name of the change, such as history-2026-11-26. A later call with the same token writes nothing,
                whatever its rows are, as long as the table keeps the snapshot of the first one. If omitted, the client
                generates a token.
            again: whether to write rows that the branch has from an earlier call. If omitted, they are written only if
                there is a `token`, which then shows whether the call was made.
            rows_id: identifies the rows in place of their values, such as the names and versions of the inputs from
                which they are computed. Calls with the same id must have the same rows: a repeated call writes nothing,
                and sends no row. It has no effect with `only_keys_of`.
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
        if (data is None) == (sql is None):
            raise query.invalid("data", "or sql must be given, and not both")
        if sql is not None:
            data = SqlRows(cast("Client", self), sql)
            rows_id = data.id if rows_id is None else rows_id
        command = {
            "table": table,
            "mode": mode,
            "token": new_token() if token is None else token,
            "again": token is not None if again is None else again,
            "rows_id": rows_id,
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

    def publish(
        self,
        table: str,
        branch: str,
        *,
        seen: Published | None = None,
        dry_run: bool = False,
        no_check: bool = False,
    ) -> Published:
        """Moves a table's main to the snapshot of a branch, if the branch contains all snapshots of main.

        Args:
            table: [catalog.]namespace.table.
            branch: the branch.
            seen: the result of a dry run: main is moved only if main and the branch are still at its snapshots. Such a
                call can be repeated: if main has been moved so, it returns the move.
            dry_run: move nothing, and return the move.
            no_check: do not check the limits of the datasets that read the table.

        Raises:
            Invalid: the rows of the branch break limits of a dataset; the error names the columns and partitions.
            Conflict: main has other snapshots, which the error names, or main or the branch has moved.
        """
        body: dict[str, Any] = {"table": table, "branch": branch}
        if seen is not None:
            body["from"], body["to"] = seen.previous, seen.snapshot
        if dry_run:
            body["dry_run"] = True
        if no_check:
            body["no_check"] = True
        return self._moved("publish", body)

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

    def diff(
        self,
        table: str,
        before: str | int | None = None,
        after: str | int | None = None,
        *,
        key: Sequence[str] | None = None,
        only_files: bool = False,
        progress: ProgressFunction | None = None,
        timeout: float | None = None,
    ) -> TableDiff:
        """Compares two snapshots of a table: files, columns, and the keys that were added, gone or changed.

        Args:
            table: [catalog.]namespace.table.
            before: the earlier snapshot, as an id or the name of a branch or tag. "none" is a table without rows. If
                omitted, the parent of the later snapshot.
            after: the later snapshot. If omitted, that of main.
            key: the columns of the key. If omitted, the key that the table records, or else the columns by which a
                dataset joins the table, those of its buckets, or those of its sort order.
            only_files: compare files and columns only, and read no rows.
            progress: called when rows are read, about once a second.
            timeout: seconds after which the server ends the call; None for no limit.
        """
        body = {
            "table": table,
            "from": None if before is None else str(before),
            "to": None if after is None else str(after),
            "key": mistakes.names("key", key),
            "only_files": only_files,
        }
        return self._servers.retried(
            lambda: long_call(self._servers, "diff", body, TableDiff.of, progress, timeout)
        )

    def stats(
        self,
        of: str,
        at: str | int | None = None,
        *,
        against: str | int | None = None,
        columns: Sequence[str] | None = None,
        label: str | None = None,
        exact: bool = False,
        no_values: bool = False,
        keep: bool = False,
        progress: ProgressFunction | None = None,
        timeout: float | None = None,
    ) -> Statistics:
        """Describes the values of the columns of a table or dataset: nulls, quantiles, distinct and frequent values.

        Args:
            of: the name of a dataset, or [catalog.]namespace.table.
            at: of a table: the snapshot, as an id, the name of a branch or tag, or a time such as 2026-11-01. If omitted,
                that of main.
            against: compare with this snapshot of the table, or with this dataset; the result's `alarms` are the changes
                beyond their limits.
            columns: the columns to describe. If omitted, all columns.
            label: a column of numbers or booleans; the result's `alarms` have the columns that probably have the label
                itself.
            exact: take quantiles and frequent values from all rows, whose values then have to fit in the server's
                memory.
            no_values: leave out frequent values, and the first and last text.
            keep: also keep the result with the table, in a statistics file of the snapshot that other engines read.
            progress: called when rows are read, about once a second.
            timeout: seconds after which the server ends the call; None for no limit.
        """
        body = {
            "of": of,
            "at": None if at is None else str(at),
            "against": None if against is None else str(against),
            "columns": mistakes.names("columns", columns),
            "label": label,
            "exact": exact,
            "no_values": no_values,
            "keep": keep,
            "html": True,
        }
        return self._servers.retried(
            lambda: results_of(self._servers, "stats", body, Statistics.of, progress, timeout)
        )

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

        If the change created the table, and no other program has committed to it, the table is dropped, which needs
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
        decode = partial(Compacted.of, table)
        return long_call(self._servers, "compact", body, decode, progress, timeout)

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
        no_check: bool = False,
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
            no_check: do not check the datasets that read the table; see `stage`.
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
            "no_check": no_check,
        }
        decode = partial(Restored.of, table)
        try:
            return long_call(self._servers, "restore", body, decode, progress, timeout)
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
            "entries": mistakes.arguments("entries", entries),
            "earlier": earlier,
            "dry_run": dry_run,
            "no_check": no_check,
        }
        return long_call(self._servers, "promote", body, Promoted.of, progress, timeout)

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
        body = {
            "table": table,
            "columns": mistakes.arguments("columns", columns),
            "dry_run": dry_run,
            "no_check": no_check,
        }
        return long_call(self._servers, "demote", body, Demoted.of, None, timeout)

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
        return results_of(self._servers, "orphans", body, orphan_files, progress, timeout)

    def _moved(self, name: str, body: Mapping[str, Any]) -> Published:
        answer = self._servers.action(name, body)
        with errors.decoding(f"the server's answer to {name}"):
            return Published.of(parsed(answer))
