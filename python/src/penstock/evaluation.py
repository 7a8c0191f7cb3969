"""Evaluation: reads every split of a query once, with one result file per split."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock import errors, manifests, query, results
from penstock.answers import total
from penstock.bound import BoundQuery
from penstock.files import write_atomically
from penstock.progress import Progress, ProgressOption
from penstock.splits import Splits, in_threads
from penstock.stream import Stream

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Evaluation:
    """The result of an evaluation.

    Attributes:
        folder: the folder of its files.
        manifest: the run's manifest; `Client.replay` reads the evaluated rows again.
        files: one complete file per split of this job's part, in the plan's order.
        read: the number of files that this call wrote.
        rows: the number of rows of the query that this call read.
    """

    folder: Path
    manifest: dict[str, Any]
    files: tuple[Path, ...]
    read: int
    rows: int

    def table(self) -> pa.Table:
        """Returns all results as one table, in the plan's order.

        Raises:
            Corrupt: a file was changed after it was written.
        """
        tables = [results.read(file) for file in self.files]
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})


def run(
    bound: BoundQuery,
    folder: Path,
    evaluate: Callable[[Stream], Any],
    threads: int,
    part: tuple[int, int],
    progress: ProgressOption,
) -> Evaluation:
    """Implements `Client.evaluate`."""
    index, of = _check_part(part)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as e:
        raise query.invalid("folder", f"{folder} is not a folder, or is inside a file: {e}") from e
    manifest, splits = bound.servers.retried(lambda: _open_run(bound, folder / MANIFEST))
    if splits.plan.id != manifest["plan"]:
        raise _different_run(folder, "plan", manifest["plan"], splits.plan.id)
    mine = splits[index::of]
    files = {split: folder / f"split-{split.number:05d}-{split.name}.parquet" for split in mine}
    left = results.missing(manifest["plan"], files)

    def one(stream: Stream) -> tuple[pa.Table, dict[str, Any]]:
        table = _table(evaluate(stream))
        try:
            return table, stream.report
        except errors.Invalid as e:
            raise errors.Invalid(
                f"evaluate {bound.name}: the function returned before it had read its stream to its end",
                remedy="read all batches; to read less, set columns and filter",
            ) from e

    rows, began = 0, time.monotonic()
    shown = Progress.make(progress, bound.name, total(split.rows for split in left), len(left), unit="splits")
    try:
        for done, (split, (table, report)) in enumerate(in_threads(left, one, threads), 1):
            rows += report["rows"]
            results.write(files[split], table, results.about(manifest["plan"], split, report))
            if shown is not None:
                shown.show(rows, done, time.monotonic() - began)
    finally:
        if shown is not None:
            shown.close()
    return Evaluation(folder, manifest, tuple(files.values()), len(left), rows)


def _check_part(part: Any) -> tuple[int, int]:
    """Checks and returns a part of the splits."""
    pair = isinstance(part, tuple | list) and [type(number) for number in part] == [int, int]
    if not pair or not 0 <= part[0] < part[1]:
        raise query.invalid("part", f"must be (index, of) with index from 0 to of - 1, not {part!r}")
    return part[0], part[1]


def _open_run(bound: BoundQuery, file: Path) -> tuple[dict[str, Any], Splits]:
    """Returns the manifest of the folder's run, and the splits at its snapshots. The first job writes the manifest."""
    if not file.exists():
        text = manifests.text(manifests.ask(bound))
        # If several jobs start at once, the first one writes the file.
        write_atomically(file, lambda out: out.write(text), replace=False)
    manifest = dict(manifests.load(file))
    named = query.name(manifest["query"].get("dataset"))
    if named != bound.name:
        raise _different_run(file.parent, "dataset", named, bound.name)
    pinned = bound
    if not bound.form.get("cursor"):
        pinned = BoundQuery(bound.servers, {**bound.form, "snapshots": manifest["pin"]})
    again = manifests.ask(pinned)
    if any(again[name] != manifest[name] for name in ("plan", "columns")):
        raise _different_run(file.parent, *_difference(manifest, again))
    return manifest, Splits.of(pinned)


def _difference(was: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, Any, Any]:
    """Returns the first difference of two manifests: its name, and both values."""
    for name in sorted({*was["query"], *now["query"]} - {"snapshots", "wire"}):
        if was["query"].get(name) != now["query"].get(name):
            return name, was["query"].get(name), now["query"].get(name)
    if was["dataset"] != now["dataset"]:
        names = sorted({*was["dataset"], *now["dataset"]})
        field = next(n for n in names if was["dataset"].get(n) != now["dataset"].get(n))
        return f"the dataset's {field}", was["dataset"].get(field), now["dataset"].get(field)
    name = "plan" if was["plan"] != now["plan"] else "columns"
    return name, was[name], now[name]


def _different_run(folder: Path, name: str, was: Any, now: Any) -> errors.Invalid:
    was, now = (value if value is not None else "not given" for value in (was, now))
    return errors.Invalid(
        f"{folder} contains the results of another run, with a different value of {name}: {was} then, {now} now",
        remedy="use a separate folder for each run",
    )


def _table(result: Any) -> pa.Table:
    """Converts the result of an evaluation to a table."""
    if isinstance(result, pa.RecordBatch):
        return pa.Table.from_batches([result])
    if isinstance(result, pa.Table):
        return result
    if isinstance(result, dict) or hasattr(result, "__arrow_c_stream__"):
        return pa.table(result)
    raise query.invalid(
        "evaluate", f"it returned {type(result).__name__}; return a table of pyarrow, Polars or pandas"
    )
