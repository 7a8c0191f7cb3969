"""The format "penstock", with tasks that are killed. Spark's workers import this module."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import datasource as source
from pyspark.sql.types import StructType

from penstock.spark import Penstock


class Killed(Penstock):
    """Kills the process of each task twice, at its second batch. The option "kills" is a file that gets a line for each kill."""

    @classmethod
    def name(cls) -> str:
        return "killed"

    def reader(self, schema: StructType) -> source.DataSourceReader:
        return _Killed(super().reader(schema), Path(self.options["kills"]))


class _Killed(source.DataSourceReader):
    def __init__(self, inner: Any, kills: Path) -> None:
        self._inner = inner
        self._kills = kills

    def partitions(self) -> Any:
        return self._inner.partitions()

    def read(self, partition: source.InputPartition) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(self._inner.read(partition)):
            if number == 1 and TaskContext.get().attemptNumber() < 2:
                with self._kills.open("a") as file:
                    file.write(f"{TaskContext.get().partitionId()}\n")
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch
