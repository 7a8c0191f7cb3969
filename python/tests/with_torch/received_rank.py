"""A rank that reads through a receiver, as one of several processes: python received_rank.py ADDRESS RANK WORLD.

It prints how its first batch came, and reads a batch for each line of input. After the last line, it reads the rest, and
prints the number of its rows.
"""

from __future__ import annotations

import sys

from penstock.torch import IterableDataset


def main() -> None:
    address, rank, world = sys.argv[1:]
    data = IterableDataset(
        address,
        "d",
        columns=["row"],
        batch_rows=20,
        lanes=4,
        tail="keep",
        nulls="error",
        rank=int(rank),
        world=int(world),
        prefetch=0,
    )
    batches = iter(data)
    rows = next(batches).rows
    print(data.stats().way, flush=True)
    for _ in sys.stdin:
        rows += next(batches).rows
        print(data.stats().way, flush=True)
    rows += sum(batch.rows for batch in batches)
    print(rows, flush=True)


if __name__ == "__main__":
    main()
