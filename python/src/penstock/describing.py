"""The calls of a client that describe tables."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import history, mistakes
from penstock.history import TableDescription, TableSnapshot
from penstock.longcalls import ProgressFunction, long_call, results_of
from penstock.servers import Servers
from penstock.tablediff import TableDiff
from penstock.tablestats import Statistics


class DescribeCalls:
    """The methods of `Client` that describe tables. `Client` is the only subclass."""

    _servers: Servers  # set by the subclass

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
