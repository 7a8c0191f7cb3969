"""A Spark session over one Iceberg catalog, and what only Iceberg's Java API can do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

JARS = Path(os.environ.get("PENSTOCK_SPARK_JARS", Path(__file__).parents[2] / ".bin" / "spark-jars"))


def start(scratch: Path) -> SparkSession:
    """Starts Spark. A process has one; catalogs are added with attach."""
    settings = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.jars": ",".join(str(jar) for jar in sorted(JARS.glob("*.jar"))),
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Dderby.system.home={scratch}",
        "spark.sql.warehouse.dir": str(scratch / "unused"),
        "spark.local.dir": str(scratch),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",  # to compile takes longer than to run on few rows
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[1]").appName("worlds")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def attach(spark: SparkSession, folder: Path, name: str) -> None:
    """Gives the catalog of a folder a name in SQL. To others its name is default."""
    (folder / "warehouse").mkdir(exist_ok=True)
    prefix = f"spark.sql.catalog.{name}"
    for key, value in {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        ".uri": f"jdbc:sqlite:{folder}/catalog.db?synchronous=OFF",
        ".warehouse": f"file://{folder}/warehouse",
        ".jdbc.schema-version": "V1",
        ".clients": "1",
        ".cache-enabled": "false",
    }.items():
        spark.conf.set(prefix + key, value)


def java_table(spark: SparkSession, name: str) -> Any:
    """Iceberg's own table behind a name such as default.ml.train."""
    return spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
