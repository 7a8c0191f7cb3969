"""The format "penstock", with tasks that are killed or slow. Spark's workers import this module."""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import datasource as source
from pyspark.sql.types import StructType

import penstock
import penstock.spark
from penstock import query

# All of its splits with a key join the same files.
DATASET = {
    "training": {"table": "ml.events"},
    "key": ["request_id"],
    "staging": [{"table": "features.scores", "strategy": "broadcast"}],
}
FIELDS: dict[str, Any] = {"columns": ["row", "score"], "batch_rows": 100}


def read(spark: SparkSession, address: str, parallelism: int, **accidents: Any) -> DataFrame:
    """Returns a frame of the dataset in at least so many tasks, with accidents, the options of Broken."""
    frame = penstock.spark.read(spark, address, DATASET, **FIELDS)
    with penstock.connect(address) as client:
        pin = client.plan(DATASET).pin
    form = query.form(DATASET, {**FIELDS, "endpoints": "splits", "wire": "plain", "snapshots": pin})
    spark.dataSource.register(Broken)
    options = {
        "access": json.dumps({"locations": [f"grpc://{address}"], "files": []}),
        "query": json.dumps(form),
        "parallelism": str(parallelism),
        "accidents": json.dumps(accidents),
    }
    return spark.read.format(Broken.name()).schema(frame.schema).options(**options).load()


class Broken(penstock.spark.Penstock):
    """The format "penstock" with accidents at the second batch of a split.

    The option "accidents" is an object with these fields:
    * log: a file that gets a line for each accident.
    * workers: how many attempts of each task end with the process of the task.
    * executors: the tasks whose first attempt ends with its executor, the parent of these processes.
    * slow: a task whose first attempt waits until Spark has started another one.
    * pipe: the path of a pipe, by which these attempts meet.
    """

    @classmethod
    def name(cls) -> str:
        return "broken"

    def reader(self, schema: StructType) -> source.DataSourceReader:
        return _Broken(super().reader(schema), json.loads(self.options["accidents"]))


class _Broken(source.DataSourceReader):
    def __init__(self, inner: Any, accidents: dict[str, Any]) -> None:
        self._inner = inner
        self._accidents = accidents

    def partitions(self) -> Any:
        return self._inner.partitions()

    def read(self, partition: source.InputPartition) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(self._inner.read(partition)):
            if number == 1:
                self._meet(TaskContext.get().partitionId(), TaskContext.get().attemptNumber())
            yield batch

    def _meet(self, task: int, attempt: int) -> None:
        if attempt < self._accidents.get("workers", 0):
            self._note(f"worker {task}")
            os.kill(os.getpid(), signal.SIGKILL)
        if attempt == 0 and task in self._accidents.get("executors", []):
            self._note(f"executor {task}")
            os.kill(_executor(), signal.SIGKILL)
            signal.pause()  # the process ends with the executor
        if task == self._accidents.get("slow") and attempt < 2:
            self._note(f"slow {attempt}")
            (_wait if attempt == 0 else _wake)(self._accidents["pipe"])

    def _note(self, line: str) -> None:
        with Path(self._accidents["log"]).open("a") as file:
            file.write(line + "\n")


def _executor() -> int:
    """Returns the executor's process: the parent of the daemon whose child this process is."""
    process = os.getppid()
    while "CoarseGrainedExecutorBackend" not in Path(f"/proc/{process}/cmdline").read_text():
        status = Path(f"/proc/{process}/status").read_text()
        process = int(status.partition("PPid:")[2].split()[0])
    return process


def _wait(pipe: str) -> None:
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    poll = select.poll()
    poll.register(end, select.POLLIN)
    if not poll.poll(300_000):
        raise TimeoutError("Spark has started no other attempt")
    os.close(end)


def _wake(pipe: str) -> None:
    with Path(pipe).open("wb") as file:
        file.write(b".")
