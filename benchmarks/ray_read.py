"""T by Ray Data: penstock.ray.read beside Ray's own join, and beside what Ray costs at least.

Each entrant reads all rows of T with a Ray of two CPUs of its own, one after the other:

    plain   a client reads the joined stream, without Ray
    floor   the same blocks, mapped from files in memory, go through Ray
    ours    penstock.ray.read, with indexed batches, which its tasks expand
    join    Ray Data reads the Parquet files of both tables and joins them

All go through Ray Data's iter_batches in one process, which checks the number of rows and that features belong to their
rows. Ray's store has Ray's default size. The join's blocks have Ray's default size, those of ours and floor the size that docs/ray.md
recommends. Memory is the maximum over time of the sum of the proportional set sizes of all processes, the server among them,
also without what an idle Ray takes. To sum them ten times a second takes a sixth of two cores, so each entrant reads twice: once
for its time, and once for its memory. An entrant that passes a limit of time or memory is ended: what it took until then is the
least that it needs. The exit code is 1 if ours takes more than 0.4 of the join's time or memory, or more than 1.25 of the sum
of floor and plain.

    make build .venv/torch/.stamp .venv/ray/.stamp .venv/bench/.stamp
    .venv/bench/bin/python benchmarks/tables.py .bench/full
    PYTHONPATH=.venv/ray:python/src .venv/torch/bin/python benchmarks/ray_read.py
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import process
import pyarrow as pa
import running
from checks import STAGING_FACTOR, TRAINING_FACTOR, Summary
from inputs import Inputs

import penstock

ROOT = Path(__file__).parents[1]
ENTRANTS = ("plain", "floor", "ours", "join")
BATCH_ROWS = 8_192
PARTITIONS = 16
CPUS = 2
TIME, MEMORY, FLOOR = 0.4, 0.4, 1.25
_PAUSE = 0.1  # seconds between two looks at memory
_END = 60.0  # seconds in which Ray's processes end


@dataclass
class Measured:
    """What an entrant took.

    Attributes:
        idle: the bytes of its processes before it reads.
        seconds: its time.
        peak: the most bytes of all processes.
        whole: whether it read all rows; if not, it passed a limit.
    """

    idle: int
    seconds: float = 0.0
    peak: int = 0
    whole: bool = False


@dataclass(frozen=True)
class Job:
    """What a process reads.

    Attributes:
        address: the server's.
        inputs: the files of both tables, and the answer.
        blocks: the folder of the files in memory.
        store: the bytes of Ray's object store; None for Ray's default.
        block: the most bytes of Ray's blocks; None for Ray's default.
    """

    address: str
    inputs: Inputs
    blocks: Path
    store: int | None
    block: int | None


def main() -> int:
    """Measures all entrants, or reads as one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tables", type=Path, default=ROOT / ".bench" / "full")
    parser.add_argument("--memory", default="256MiB", help="the server's budget")
    parser.add_argument("--store", type=int, help="bytes of Ray's object store, instead of Ray's default")
    parser.add_argument("--block", type=int, default=32 << 20, help="bytes of the blocks of ours and floor")
    parser.add_argument("--join-block", type=int, help="bytes of the join's blocks, instead of Ray's default")
    parser.add_argument("--most-seconds", type=float, default=3600.0, help="an entrant's limit of time")
    parser.add_argument("--most-memory", type=int, default=16 << 30, help="its limit of memory, in bytes")
    parser.add_argument("--entrants", nargs="+", choices=ENTRANTS, default=ENTRANTS)
    parser.add_argument("--one", choices=ENTRANTS, help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--into", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--blocks", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    inputs = Inputs.load(given.tables / "t.json")
    if given.one is not None:
        block = given.join_block if given.one == "join" else given.block
        read(given.one, Job(given.address, inputs, given.blocks, given.store, block), given.into)
        return 0
    program = running.Program(
        Path(os.environ.get("PENSTOCK_BIN", ROOT / "bin" / "penstock")), (("memory", given.memory),)
    )
    blocks = Path(tempfile.mkdtemp(prefix="blocks", dir="/dev/shm"))
    sizes = {"--store": given.store, "--block": given.block, "--join-block": given.join_block}
    arguments = ["--tables", str(given.tables), "--blocks", str(blocks)]
    arguments += [text for of, size in sizes.items() if size is not None for text in (of, str(size))]
    try:
        found = {}
        for name in given.entrants:
            timed, found[name] = (
                turn([*arguments, "--one", name], program, given, most) for most in (None, given.most_memory)
            )
            found[name].seconds, found[name].whole = timed.seconds, timed.whole and found[name].whole
            print(f"{name}: {found[name]}", file=sys.stderr, flush=True)
        return report(found, inputs)
    finally:
        shutil.rmtree(blocks)


def turn(
    arguments: list[str], program: running.Program, given: argparse.Namespace, most_memory: int | None
) -> Measured:
    """Has an entrant read once, with a server of its own."""
    with running.serving(program.command(given.tables / "penstock.yaml", "127.0.0.1:0")) as server:
        return measure([*arguments, "--address", server.first], server.pid, given.most_seconds, most_memory)


def report(found: dict[str, Measured], inputs: Inputs) -> int:
    """Prints the table and the ratios, and returns the exit code."""
    machine = process.machine()
    print(
        f"\n{machine['cpu']}, {machine['cores']} cores, Ray {machine['ray']}; {inputs.expected.rows:,} rows\n"
    )
    print("| entrant | seconds | M rows/s | memory, MB | without an idle Ray, MB |")
    print("|---|---:|---:|---:|---:|")
    for name, one in found.items():
        rate = f"{inputs.expected.rows / one.seconds / 1e6:.2f}" if one.whole else "ended at a limit"
        more = (one.peak - one.idle) / 1e6
        print(f"| {name} | {one.seconds:.1f} | {rate} | {one.peak / 1e6:.0f} | {more:.0f} |")
    ratios = []
    if {"ours", "join"} <= found.keys():
        ours, join = found["ours"], found["join"]
        of = "the join" if join.whole else "the join until it was ended"
        ratios += [
            (f"time of {of}", ours.seconds / join.seconds, TIME),
            (f"memory of {of}", ours.peak / join.peak, MEMORY),
        ]
    if {"ours", "floor", "plain"} <= found.keys():
        least = found["floor"].seconds + found["plain"].seconds
        ratios.append(("time of floor and plain", found["ours"].seconds / least, FLOOR))
    print()
    for what, ratio, limit in ratios:
        print(f"{ratio:.2f} of the {what}; the limit is {limit}")
    whole = all(one.whole for name, one in found.items() if name != "join")
    return int(not whole or any(ratio > limit for _, ratio, limit in ratios))


def measure(arguments: list[str], server: int, most_seconds: float, most_memory: int | None) -> Measured:
    """Runs a process that reads, and ends it at a limit. Returns what all processes took.

    Without a limit of memory, it does not look at memory.
    """
    out, into = os.pipe()
    command = [sys.executable, __file__, *arguments, "--into", str(into)]
    with subprocess.Popen(command, pass_fds=[into]) as reader, os.fdopen(out) as said:
        os.close(into)
        said.readline()
        found, ended, began = Measured(memory([reader.pid])), threading.Event(), time.monotonic()

        def watch() -> None:
            while not ended.wait(_PAUSE):
                if most_memory is not None:
                    found.peak = max(found.peak, memory([reader.pid, server]))
                found.seconds = time.monotonic() - began
                if found.peak > (most_memory or 0) or found.seconds > most_seconds:
                    reader.send_signal(signal.SIGINT)  # it ends its Ray
                    if not ended.wait(_END):
                        reader.kill()
                    return

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            seconds = said.readline()
        finally:
            ended.set()
            watching.join()
    if seconds:
        found.seconds, found.whole = float(seconds), True
    elif found.seconds <= most_seconds and found.peak <= (most_memory or 0):
        raise SystemExit("the process that reads failed")
    return found


def memory(roots: Iterable[int]) -> int:
    """The sum of the proportional set sizes of processes and all that they started."""
    return sum(map(_proportional, tree(roots)))


def tree(roots: Iterable[int]) -> set[int]:
    """Processes and all that they started."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it ended
            parents[int(entry.name)] = int(fields[1])
    found = set(roots)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _proportional(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0  # it ended
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def keep_blocks(address: str, folder: Path) -> None:
    """Writes the batches of each split into a file in memory."""
    with penstock.connect(address) as client:
        for split in client.read_splits("t", wire="plain", batch_rows=BATCH_ROWS):
            kept = str(folder / f"{split.number:05}")
            with split.read() as stream, pa.ipc.new_file(kept, stream.schema) as file:
                for batch in stream:
                    file.write_batch(batch)


def read(name: str, job: Job, into: int) -> None:
    """Reads as one entrant: writes an empty line when Ray is ready, and the seconds at the end."""
    if name == "floor" and not any(job.blocks.iterdir()):
        keep_blocks(job.address, job.blocks)
    batches = plain(job) if name == "plain" else through_ray(name, job)
    next(batches)
    os.write(into, b"\n")
    found, began = Summary(), time.perf_counter()
    for batch in batches:
        for part in batch.select([TRAINING_FACTOR, STAGING_FACTOR]).to_batches():
            found.add(part)
    seconds = time.perf_counter() - began
    wrong = found.differences(job.inputs.expected.restricted([TRAINING_FACTOR, STAGING_FACTOR]))
    if wrong:
        raise SystemExit(f"{name}: {'; '.join(wrong)}")
    os.write(into, f"{seconds}\n".encode())
    batches.close()


def plain(job: Job) -> Generator[Any, None, None]:
    """Yields nothing at first, and then the batches of a client as tables."""
    yield None
    with (
        penstock.connect(job.address) as client,
        client.read("t", wire="plain", batch_rows=BATCH_ROWS) as stream,
    ):
        for batch in stream:
            yield pa.Table.from_batches([batch])


def through_ray(name: str, job: Job) -> Generator[Any, None, None]:
    """Yields nothing when Ray is ready, and then the batches that Ray Data gives."""
    import ray.data

    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        ray.init(
            address="local",
            num_cpus=CPUS,
            include_dashboard=False,
            object_store_memory=job.store,
            log_to_driver=False,
            _temp_dir=folder,
        )
        try:
            ray.data.DataContext.get_current().enable_progress_bars = False
            if job.block is not None:
                ray.data.DataContext.get_current().target_max_block_size = job.block
            ray.data.range(2 * CPUS, override_num_blocks=2 * CPUS).map_batches(lambda one: one).materialize()
            yield None
            yield from DATASETS[name](job).iter_batches(batch_size=None, batch_format="pyarrow")
        finally:
            ray.shutdown()


def ours(job: Job) -> Any:
    """The query as a dataset."""
    import penstock.ray

    return penstock.ray.read(job.address, "t", batch_rows=BATCH_ROWS, wire="indexed")


def join(job: Job) -> Any:
    """Ray's join of the Parquet files."""
    import ray.data

    training, staging = (
        ray.data.read_parquet(one.files, partitioning=None)
        for one in (job.inputs.training, job.inputs.staging)
    )
    return training.join(staging, join_type="left_outer", num_partitions=PARTITIONS, on=(job.inputs.keys[0],))


def floor(job: Job) -> Any:
    """The blocks in memory as a dataset."""
    import ray.data
    from ray.data.block import BlockMetadata

    def reads(file: Path) -> Callable[[], Iterator[pa.Table]]:
        def blocks() -> Iterator[pa.Table]:
            with pa.memory_map(str(file)) as mapped:
                opened = pa.ipc.open_file(mapped)
                for i in range(opened.num_record_batches):
                    yield pa.Table.from_batches([opened.get_batch(i)])

        return blocks

    class Mapped(ray.data.Datasource):
        def estimate_inmemory_data_size(self) -> int:
            return sum(file.stat().st_size for file in job.blocks.iterdir())

        def get_read_tasks(self, *_: Any, **__: Any) -> list[Any]:
            return [
                ray.data.ReadTask(reads(file), BlockMetadata(None, file.stat().st_size, None, None))
                for file in sorted(job.blocks.iterdir())
            ]

    return ray.data.read_datasource(Mapped())


DATASETS: dict[str, Callable[[Job], Any]] = {"ours": ours, "join": join, "floor": floor}

if __name__ == "__main__":
    sys.exit(main())
