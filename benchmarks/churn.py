"""Do memory and disk hold their limits, and rows stay the same, while clients come and go and the server is killed?

Clients read T, T-scattered and TPC-H, which are larger decoded than both parts of the cache, from a server with
a small budget, `cache_memory` and `cache_dir`. They begin, end early, stall, resume from their cursors, and read other
columns, orders, lanes, categories and uses of the cache each time. Now and then the server is killed and
started again. The checks:

- the peak of resident memory, and the files of the cache, incomplete ones too;
- every stream that ended has the rows and batches of the same query with `cache: off`, by a digest;
- there is no error but those of a server that was killed;
- after each restart, the first stream is served from disk soon;
- at the end, slow streams beside a full cache read no staging table again.

    python benchmarks/churn.py [--minutes N] [--clients N]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import joins
import process
from churn_clients import Churner, Retries, Tally
from churn_queries import Asked, Digest, drawn
from churn_server import Restarted
from inputs import Inputs
from running import ROOT, Program, serving

import penstock

_MIB = 1 << 20
_MEMORY = 256 * _MIB
_CACHE_MEMORY = 64 * _MIB
_PEAK = _MEMORY * 5 // 4 + 256 * _MIB
_WARM = 2.0
_KILL_EVERY = (40.0, 75.0)
_DOWN = 1.0
_SLOW = 8
_SLOW_FOR = 10.0
_SLOW_PAUSE = 1.5
_SLOW_COLUMNS = ["request_id", "item_id", "label", "f0", "user_id", "u0", "country"]
_NAMES = (joins.T, joins.T_SCATTERED, joins.TPCH)


def _wanted(config: Path, binary: Path, asked: list[Asked]) -> dict[int, tuple[Asked, Any]]:
    """The digest of each query with `cache: off`, of a server without a cache."""
    found = {}
    plain = Program(binary, (("cache_memory", "0"), ("log_level", "error")))
    with (
        serving(plain.command(config, "127.0.0.1:0")) as server,
        penstock.connect(server.first) as client,
    ):
        for number, one in enumerate(asked):
            digest = Digest()
            with client.read(one.dataset, **one.fields, cache="off") as stream:
                for batch in stream:
                    digest.add(batch)
            found[number] = (one, digest.values())
    return found


def _fill(server: Restarted) -> None:
    """Reads all datasets once, so that the disk is full from the beginning."""
    with penstock.connect(server.address) as client:
        for name in _NAMES:
            for _ in client.read(name, cache="fill"):
                pass


def _warm(server: Restarted, began: float) -> float:
    """Reads the first stream after a restart. Returns after how many seconds columns came from disk."""
    with (
        penstock.connect(server.address, reconnect=60) as client,
        client.read(joins.T, cache="fill", columns=None) as stream,
    ):
        for _ in stream:
            if server.metric('penstock_disk_cache_reads_total{result="hit"}') > 0:
                break
    return time.monotonic() - began


def _kill_now_and_then(server: Restarted, until: float, seed: int) -> list[float]:
    """Kills the server and starts it again. Returns how soon columns came from disk, each time."""
    rng, warm = random.Random(seed), []
    while (pause := rng.uniform(*_KILL_EVERY)) < until - time.monotonic():
        time.sleep(pause)
        server.kill()
        time.sleep(rng.uniform(0, _DOWN))
        warm.append(_warm(server, server.start()))
    return warm


@dataclasses.dataclass
class Slow:
    """Slow streams beside a full cache."""

    full: float  # bytes of the cache before
    least: float = 0  # of it meanwhile
    again: list[int] = dataclasses.field(default_factory=list)
    cached: int = 0


def _slow(server: Restarted) -> Slow:
    """Fills the cache, and reads the lanes of T slowly for a while, then to their ends."""
    with penstock.connect(server.address) as client:
        for _ in range(2):
            for _batch in client.read(joins.T, cache="fill"):
                pass
        found = Slow(server.metric("penstock_cache_bytes"))
        found.least = found.full
        lock = threading.Lock()

        def read(index: int) -> None:
            end = time.monotonic() + _SLOW_FOR
            fields: dict[str, Any] = {"lanes": _SLOW, "shard": (index, _SLOW), "columns": _SLOW_COLUMNS}
            with client.read(joins.T, **fields) as stream:
                for _ in stream:
                    if time.monotonic() < end:
                        time.sleep(_SLOW_PAUSE)
                        found.least = min(found.least, server.metric("penstock_cache_bytes"))
            with lock:
                found.again += [of.get("bytes_read_again", 0) for of in stream.report["staging"].values()]
                found.cached += "cached" in stream.report

        _together([partial(read, index) for index in range(_SLOW)])
    return found


def _together(tasks: list[Callable[[], object]]) -> None:
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _config(folder: Path, bench: Path) -> tuple[Path, dict[str, Inputs]]:
    """A configuration of all data sets, and what they are. A config is YAML, of which JSON is a part."""
    made = {name: joins.ensure(name, bench, quick=False) for name in _NAMES}
    inputs = {name: Inputs.load(join.inputs) for name, join in made.items()}
    catalogs, datasets = {}, {}
    for name, catalog in ((joins.T, "t"), (joins.T_SCATTERED, "t"), (joins.TPCH, "tpch")):
        home = Path(inputs[name].training.files[0].removeprefix("file://")).parents
        root = next(parent for parent in home if (parent / "catalog.db").exists())
        catalogs[catalog] = {
            "type": "sql",
            "name": "default",
            "uri": f"sqlite:///{root}/catalog.db",
            "warehouse": f"file://{root}/warehouse",
        }
        one = inputs[name]
        datasets[name] = {
            "training": {"table": f"{catalog}.{one.training.table}"},
            "key": [one.key],
            "staging": [{"table": f"{catalog}.{one.staging.table}", "key": {one.key: one.keys[1]}}],
        }
    path = folder / "penstock.yaml"
    path.write_text(json.dumps({"catalogs": catalogs, "datasets": datasets}))
    return path, inputs


def main() -> int:
    """Runs the churn, and prints a report. Returns 1 if a check fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--queries", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--disk", type=int, default=1024, metavar="MIB", help="the server's cache_disk")
    parser.add_argument("--tables", type=Path, default=ROOT / ".bench", help="the folder of the tables")
    binary = Path(os.environ.get("PENSTOCK_BIN", ROOT / "bin" / "penstock"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config, inputs = _config(Path(folder), given.tables)
        asked = _wanted(config, binary, drawn(given.queries, given.seed, inputs))
        settings = (
            ("memory", str(_MEMORY)),
            ("cache_memory", str(_CACHE_MEMORY)),
            ("cache_disk", str(given.disk * _MIB)),
        )
        tally, warm = Tally(), []
        logging.getLogger("penstock").addHandler(Retries(tally))
        logging.getLogger("penstock").propagate = False
        with Restarted(Program(binary, settings), config, Path(folder)) as server:
            _fill(server)
            until = time.monotonic() + given.minutes * 60
            churners = [Churner(server, asked, tally, given.seed + i) for i in range(given.clients)]

            def kill() -> None:
                warm.extend(_kill_now_and_then(server, until, given.seed))

            _together([*(partial(churner.run, until) for churner in churners), kill])
            counts = _counts(server)
            server.kill()
            alone = _warm(server, server.start())
            slow = _slow(server)
            server.look()
    return _report(given, tally, server, Ends(warm, alone, slow, counts))


def _counts(server: Restarted) -> dict[str, float]:
    """Metrics of the last process that was churned."""
    names = (
        "penstock_cache_filled_total",
        "penstock_cache_evicted_total",
        "penstock_cache_given_up_bytes_total",
        "penstock_disk_cache_chunks",
        "penstock_disk_cache_bytes",
        "penstock_disk_cache_evicted_total",
        'penstock_disk_cache_reads_total{result="hit"}',
        'penstock_disk_cache_reads_total{result="damaged"}',
        'penstock_disk_cache_writes_total{result="written"}',
    )
    return {name: server.metric(name) for name in names}


@dataclasses.dataclass
class Ends:
    """What was measured besides the streams."""

    warm: list[float]  # after each restart among other clients
    alone: float  # after the last one
    slow: Slow
    counts: dict[str, float]


def _report(given: argparse.Namespace, tally: Tally, server: Restarted, ends: Ends) -> int:
    """Prints what was found. Returns 1 if a check fails."""
    seen, slow = server.seen, ends.slow
    checks = [
        ("peak of resident memory, MiB", seen.memory / _MIB, _PEAK / _MIB),
        ("files of the cache on disk, MiB", seen.disk / _MIB, given.disk),
        ("wrong rows and other errors", len(tally.wrong), 0),
        ("servers that ended by themselves", int(seen.ended), 0),
        ("from a start to columns from disk, s, alone", ends.alone, _WARM),
        (f"`bytes_read_again` of {_SLOW} slow streams beside a full cache", sum(slow.again), 0),
    ]
    machine = process.machine()
    print(
        f"# Churn of {given.minutes:g} minutes\n\n{machine['cpu']}, {machine['cores']} cores, {machine['memory']}; Linux "
        f"{machine['kernel']}. {given.clients} clients at a time, `memory` {_MEMORY // _MIB} MiB, `cache_memory` "
        f"{_CACHE_MEMORY // _MIB} MiB, `cache_disk` {given.disk} MiB, {given.queries} queries of "
        f"{', '.join(_NAMES)}.\n\n| check | measured | limit | holds |\n|---|---:|---:|---|"
    )
    for name, value, limit in checks:
        print(f"| {name} | {value:.10g} | {limit:g} | {'yes' if value <= limit else 'NO'} |")
    lives = ", ".join(f"{n} {way}" for way, n in sorted(tally.ways.items()))
    median = statistics.median(ends.warm) if ends.warm else 0.0
    print(
        f"\nStreams: {lives}. {tally.ended} read to their ends, {tally.rows:,} rows, {tally.cached} of them in part from the "
        f"cache. {tally.broken} calls failed while the server was down; streams connected again {tally.resumed} times, "
        f"{tally.memory} of them for lack of memory, for which {tally.refused} others ended.\n\n"
        f"{len(ends.warm) + 1} kills. From the start of the process to columns from disk, among {given.clients} clients: "
        f"{median:.2f} s (median), at most {max(ends.warm, default=0):.2f} s.\n\n"
        f"Slow streams: {slow.full / _MIB:.0f} MiB were cached before, at least {slow.least / _MIB:.0f} MiB meanwhile; "
        f"{slow.cached} of {_SLOW} reports have `cached`.\n\nThe last process before the end:\n"
    )
    for name, count in ends.counts.items():
        print(f"- `{name}`: {count:,.0f}")
    for wrong in tally.wrong[:20]:
        print(f"wrong: {wrong}", file=sys.stderr)
    return 1 if any(value > limit for _, value, limit in checks) else 0


if __name__ == "__main__":
    sys.exit(main())
