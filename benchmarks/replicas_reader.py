"""Reads one shard of shuffled epochs for replicas.py, and prints what it found as JSON.

It prints a line when it can begin, and begins when its input has one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import zlib

import penstock

_LOOKAHEAD = 1 << 20  # a few batches: what a transport holds does not hide how fast the link is
_TICK = 0.1  # seconds between two counts of rows


def main() -> None:
    """Reads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shard", type=int)
    parser.add_argument("--of", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--servers", required=True)
    given = parser.parse_args()
    print("ready", flush=True)
    sys.stdin.readline()
    before, began = os.times(), time.monotonic()
    rows, digest = 0, 0
    counts: list[tuple[float, int]] = []
    with penstock.connect(given.servers, lookahead=_LOOKAHEAD) as client:
        for epoch in range(given.epochs):
            stream = client.read(
                "t",
                wire="plain",  # 550 bytes a row
                order="shuffled",
                seed=7,
                epoch=epoch,
                lanes=given.of,
                algorithm=2,  # as docs/ordering.md recommends for several servers
                shard=(given.shard, given.of),
                batch_rows=4096,
            )
            for batch in stream:
                rows += batch.num_rows
                digest = zlib.crc32(batch["item_id"].to_numpy().tobytes(), digest)
                now = time.monotonic()
                if not counts or now - counts[-1][0] >= _TICK:
                    counts.append((now, rows))
    after, ended = os.times(), time.monotonic()
    cpu = after.user + after.system - before.user - before.system
    print(
        json.dumps(
            {"began": began, "ended": ended, "rows": rows, "digest": digest, "cpu": cpu, "counts": counts}
        )
    )


if __name__ == "__main__":
    main()
