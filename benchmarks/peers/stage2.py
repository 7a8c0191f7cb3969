"""Stage 2: DuckDB joins, writes the joined table as Parquet, and reads it once.

It is what a trainer waits for where features are copied into the training
table first. The read-back gives the same batches to the same kind of consumer
as the other contenders; bytes written are the sizes of the files.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa

from peers import contender, sql


class Stage2:
    """Every pass writes the files again, to a folder that is removed with the process."""

    def __init__(self, settings: contender.Settings, folder: Path) -> None:
        self._connection: duckdb.DuckDBPyConnection = sql.connect()
        self._query = sql.join(settings.inputs)
        self._batch_rows = settings.batch_rows
        self._folder = folder

    def stream(self) -> Iterator[pa.RecordBatch]:
        """Join and write, then read back."""
        target = self._folder / "joined"
        shutil.rmtree(target, ignore_errors=True)
        self._connection.execute(
            f"COPY ({self._query}) TO '{target}' (FORMAT parquet, COMPRESSION zstd, PER_THREAD_OUTPUT true)"
        )
        written = f"SELECT * FROM read_parquet('{target}/*.parquet')"
        yield from self._connection.sql(written).to_arrow_reader(self._batch_rows)

    def rows(self, batch: pa.RecordBatch) -> int:
        """The batch's rows."""
        return int(batch.num_rows)

    def arrow(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The batch itself."""
        return [batch]

    def written(self) -> int:
        """Bytes of the files of the last pass."""
        return sum(file.stat().st_size for file in self._folder.rglob("*.parquet"))


def main() -> None:
    """Work in a folder beside the tables, on the same disk."""
    settings = contender.parse()
    with tempfile.TemporaryDirectory(dir=settings.scratch, prefix="stage2-") as folder:
        stage2 = Stage2(settings, Path(folder))
        contender.run(stage2, settings, contender.joined(settings.inputs), stage2.written)


if __name__ == "__main__":
    main()
