"""The calls of a client that write rows to tables, and that publish or undo such changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from penstock import errors, mistakes, query
from penstock.answers import parsed
from penstock.longcalls import ProgressFunction
from penstock.querying import QueryCalls
from penstock.sqlrows import SqlRows
from penstock.staged import Published, Staged
from penstock.staging import new_token, stage


class PublishCalls(QueryCalls):
    """The methods of `Client` that write rows, publish them and undo changes. `Client` is the only subclass.

    Rows may be computed from tables of the server, which the methods of `QueryCalls` read.
    """

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
        and the branch still has them, it writes nothing, and the result's `existed` is true. If the connection is lost,
        the call is repeated with the same token for up to the client's `reconnect` seconds, provided that `data` can be
        read again.

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
            data = SqlRows(self, sql)
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
        body = {
            "table": table,
            "branch": branch,
            "from": None if seen is None else seen.previous,
            "to": None if seen is None else seen.snapshot,
            "dry_run": dry_run or None,
            "no_check": no_check or None,
        }
        return self._moved("publish", body)

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

    def _moved(self, name: str, body: Mapping[str, Any]) -> Published:
        answer = self._servers.action(name, body)
        with errors.decoding(f"the server's answer to {name}"):
            return Published.of(parsed(answer))
