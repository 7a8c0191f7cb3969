"""DuckDB in the consumer's own process."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from peers import contender, sql


class DuckDB:
    """Streams Arrow batches of a query."""

    def __init__(self, settings: contender.Settings) -> None:
        self._connection = sql.connect()
        self._query = sql.join(settings.inputs)
        self._batch_rows = settings.batch_rows

    def stream(self) -> Iterator[pa.RecordBatch]:
        """Run the join.

        A relation streams; a result of `execute` would first be materialised and
        then copied (`duckdb_execute`).
        """
        yield from self._connection.sql(self._query).to_arrow_reader(self._batch_rows)

    def rows(self, batch: pa.RecordBatch) -> int:
        """The batch's rows."""
        return int(batch.num_rows)

    def arrow(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The batch itself."""
        return [batch]


if __name__ == "__main__":
    contender.main(DuckDB, contender.joined)
