"""DuckDB in the consumer's own process, asked with `execute` as a DB-API client does."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from peers import contender
from peers.duckdb_local import DuckDB


class Executed(DuckDB):
    """Gives the batches of a result that DuckDB has first materialised."""

    def stream(self) -> Iterator[pa.RecordBatch]:
        """Run the join to its end, then convert what was kept."""
        yield from self._connection.execute(self._query).to_arrow_reader(self._batch_rows)


if __name__ == "__main__":
    contender.main(Executed, contender.joined)
