"""DuckDB in the consumer's own process, with `execute`, like a DB-API client."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from peers import contender
from peers.duckdb_local import DuckDB


class Executed(DuckDB):
    """Yields the batches of a result that DuckDB materializes first."""

    def stream(self) -> Iterator[pa.RecordBatch]:
        """Run the join to its end, then convert the stored result."""
        yield from self._connection.execute(self._query).to_arrow_reader(self._batch_rows)


if __name__ == "__main__":
    contender.main(Executed, contender.joined)
