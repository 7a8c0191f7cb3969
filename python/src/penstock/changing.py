"""The calls of a client that change tables without sending rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

from penstock import errors, mistakes
from penstock.changes import Compacted, Demoted, OrphanFiles, Promoted, Restored, orphan_files
from penstock.longcalls import ProgressFunction, long_call, results_of
from penstock.servers import Servers
from penstock.staging import new_token


class ChangeCalls:
    """The methods of `Client` that change tables without sending rows. `Client` is the only subclass."""

    _servers: Servers  # set by the subclass

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
