"""Measures staging: `penstock stage` beside DuckDB's sorted, partitioned COPY of the same rows, in turn.

    python benchmarks/stage.py --binary bin/penstock --rows 400000 --rounds 5

The input is a Parquet file of what a feature job writes: a row for each request, in the order of time, with the
history of its user as a list, texts and numbers. A user has 20 requests on average, and between two of them the history
gets two items and loses the oldest ones. Both programs write Parquet with Zstandard, in 16 parts by a hash:

- `request`: in buckets of the request, sorted by it. No two rows that are alike are neighbors;
- `user`: in buckets of the user, sorted by user and time. The histories of a user follow each other.

It prints medians, and medians of the ratios of the turns: rows per second, processor time (user and system), bytes and peak
memory. Penstock's time is that of its whole process; DuckDB's is that of the statement. `--put` stages the same rows
with the Python client, through a server, and compares that too.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from process import cpu_seconds, peak_bytes
from pyarrow import dataset
from pyiceberg.catalog.sql import SqlCatalog
from running import Program, output, serving

_ROOT = Path(__file__).resolve().parent.parent
_BUCKETS = 16
_REQUESTS_OF_A_USER = 20
_NEW_ITEMS = 2
_ITEMS = 5_000_000
_POPULAR = 20_000  # items that are drawn most often
_HASH = 0x9E3779B97F4A7C15
_ROW_GROUP = 65_536
_CHUNK = 500_000  # rows that are made at a time
_MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Layout:
    """How rows are divided and sorted."""

    name: str
    key: tuple[str, ...]
    sort: tuple[str, ...]


LAYOUTS = (
    Layout("request", ("request_id",), ("request_id",)),
    Layout("user", ("user_id", "request_id"), ("user_id", "ts")),
)


@dataclasses.dataclass(frozen=True)
class Turn:
    """One run of one program."""

    seconds: float
    cpu: float
    peak: int
    bytes: int
    history: int  # of these, of the column with the histories


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the input, run both programs in turn, and print the table."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument(
        "--binary", type=Path, default=Path(os.environ.get("PENSTOCK_BIN", _ROOT / "bin" / "penstock"))
    )
    flags.add_argument(
        "--folder", type=Path, default=_ROOT / ".bench" / "stage", help="of all files; it can be removed"
    )
    flags.add_argument("--rows", type=int, default=400_000)
    flags.add_argument("--rounds", type=int, default=5)
    flags.add_argument("--memory", default="2GiB", help="the budget of both programs")
    flags.add_argument(
        "--level", type=int, default=3, help="DuckDB's level of Zstandard; its own default is 3"
    )
    flags.add_argument("--only", choices=[one.name for one in LAYOUTS], help="one layout; default: all")
    flags.add_argument("--files", nargs="+", type=Path, help="other input")
    flags.add_argument(
        "--key", default="request_id", help="the column that --files are bucketed and sorted by"
    )
    flags.add_argument("--put", action="store_true", help="also with the Python client, through a server")
    flags.add_argument("--alone", action="store_true", help="without DuckDB")
    flags.add_argument("--duckdb", nargs=2, help=argparse.SUPPRESS)  # the child that runs DuckDB
    flags.add_argument("--send", nargs=2, help=argparse.SUPPRESS)  # the child that runs the client
    flags.add_argument(
        "--make", action="store_true", help=argparse.SUPPRESS
    )  # the child that makes the input
    given = flags.parse_args(arguments)
    if given.duckdb:
        return _copy(*given.duckdb)
    if given.send:
        return _send(*given.send)
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.files:
        given.rows = sum(pq.read_metadata(file).num_rows for file in given.files)
        _compare(given, Layout(given.key, (given.key,), (given.key,)), given.files)
        return 0
    input_folder = given.folder / f"input-{given.rows}"
    if given.make:
        make(input_folder, given.rows)
        return 0
    if (
        not input_folder.exists()
    ):  # a process of its own, whose memory the children of this one do not inherit
        same = ["--rows", str(given.rows), "--folder", str(given.folder)]
        subprocess.run([sys.executable, __file__, "--make", *same], check=True)
    files = sorted(input_folder.glob("*.parquet"))
    for layout in LAYOUTS:
        if given.only in (None, layout.name):
            _compare(given, layout, files)
    return 0


def _compare(given: argparse.Namespace, layout: Layout, files: list[Path]) -> None:
    lake = Lake(given.folder / "lake", given.binary, given.memory)
    turns: dict[str, list[Turn]] = {}
    runs: list[tuple[str, Callable[[], Turn]]] = [("penstock", lambda: lake.stage(layout, files))]
    if given.put:
        runs.append(("penstock, DoPut", lambda: lake.put(layout, files)))
    if not given.alone:
        copy = given.folder / "copy"
        runs.append(("duckdb", lambda: _run_duckdb(copy, layout, files, given.memory, given.level)))
    for _ in range(given.rounds):
        for name, run in runs:
            turns.setdefault(name, []).append(run())
    theirs = turns.get("duckdb", [])
    for name, own in turns.items():
        middle = {
            f.name: statistics.median(getattr(t, f.name) for t in own) for f in dataclasses.fields(Turn)
        }
        print(
            f"{layout.name} | {name} | {given.rows / middle['seconds'] / 1e6:.3f} M rows/s | {middle['cpu']:.2f} CPU s"
            f" | {middle['bytes'] / 1e6:.1f} MB, histories {middle['history'] / 1e6:.1f}"
            f" | peak {middle['peak'] / _MIB:.0f} MiB{_ratios(own, theirs)}",
            flush=True,
        )


def _ratios(own: list[Turn], theirs: list[Turn]) -> str:
    """Medians of the ratios of the turns."""
    if not theirs or own is theirs:
        return ""
    pairs = list(zip(own, theirs, strict=True))
    found = {
        "rows/s": statistics.median(b.seconds / a.seconds for a, b in pairs),
        "CPU": statistics.median(a.cpu / b.cpu for a, b in pairs),
        "bytes": statistics.median(a.bytes / b.bytes for a, b in pairs),
    }
    return " | of DuckDB's: " + ", ".join(f"{what} {ratio:.2f}" for what, ratio in found.items())


class Lake:
    """A catalog that `penstock stage` writes tables to."""

    def __init__(self, folder: Path, binary: Path, memory: str) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._folder = folder.resolve()
        self._binary = binary
        self._count = 0
        uri, warehouse = f"sqlite:///{self._folder}/catalog.db", f"file://{self._folder}/warehouse"
        SqlCatalog("default", uri=uri, warehouse=warehouse).create_namespace("features")
        block = f'{{type: sql, uri: "{uri}", warehouse: "{warehouse}", writes: {{namespaces: [features]}}}}'
        config = f"server: {{memory: {memory}, spool: {self._folder}/spool}}\ncatalogs:\n  default: {block}\n"
        self.config = self._folder / "penstock.yaml"
        self.config.write_text(config)

    def stage(self, layout: Layout, files: list[Path]) -> Turn:
        """Stage files to a new table, and remove its files."""
        self._count += 1
        command = [str(self._binary), "stage", f"features.t{self._count}", *map(str, files)]
        command += [
            "--config",
            str(self.config),
            "--key",
            ",".join(layout.key),
            "--sort",
            ",".join(layout.sort),
        ]
        command += ["--buckets", str(_BUCKETS)]
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise RuntimeError(f"penstock stage ended with exit code {process.returncode}")
        data = self._folder / "warehouse"
        turn = Turn(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, *sizes(data))
        shutil.rmtree(data)
        return turn

    def put(self, layout: Layout, files: list[Path]) -> Turn:
        """Send the rows of files to a server that stages them to a new table, and remove its files."""
        self._count += 1
        fields = {"key": layout.key, "sort": layout.sort, "buckets": _BUCKETS}
        command = {"table": f"features.t{self._count}", "files": [str(file) for file in files], **fields}
        with serving(Program(self._binary).command(self.config, "127.0.0.1:0")) as server:
            before = cpu_seconds(server.pid)
            sending = [sys.executable, __file__, "--send", server.first, json.dumps(command)]
            sent = json.loads(output(sending))
            cpu, peak = cpu_seconds(server.pid) - before, peak_bytes(server.pid)
        data = self._folder / "warehouse"
        turn = Turn(sent["seconds"], cpu + sent["cpu"], peak, *sizes(data))
        shutil.rmtree(data)
        return turn


def _send(address: str, command: str) -> int:
    """Send the rows of Parquet files by the Python client, and print what it took."""
    import penstock  # only this child needs it

    fields = json.loads(command)
    rows = dataset.dataset(fields.pop("files"))
    with penstock.connect(address.rpartition(" ")[2]) as client:
        before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        client.stage(fields.pop("table"), rows, **fields)
        seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"seconds": seconds, "cpu": cpu}))
    return 0


def _run_duckdb(folder: Path, layout: Layout, files: list[Path], memory: str, level: int) -> Turn:
    """Run the statement in a process of its own, and remove the files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    names = ", ".join(f"'{file}'" for file in files)
    order = ", ".join(("bucket", *layout.sort))
    statement = (
        f"COPY (SELECT *, hash({layout.key[0]}) % {_BUCKETS} AS bucket FROM read_parquet([{names}]) ORDER BY {order}) "
        f"TO '{folder}/out' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL {level}, PARTITION_BY (bucket))"
    )
    settings = json.dumps({"memory_limit": memory, "temp_directory": f"{folder}/spill"})
    command = [sys.executable, __file__, "--duckdb", settings, statement]
    out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    turn = Turn(out["seconds"], out["cpu"], out["peak"], *sizes(folder))
    shutil.rmtree(folder)
    return turn


def _copy(settings: str, statement: str) -> int:
    """Run a statement in DuckDB and print what it took."""
    connection = duckdb.connect(config=json.loads(settings))
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    connection.execute(statement)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": after.ru_maxrss * 1024}))
    return 0


def sizes(folder: Path) -> tuple[int, int]:
    """The bytes of all data files, and those of the column with the histories."""
    total, history = 0, 0
    for file in folder.rglob("*.parquet"):
        total += file.stat().st_size
        footer = pq.read_metadata(file)
        for group in range(footer.num_row_groups):
            for column in range(footer.num_columns):
                chunk = footer.row_group(group).column(column)
                if chunk.path_in_schema.startswith("history"):
                    history += chunk.total_compressed_size
    return total, history


def make(folder: Path, rows: int) -> None:
    """Write the input's files."""
    unfinished = folder.with_suffix(".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for number, first in enumerate(range(0, rows, _CHUNK)):
        table = requests(np.random.default_rng(11 + number), first, min(_CHUNK, rows - first))
        file = unfinished / f"part-{number:03}.parquet"
        pq.write_table(table, file, compression="snappy", row_group_size=_ROW_GROUP)
    unfinished.rename(folder)


def requests(draw: np.random.Generator, first: int, rows: int) -> pa.Table:
    """Requests in the order of time. The users of each call are others."""
    user = np.sort(draw.integers(0, max(rows // _REQUESTS_OF_A_USER, 1), rows))
    starts = np.flatnonzero(np.r_[True, np.diff(user) > 0])
    # Each user has a stream of items, and each request sees the last ones of it.
    length = np.repeat(draw.integers(30, 71, len(starts)), np.diff(np.r_[starts, rows]))
    step = draw.poisson(_NEW_ITEMS, rows)
    step[starts] = length[starts]  # the first history of a user is new
    end = np.cumsum(step)
    stream = _hashed(np.minimum(draw.pareto(0.8, end[-1]) * _POPULAR, _ITEMS - 1))
    offsets = np.r_[0, np.cumsum(length)]
    # The newest item is first.
    at = np.repeat(end - 1, length) - (np.arange(offsets[-1]) - np.repeat(offsets[:-1], length))
    history = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(stream[at]))
    moment = draw.random(rows)
    moment = moment[np.lexsort((moment, user))]  # the requests of a user are in the order of time
    order = np.argsort(moment)
    country = np.array([f"C{i:02}" for i in range(60)])[
        draw.integers(0, 60, rows) * draw.integers(0, 2, rows)
    ]
    words = np.array([f"word{i}" for i in range(2_000)])
    query = np.char.add(
        np.char.add(words[draw.integers(0, 2_000, rows)], " "), words[draw.integers(0, 200, rows)]
    )
    table = pa.table(
        {
            "request_id": pa.array(_hashed(np.arange(first, first + rows))),
            "user_id": pa.array(user + first),
            "ts": pa.array((moment * 86_400e6).astype(np.int64) + first, pa.timestamp("us")),
            "history": history,
            "country": pa.array(country),
            "query": pa.array(query),
            "age": pa.array(draw.integers(13, 90, rows).astype(np.int32)),
            "clicks": pa.array(draw.poisson(3, rows).astype(np.int64)),
            "score": pa.array(draw.random(rows)),
            "affinity": pa.array(draw.random(rows).astype(np.float32)),
        }
    )
    return table.take(pa.array(order))


def _hashed(number: np.ndarray) -> np.ndarray:
    """Numbers of 63 bits, as ids are."""
    return (number.astype(np.uint64) * np.uint64(_HASH) >> np.uint64(1)).astype(np.int64)


if __name__ == "__main__":
    raise SystemExit(main())
