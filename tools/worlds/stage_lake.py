"""A catalog and a server that random stages write to, and the report of what became of them."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import event
from stage_ways import Ways

_PROGRAM = os.environ.get("PENSTOCK_BIN", str(Path(__file__).parents[2] / "bin" / "penstock"))


@dataclass
class Report:
    """What became of the stages.

    Attributes:
        refused: by the reason that the documents give.
        wrong: how to repeat each failure, and what failed.
    """

    stages: int = 0
    rows: int = 0
    reads: int = 0
    filters: int = 0
    files: int = 0
    ways: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    beside: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class Lake:
    """A catalog, a server that writes to it, and the report of all stages."""

    def __init__(self, folder: Path, tenth: Path | None) -> None:
        self.folder, self.tenth = folder, tenth
        self.for_spark = 0  # stages that Spark can read
        (folder / "warehouse").mkdir(parents=True)
        at = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
        self.catalog = SqlCatalog("default", **at)
        event.listen(self.catalog.engine, "connect", lambda db, _: db.execute("PRAGMA synchronous = OFF"))
        self.catalog.engine.dispose()
        self.catalog.create_namespace("ml")
        config = folder / "penstock.yaml"
        block = {"type": "sql", **at, "writes": {"namespaces": ["ml"]}}
        config.write_text(json.dumps({"catalogs": {"default": block}, "datasets": {}}))
        self.ways = Ways(config, _PROGRAM)
        self.report = Report()

    def close(self) -> None:
        """Ends the server."""
        self.ways.close()
        self.catalog.engine.dispose()
