"""Measures `penstock stats` beside DuckDB's SUMMARIZE of the same files, and beside a scan of the same columns.

    .venv/bench/bin/python benchmarks/summaries.py --binary bin/penstock --rounds 5

The table has the training rows of T (tables.py) in 20 equal files. The programs take turns:

- `stats`: all 20 files, without kept statistics;
- `scan`: `penstock cat` of all columns, whose output is discarded;
- `duckdb`: SUMMARIZE of all 20 files;
- `one more`: all 20 files, after the statistics of 19 of them were kept in `cache_dir`;
- `kept`: all 20 files once more.

It prints medians of the times and CPU seconds, the peak memory, and medians of the ratios of the rounds.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from tables import QUICK, Sizes, draw, iceberg_schema, made

_ROOT = Path(__file__).resolve().parent.parent
_PARTS = 20
_TABLE = "bench.parts"
_MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Turn:
    """One run of one program."""

    seconds: float
    cpu: float
    peak: int


class Lake:
    """The table, whose first snapshot lacks the last file."""

    def __init__(self, folder: Path, sizes: Sizes, binary: Path, memory: str) -> None:
        self._folder = folder.resolve()
        self._binary, self._memory = binary, memory
        self.cache = self._folder / "cache"
        self._sizes = sizes

    def make(self) -> None:
        """Make the table, unless it exists with the same rows."""
        contents = {"parts": _PARTS, **dataclasses.asdict(self._sizes)}
        made(self._folder, contents, self._write)

    def use(self) -> None:
        """Find the files of the table, and write config files."""
        self.files = sorted((self._folder / "warehouse" / "bench").glob("*.parquet"))
        self.before = json.loads((self._folder / "before.json").read_text())
        self.plain = self._config("plain", "")
        self.cached = self._config("cached", f", cache_dir: {self.cache}, cache_disk: 1GiB")

    def _write(self) -> None:
        rows = draw(self._sizes).training
        (self._folder / "warehouse" / "bench").mkdir(parents=True)
        size = -(-rows.num_rows // _PARTS)
        files = [
            self._folder / "warehouse" / "bench" / f"part-{number:02}.parquet" for number in range(_PARTS)
        ]
        for number, file in enumerate(files):
            pq.write_table(rows.slice(number * size, size), file, compression="zstd")
        catalog = SqlCatalog("default", uri=self._uri, warehouse=self._warehouse)
        catalog.create_namespace("bench")
        table = catalog.create_table(_TABLE, schema=iceberg_schema(rows.schema))
        table.add_files([f"file://{file}" for file in files[:-1]])
        snapshot = table.current_snapshot()
        assert snapshot is not None
        (self._folder / "before.json").write_text(json.dumps(str(snapshot.snapshot_id)))
        table.add_files([f"file://{files[-1]}"])

    @property
    def _uri(self) -> str:
        return f"sqlite:///{self._folder}/catalog.db"

    @property
    def _warehouse(self) -> str:
        return f"file://{self._folder}/warehouse"

    def _config(self, name: str, settings: str) -> Path:
        block = f'{{type: sql, uri: "{self._uri}", warehouse: "{self._warehouse}"}}'
        text = (
            f"server: {{memory: {self._memory}{settings}}}\ncatalogs: {{default: {block}}}\n"
            f"datasets: {{parts: {{training: {{table: {_TABLE}}}}}}}\n"
        )
        path = self._folder / f"{name}.yaml"
        path.write_text(text)
        return path

    def run(self, *arguments: str, config: Path) -> Turn:
        """Run a command of the program, whose output is discarded."""
        return _run([str(self._binary), *arguments, "--config", str(config)])

    def one_more(self) -> Turn:
        """Keep the statistics of all files but one, and then describe all."""
        shutil.rmtree(self.cache, ignore_errors=True)
        self.run("stats", _TABLE, self.before, config=self.cached)
        return self.run("stats", _TABLE, config=self.cached)

    def summarize(self) -> Turn:
        """Describe all files by DuckDB, in a process of its own."""
        names = ", ".join(f"'{file}'" for file in self.files)
        return _run(
            [
                sys.executable,
                __file__,
                "--duckdb",
                self._memory,
                f"SUMMARIZE SELECT * FROM read_parquet([{names}])",
            ]
        )


def _run(command: list[str]) -> Turn:
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command[:3]} ended with exit code {process.returncode}")
    return Turn(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def main() -> int:
    """Make the table, run all programs in turn, and print the table of results."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument(
        "--binary", type=Path, default=Path(os.environ.get("PENSTOCK_BIN", _ROOT / "bin" / "penstock"))
    )
    flags.add_argument(
        "--folder", type=Path, default=_ROOT / ".bench" / "summaries", help="of all files; it can be removed"
    )
    flags.add_argument("--rounds", type=int, default=5)
    flags.add_argument("--memory", default="2GiB", help="the budget of both programs")
    flags.add_argument("--quick", action="store_true", help="a hundredth of the rows")
    flags.add_argument(
        "--make", action="store_true", help=argparse.SUPPRESS
    )  # the child that makes the table, whose memory the other children would inherit
    flags.add_argument("--duckdb", nargs=2, help=argparse.SUPPRESS)  # the child that runs DuckDB
    given = flags.parse_args()
    if given.duckdb:
        duckdb.connect(config={"memory_limit": given.duckdb[0]}).execute(given.duckdb[1]).fetchall()
        return 0
    lake = Lake(given.folder, QUICK if given.quick else Sizes(), given.binary.resolve(), given.memory)
    if given.make:
        lake.make()
        return 0
    subprocess.run([sys.executable, __file__, "--make", *sys.argv[1:]], check=True)
    lake.use()
    runs: dict[str, Callable[[], Turn]] = {
        "stats": lambda: lake.run("stats", _TABLE, config=lake.plain),
        "scan": lambda: lake.run("cat", "parts", "--format", "arrow", config=lake.plain),
        "duckdb": lake.summarize,
        "one more": lake.one_more,
        "kept": lambda: lake.run("stats", _TABLE, config=lake.cached),
    }
    turns: dict[str, list[Turn]] = {name: [] for name in runs}
    for _ in range(given.rounds):
        for name, run in runs.items():
            turns[name].append(run())
    for name, own in turns.items():
        print(
            f"{name} | {_middle(own, 'seconds'):.2f} s | {_middle(own, 'cpu'):.2f} CPU s | peak {_middle(own, 'peak') / _MIB:.0f} MiB"
        )
    for name, of, aim in (("stats", "duckdb", 1.0), ("stats", "scan", 2.0), ("one more", "stats", 0.1)):
        pairs = list(zip(turns[name], turns[of], strict=True))
        seconds = statistics.median(a.seconds / b.seconds for a, b in pairs)
        cpu = statistics.median(a.cpu / b.cpu for a, b in pairs)
        print(f"{name} / {of}: {seconds:.2f} (aim {aim}), CPU {cpu:.2f}")
    return 0


def _middle(turns: list[Turn], field: str) -> float:
    return statistics.median(getattr(turn, field) for turn in turns)


if __name__ == "__main__":
    sys.exit(main())
