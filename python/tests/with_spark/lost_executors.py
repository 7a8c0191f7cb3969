"""Jobs of Spark on two executors, which are killed in the middle of splits.

lost_executors.py ADDRESS FOLDER reads the dataset of broken_tasks twice, once into this process and once into Parquet files. It
writes the rows to FOLDER/collected.parquet and FOLDER/written, and what happened to FOLDER/collected.log and FOLDER/written.log.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

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


def main(address: str, folder: Path) -> None:
    """Runs both jobs."""
    os.environ["SPARK_HOME"] = str(home(folder))
    spark = start(folder, "local-cluster[2,1,512]", {"spark.executor.memory": "512m"})
    for job in ("collected", "written"):
        frame = broken_tasks.read(spark, address, 1000, log=str(folder / f"{job}.log"), executors=[0, 3])
        if job == "written":
            frame.write.parquet(str(folder / job))
        else:
            pq.write_table(frame.toArrow(), folder / f"{job}.parquet")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
