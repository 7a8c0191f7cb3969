"""Jobs of Spark on two executors, which are killed in the middle of splits.

lost_executors.py ADDRESS FOLDER reads the dataset of broken_tasks twice, once into this process and once into Parquet files. It
writes the rows to FOLDER/collected.parquet and FOLDER/written, and what happened to FOLDER/collected.log and FOLDER/written.log.
lost_executors.py ADDRESS FOLDER speculation does so with a task of which Spark runs two attempts at once.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import broken_tasks
import pyarrow.parquet as pq
import pyspark
from sparked import start


def home(folder: Path) -> Path:
    """Returns a folder with Spark, in which executors write their logs."""
    found = folder / "home"
    found.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (found / entry.name).symlink_to(entry)
    return found


@contextmanager
def cluster(home: Path) -> Iterator[str]:
    """Starts a cluster with two workers on different hosts, and returns its URL: two attempts of a task never run on one host."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    master = ["master.Master", "--host", "127.0.0.1", "--port", str(port)]
    size = ["--cores", "1", "--memory", "512m", "--work-dir", str(home / "work")]
    workers = [["worker.Worker", "--host", f"127.0.0.{host}", *size, url] for host in (1, 2)]
    started = []
    try:
        for kind, *arguments in (master, *workers):
            command = [
                str(home / "bin" / "spark-class"),
                f"org.apache.spark.deploy.{kind}",
                "--webui-port",
                "0",
            ]
            started.append(subprocess.Popen([*command, *arguments], stderr=subprocess.DEVNULL))
        yield url
    finally:
        for process in started:
            process.kill()
            process.wait()


def main(address: str, folder: Path, speculation: bool) -> None:
    """Runs both jobs."""
    found = home(folder)
    os.environ["SPARK_HOME"] = str(found)
    os.environ["SPARK_DAEMON_MEMORY"] = "256m"
    settings = {"spark.executor.memory": "512m"}
    if not speculation:
        run(start(folder, "local-cluster[2,1,512]", settings), address, folder, {})
        return
    settings |= {
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.efficiency.enabled": "false",
    }
    with cluster(found) as url:
        run(start(folder, url, settings), address, folder, {"slow": 2})


def run(spark: Any, address: str, folder: Path, slow: dict[str, Any]) -> None:
    """Reads the dataset twice."""
    for job in ("collected", "written"):
        pipe = folder / f"{job}.pipe"
        os.mkfifo(pipe)
        accidents = {"log": str(folder / f"{job}.log"), "executors": [0, 3], "pipe": str(pipe), **slow}
        frame = broken_tasks.read(spark, address, 1000, **accidents)
        if job == "written":
            frame.write.parquet(str(folder / job))
        else:
            pq.write_table(frame.toArrow(), folder / f"{job}.parquet")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), "speculation" in sys.argv[3:])
