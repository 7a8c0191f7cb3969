"""Spark in this process, and a dataset that PyIceberg writes in another one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent

# The workers of Spark import the sources of this folder, too.
WRITER = os.environ.get("PENSTOCK_PYTHON", str(FOLDER.parents[2] / ".venv" / "test" / "bin" / "python"))


def start(scratch: Path, master: str = "local[2,3]", more: dict[str, str] | None = None) -> Any:
    """Starts Spark with two tasks at once, which are tried three times, or as `master` and more settings say."""
    paths = [str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    settings = {
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Dderby.system.home={scratch}",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "unused"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.codegen.wholeStage": "false",
    }
    builder = SparkSession.builder.master(master).appName("penstock")
    for name, value in {**settings, **(more or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def write(folder: Path, *more: str) -> Path:
    """Writes the dataset, or a row more with "append", in a process with PyIceberg, and returns its configuration."""
    program = FOLDER.parent / "with_engines" / "engine_lake.py"
    subprocess.run(
        [WRITER, str(program), str(folder), *more], check=True, stdout=subprocess.PIPE, timeout=100
    )
    return folder / "penstock.yaml"
