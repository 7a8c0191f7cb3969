"""Do the jobs of a sweep read storage once, if several replicas serve them?

T is in a bucket of an S3 gateway on this machine. Four servers, each of which counts its requests to S3, serve one job, and then
four new servers serve eight jobs at once: the same shards of the same shuffled epoch, for models with other seeds. All jobs
know all addresses, and all fill the caches (`cache: fill`), since a sweep reads its rows again. The checks:

- equal shards of all jobs have the same rows in the same order;
- eight jobs need at most 1.1 times the requests of the one job. The bytes are noted.

The package of a release whose clients begin at the first address is given by `--package`; `--spread` gives each of its jobs the
addresses in another order.

    PYTHONPATH=python/src python benchmarks/swept_replicas.py [--jobs N] [--replicas N] [--rows N] [--spread]
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import s3_tables
import tables
from replica import Replica
from running import ROOT, RunError, exit_status

_SHARDS = 4  # of each job
_MEMORY = 512 << 20
_MOST = 1.1
_TRIES = 5
_READ_LIMIT = 900

# A job's program, with the addresses of all servers: it prints how
# often its streams went to another server, and a digest of each shard's rows.
_PROGRAM = f"""
import sys, threading, zlib
import penstock
print("ready", flush=True)
sys.stdin.readline()
digests, went = [0] * {_SHARDS}, [0] * {_SHARDS}
def read(client, shard):
    stream = client.read("t", order="shuffled", seed=7, shard=(shard, {_SHARDS}), batch_rows=4096, cache="fill")
    for batch in stream:
        digests[shard] = zlib.crc32(batch["item_id"].to_numpy().tobytes(), digests[shard])
    went[shard] = stream.stats.moved + stream.stats.resumed
with penstock.connect(sys.argv[1]) as client:
    threads = [threading.Thread(target=read, args=(client, shard)) for shard in range({_SHARDS})]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(sum(went), *digests, flush=True)
"""


@dataclasses.dataclass(frozen=True)
class Turn:
    """What jobs at once cost: requests of each replica, bytes of all, and the different digests of each shard.

    `went` is how often a stream went to another replica, as it does if a busy machine keeps its own silent.
    """

    jobs: int
    requests: list[int]
    read: int
    digests: list[set[str]]
    went: int


def _turn(given: argparse.Namespace, jobs: int, config: Path, folder: Path) -> Turn:
    folder.mkdir()
    with contextlib.ExitStack() as ends:
        replicas = []
        for number in range(given.replicas):
            replica = Replica(config, folder, number, memory=_MEMORY, counts=True)
            ends.callback(replica.kill)
            replica.start(given.binary)
            replicas.append(replica)
        processes = []
        for number in range(jobs):
            at = number % len(replicas) if given.spread else 0
            servers = ",".join(replica.address for replica in [*replicas[at:], *replicas[:at]])
            process = _job(given, servers)
            ends.callback(process.kill)
            processes.append(process)
        for process in processes:
            if process.stdout is None or not process.stdout.readline():
                raise RunError("a job ended")
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        found = [process.communicate(timeout=_READ_LIMIT)[0].split() for process in processes]
        if any(process.returncode for process in processes) or any(len(one) != 1 + _SHARDS for one in found):
            raise RunError("a job failed")
        return Turn(
            jobs,
            [replica.total("penstock_s3_requests_total") for replica in replicas],
            sum(replica.total("penstock_s3_read_bytes_total") for replica in replicas),
            [set(shard) for shard in zip(*(one[1:] for one in found), strict=True)],
            sum(int(one[0]) for one in found),
        )


def _undisturbed(given: argparse.Namespace, jobs: int, config: Path, folder: Path) -> Turn:
    """Repeats a turn until no stream goes to another replica: it would read there what others read elsewhere."""
    for number in range(_TRIES):
        turn = _turn(given, jobs, config, folder / f"{jobs}-{number}")
        if not turn.went:
            return turn
    raise RunError(f"in each of {_TRIES} turns, a stream went to another replica")


def _job(given: argparse.Namespace, servers: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": str(given.package)}
    command = [sys.executable, "-c", _PROGRAM, servers]
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)


def _report(one: Turn, all_jobs: Turn) -> int:
    """Prints both turns, and returns 1 if a check fails."""
    print(
        "| jobs | requests | of one job | MB | of one job | requests of each replica |\n|---:|---:|---:|---:|---:|---|"
    )
    missed = []
    for turn in (one, all_jobs):
        requests, read = sum(turn.requests) / sum(one.requests), turn.read / one.read
        each = ", ".join(map(str, turn.requests))
        print(
            f"| {turn.jobs} | {sum(turn.requests)} | {requests:.2f} | {turn.read / 1e6:.1f} | {read:.2f} | {each} |"
        )
        if turn.digests != one.digests or any(len(shard) > 1 for shard in turn.digests):
            missed.append(f"{turn.jobs} jobs: other rows, or another order")
        if requests > _MOST:
            missed.append(f"{turn.jobs} jobs: {requests:.2f} times the requests of one")
    return exit_status(missed)


def main() -> int:
    """Measures, and prints a report. Returns 1 if a check fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--spread", action="store_true", help="each job has another first address")
    parser.add_argument(
        "--package", type=Path, default=ROOT / "python" / "src", help="the folder of the Python package"
    )
    binary = Path(os.environ.get("PENSTOCK_BIN", ROOT / "bin" / "penstock"))
    parser.add_argument("--binary", type=Path, default=binary, help="the program")
    parser.add_argument("--tables", type=Path, default=ROOT / ".bench", help="the folder of the tables")
    given = parser.parse_args()
    home = given.tables.resolve() / "swept"
    sizes = tables.Sizes(rows=given.rows, requests=given.rows // 10)
    with tempfile.TemporaryDirectory() as temporary, _gateway(home / "objects") as endpoint:
        folder = Path(temporary)
        s3_tables.ensure(home, sizes, endpoint)
        config = folder / "penstock.yaml"
        config.write_text(s3_tables.config(home, endpoint))
        turns = [_undisturbed(given, jobs, config, folder) for jobs in (1, given.jobs)]
    return _report(*turns)


@contextlib.contextmanager
def _gateway(objects: Path) -> Iterator[str]:
    """An S3 gateway, which ends with its standard input. Yields its URL."""
    objects.joinpath(s3_tables.BUCKET).mkdir(parents=True, exist_ok=True)
    program = os.environ.get("PENSTOCK_S3GATEWAY", str(ROOT / ".bin" / "s3gateway"))
    with subprocess.Popen(
        [program, str(objects)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


if __name__ == "__main__":
    sys.exit(main())
