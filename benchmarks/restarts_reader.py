"""Reads streams for restarts.py, paced as by trainers, and then again without disturbance.

The first line of its input has the addresses of all servers, the second one, which ends reading, the address of one
server. It prints a line when all streams have a batch, and in the end, as JSON, the counts and longer waits of each stream.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import sys
import threading
import time
import zlib

import pyarrow as pa

import penstock

_COLUMNS = ["request_id", "item_id", "label", "f0", "i4", "u0", "history"]
_KEPT = 0.03  # seconds; shorter waits are not kept
_RECONNECT = 60


@dataclasses.dataclass
class Found:
    """What one stream met.

    Attributes:
        waits: for each longer wait: when it ended, its seconds, and whether the stream went to another server meanwhile.
        digests: a digest of each batch.
    """

    shard: int
    batches: int = 0
    moved: int = 0
    resumed: int = 0
    warnings: int = 0
    differ: int = 0
    errors: list[str] = dataclasses.field(default_factory=list)
    waits: list[tuple[float, float, bool]] = dataclasses.field(default_factory=list)
    digests: list[int] = dataclasses.field(default_factory=list)


def _values(batch: pa.RecordBatch) -> int:
    """A digest of a batch's values, whatever its buffers look like."""
    found = batch.num_rows
    for column in batch.columns:
        if pa.types.is_list(column.type):
            found = zlib.crc32(
                column.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False).tobytes(), found
            )
            column = column.flatten()
        found = zlib.crc32(column.fill_null(0).to_numpy(zero_copy_only=False).tobytes(), found)
        if column.null_count:
            found = zlib.crc32(column.is_null().to_numpy(zero_copy_only=False).tobytes(), found)
    return found


def _stream(client: penstock.Client, given: argparse.Namespace, shard: int) -> penstock.Stream:
    stream = client.read(
        "t",
        columns=_COLUMNS,
        order="shuffled",
        seed=7,
        lanes=given.of,
        shard=(shard, given.of),
        batch_rows=given.rows,
        repeat="forever",
    )
    assert isinstance(stream, penstock.Stream)
    return stream


def _read(found: Found, addresses: list[str], given: argparse.Namespace, stop: threading.Event) -> None:
    at = found.shard % len(addresses)
    limits = {"lookahead": given.lookahead} if given.lookahead else {}
    try:
        with penstock.connect([*addresses[at:], *addresses[:at]], reconnect=_RECONNECT, **limits) as client:
            stream = _stream(client, given, found.shard)
            while not stop.is_set():
                went = found.moved + found.resumed
                began = time.monotonic()
                batch = next(stream)
                ended = time.monotonic()
                stats = stream.stats
                found.moved, found.resumed = getattr(stats, "moved", 0), stats.resumed
                if ended - began > _KEPT or found.moved + found.resumed > went:
                    found.waits.append((ended, ended - began, found.moved + found.resumed > went))
                found.batches += 1
                found.digests.append(_values(batch))
                time.sleep(given.pause / 1000)
            stream.close()
    except Exception as e:
        found.errors.append(f"{type(e).__name__}: {e}")


def _compare(found: Found, address: str, given: argparse.Namespace) -> None:
    """Reads the same batches again from one server that is not stopped."""
    try:
        with penstock.connect(address) as client, _stream(client, given, found.shard) as stream:
            found.differ = sum(_values(next(stream)) != digest for digest in found.digests)
    except Exception as e:
        found.errors.append(f"undisturbed: {type(e).__name__}: {e}")


class _Warnings(logging.Handler):
    """Counts what the package logs."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Counts one."""
        if record.levelno >= logging.WARNING:
            self.count += 1


def main() -> None:
    """Reads, and prints what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shards", type=int, nargs="+")
    parser.add_argument("--of", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--pause", type=float, required=True)
    parser.add_argument("--lookahead", type=int, required=True)
    given = parser.parse_args()
    warnings = _Warnings()
    logging.getLogger("penstock").addHandler(warnings)
    logging.getLogger("penstock").propagate = False
    found, stop = [Found(shard) for shard in given.shards], threading.Event()
    addresses = sys.stdin.readline().strip().split(",")
    threads = [threading.Thread(target=_read, args=(one, addresses, given, stop)) for one in found]
    for thread in threads:
        thread.start()
    while not all(one.batches or one.errors for one in found):
        time.sleep(0.01)
    print("all streams have a batch", flush=True)
    quiet = sys.stdin.readline().strip()
    stop.set()
    for thread in threads:
        thread.join()
    found[0].warnings = warnings.count
    for one in found:
        _compare(one, quiet, given)
    print(json.dumps([{**dataclasses.asdict(one), "digests": []} for one in found]))


if __name__ == "__main__":
    main()
