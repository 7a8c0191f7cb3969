"""Measures what computed columns cost: T with ten expressions, beside T without them in the same run.

    python benchmarks/tables.py .bench/full
    python benchmarks/computed.py --binary bin/penstock --config .bench/full/penstock.yaml

Epochs with and without the expressions take turns on one server, in batches of 8,192 rows, and the client counts rows. It
prints the median of the ratios of the server's processor time.
"""

from __future__ import annotations

import argparse
import statistics

from encrypted import Served

EXPRESSIONS = (
    "f0 * 2 + f1",
    "f2 / nullif(f3, 0)",
    "abs(f4 - f5)",
    "greatest(f0, f1)",
    "coalesce(u0, 0)",
    "u1 * f0",
    "u2 + u3",
    "i0 + 1",
    "i1 % 10",
    "CAST(i2 AS double)",
)


def main() -> None:
    """Runs the measurement."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--binary", default="bin/penstock")
    flags.add_argument("--config", default=".bench/full/penstock.yaml")
    flags.add_argument("--dataset", default="t")
    flags.add_argument("--rounds", type=int, default=5)
    flags.add_argument("--cache-memory", default="0", help="by default, each epoch is decoded")
    given = flags.parse_args()
    options = ["--listen", "127.0.0.1:0", "--log-level", "error", "--cache-memory", given.cache_memory]
    server = Served([given.binary, "serve", "--config", given.config, *options])
    try:
        columns = server.columns(given.dataset)
        for wire in ("plain", "indexed"):
            report(
                server, {"dataset": given.dataset, "batch_rows": 8192, "wire": wire}, columns, given.rounds
            )
    finally:
        server.end()


def report(server: Served, query: dict[str, object], columns: list[str], rounds: int) -> None:
    """Measures and prints one form of batches."""
    computed = [{"column": f"computed{i}", "expr": text} for i, text in enumerate(EXPRESSIONS)]
    queries = [{**query, "columns": columns}, {**query, "columns": [*columns, *computed]}]
    turns = [[server.epoch(one) for one in queries] for _ in range(rounds + 1)][1:]
    used = [statistics.median(turn[i][1] for turn in turns) for i in range(2)]
    ratio = statistics.median(more[1] / less[1] for less, more in turns)
    print(
        f"{query['wire']}: {ratio:.2f} x of the server's CPU, {used[1]:.2f} and {used[0]:.2f} s an epoch, "
        f"with {len(EXPRESSIONS)} expressions and without"
    )


if __name__ == "__main__":
    main()
