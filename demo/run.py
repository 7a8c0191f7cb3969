"""The point of Penstock on one screen, with real data: `make demo`, and on S3: `make demo-s3`.

Writes MovieLens as bucketed Iceberg tables, starts the server, trains a small
model from its stream with and without the features of two staging tables, and
compares the streamed join with DuckDB's. Exits with 1 if the features do not
help, if any row differs, or if the comparison misses a row that was altered.
With --s3 the tables lie in a bucket of a local S3 gateway, behind a REST catalog
that vends the keys of each table.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from types import FrameType

import bucket
import explained
import lakehouse
import movielens
import proof
import service
from failure import DemoError
from screen import Screen
from training import Trainer

import penstock

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".demo"

_INTERRUPTED = 130


def main() -> int:
    """Run all steps and give the exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    screen = Screen()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--s3", action="store_true", help="tables on S3, behind a REST catalog")
    try:
        run(screen, on_s3=parser.parse_args().s3)
    except (DemoError, penstock.Error) as failed:
        print(f"\ndemo: {failed}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted; the server is stopped", file=sys.stderr)
        return _INTERRUPTED
    return 0


def run(screen: Screen, *, on_s3: bool) -> None:
    """Run all steps, with tables on local disk or on S3.

    Raises:
        DemoError: something that the demo promises did not hold.
        penstock.Error: the server failed a call or a stream.
    """
    began = time.monotonic()
    binary = Path(os.environ.get("PENSTOCK_BIN", ROOT / "bin" / "penstock"))
    if not binary.exists():
        raise DemoError(f"there is no {binary}: run `make build`")
    screen.title("Penstock: train on features that were never joined into the training table")
    with (
        lakehouse.held(FOLDER),
        bucket.place(FOLDER) if on_s3 else nullcontext(lakehouse.disk(FOLDER)) as place,
    ):
        screen.step(1, "Real data, as Iceberg tables")
        facts = prepare(screen, place)
        screen.step(2, "The server")
        config, log = lakehouse.configured(place), FOLDER / "server.log"
        with service.serving(binary, config, log) as address, penstock.connect(address) as client:
            pin = client.plan(lakehouse.DATASET).pin
            screen.say(f"penstock serve, at {address}. It matches the buckets (16 with 12 by their")
            screen.say("numbers mod 4, 16 with 8 mod 8), joins them in memory and streams the rows.")
            explained.check(
                client.explain(lakehouse.DATASET) + "\n" + client.explain(lakehouse.DATASET, splits=True)
            )
            screen.aside("penstock explain says so: demo/explain.txt.")
            screen.step(3, "A rating model, trained from the stream with and without the features")
            Trainer(screen, client, pin, facts).both()
            screen.step(4, "Is the join right? DuckDB joins the same files of the same snapshots")
            proof.check(screen, client, pin, facts, place)
    screen.say(f"{time.monotonic() - began:.0f} s for the whole demo")
    screen.good("identical to DuckDB: yes")


def prepare(screen: Screen, place: lakehouse.Place) -> lakehouse.Facts:
    """Find the tables of an earlier run or make them, and say what they are."""
    began = time.monotonic()
    facts = lakehouse.ready(place)
    how = "Found" if facts else "Written"
    if not facts:
        screen.aside("Writing MovieLens as three Iceberg tables, with PyIceberg...")
        facts = lakehouse.make(place)
    screen.say(
        f"MovieLens: {facts.tables[0].rows:,} ratings of {facts.movies:,} movies by {facts.users} users,"
    )
    screen.say(f"{facts.first_day} to {facts.last_day}.")
    for line in (*facts.source, *movielens.TERMS):
        screen.aside(line)
    screen.say()
    for table in facts.tables:
        role = "training" if table.name == lakehouse.RATINGS else "staging"
        layout = f"bucket({table.buckets}, {lakehouse.KEY})"
        size = sum(table.files.values()) / 1e6
        screen.say(f"{role:<10}{table.name:<25}{table.rows:>8,} rows   {layout:<22}{size:>5.1f} MB")
    screen.say()
    screen.say("A request is one user's sitting. Its features (how many ratings, their mean,")
    screen.say("the last 20 movies; how much each genre was liked) are made of the user's")
    screen.say("earlier sittings alone: a first sitting has none.")
    where = place.warehouse if place.properties else ".demo/tables"
    screen.aside(f"{how} in {where}, {time.monotonic() - began:.1f} s.")
    return facts


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    """End as Ctrl-C does, so that the server is stopped."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
