"""Compares the streamed join with DuckDB's, and checks the comparison with a control."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import compare
import lakehouse
import oracle
import pyarrow as pa
import pyarrow.compute as pc
from failure import DemoError
from screen import Screen
from training import expect

import penstock

# No user rates a movie twice, so both together identify a row.
_ROW = [lakehouse.KEY, "movie_id"]

# The second read uses different batches and a different order.
_ANOTHER_WAY: penstock.Query = {"order": "shuffled", "seed": 1, "lanes": 8, "batch_rows": 1000}


@dataclasses.dataclass(frozen=True)
class Files:
    """The Parquet files of the pinned snapshots."""

    training: list[str]
    staging: list[list[str]]

    def joined(self) -> pa.Table:
        """DuckDB's join of these files."""
        return oracle.join(lakehouse.KEY, self.training, self.staging)


def check(
    screen: Screen,
    client: penstock.Client,
    pin: dict[str, Any],
    facts: lakehouse.Facts,
    place: lakehouse.Place,
) -> None:
    """Read the whole dataset and compare it with DuckDB's join.

    Raises:
        DemoError: they differ, or the comparison does not see an altered row.
    """
    files = _files(pin, place)
    wanted = files.joined()
    began = time.perf_counter()
    with client.read(lakehouse.DATASET, snapshots=pin) as stream:
        streamed = stream.read_all()
    seconds = time.perf_counter() - began
    report = stream.report
    if not isinstance(report, dict):
        raise DemoError("one stream was asked for, several reported")
    expect(streamed.num_rows, facts.tables[0].rows, "rows")
    _must_agree(streamed, wanted, "in stored order")
    another: penstock.Query = {**_ANOTHER_WAY, "snapshots": pin}
    with client.read(lakehouse.DATASET, **another) as shuffled:
        _must_agree(shuffled.read_all(), wanted, "shuffled")
    screen.say(f"Compared: {streamed.num_rows:,} rows in {streamed.num_columns} columns, lists included,")
    screen.say("in stored order, and once more shuffled over 8 lanes. No difference.")
    _control(screen, streamed, files, place.home)
    screen.say()
    rate = streamed.num_rows / seconds
    screen.say(
        f"{streamed.num_rows:,} rows, joined twice and streamed in {seconds:.2f} s: {rate:,.0f} rows/s"
    )
    for name, column in (("user_history", "ratings_before"), ("genre_affinity", "affinity")):
        counts = report["staging"][name]
        # The column is required in its table, so it is only null without a match.
        expect(counts["matched"], len(streamed) - streamed[column].null_count, "matches in its report")
        screen.say(
            f"match rate of {name:<15}{counts['matched'] / counts['rows']:>7.1%}"
            f"   ({counts['matched']:,} rows; the rest are first sittings)"
        )


def _must_agree(streamed: pa.Table, wanted: pa.Table, how: str) -> None:
    verdict = compare.tables(streamed, wanted, _ROW)
    if not verdict.identical:
        raise DemoError(
            "\n  ".join([f"identical to DuckDB: no ({how}; stream against DuckDB)", *verdict.differences])
        )


def _control(screen: Screen, streamed: pa.Table, files: Files, folder: Path) -> None:
    """Alter one row of one file: the comparison must find only that."""
    history, *others = files.staging
    with oracle.altered(history, lakehouse.KEY, "last_movies", folder) as (replaced, request):
        altered = dataclasses.replace(files, staging=[replaced, *others]).joined()
    verdict = compare.tables(streamed, altered, _ROW)
    hit = pc.sum(pc.equal(streamed[lakehouse.KEY], request)).as_py()
    if {key[0] for key in verdict.keys} != {request} or verdict.differing_rows != hit:
        raise DemoError("the comparison did not see the row that was altered: it proves nothing")
    screen.say("Control: with one value altered in a copy of one file, the comparison says")
    screen.aside(verdict.differences[0])


def _files(pin: dict[str, Any], place: lakehouse.Place) -> Files:
    catalog = lakehouse.open_catalog(place)
    try:
        training = lakehouse.files_of(catalog, place, lakehouse.RATINGS, pin["training"]["snapshot"])
        staging = [
            lakehouse.files_of(catalog, place, name, pin["staging"][name.rpartition(".")[2]]["snapshot"])
            for name in lakehouse.STAGING
        ]
    finally:
        catalog.close()
    return Files(training, staging)
