"""Whether the logs of all jobs, and the tables in the end, are those of an undisturbed run."""

from __future__ import annotations

import itertools
import json
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from pyiceberg.table import Table

import penstock
from chaos import trainer, values
from chaos.jobs import Trainer, Writer

Steps = dict[tuple[int, int], tuple[int, int]]  # rows and digest, by epoch and step


def logged(log: Path) -> tuple[Steps, list[str]]:
    """The steps of a trainer's log, and contradictions between readings of one step."""
    steps: Steps = {}
    wrong = []
    for line in log.read_text().splitlines() if log.exists() else []:
        parts = line.split()
        if len(parts) != 5 or parts[4] != ".":
            continue  # it was cut off by a kill
        epoch, step, rows, digest = map(int, parts[:4])
        was = steps.setdefault((epoch, step), (rows, digest))
        if was != (rows, digest):
            wrong.append(f"epoch {epoch}, step {step} had other rows when it was read again")
    return steps, wrong


def gaps(steps: Steps) -> list[str]:
    """Steps that are missing before others."""
    wrong = []
    for epoch in range(max((e for e, _ in steps), default=0) + 1):
        found = sorted(step for e, step in steps if e == epoch)
        if found != list(range(1, len(found) + 1)):
            wrong.append(f"epoch {epoch} lacks steps")
    return wrong


def compare(job: Trainer) -> tuple[list[str], dict[int, list[Any]], int]:
    """Compares a trainer's log with an undisturbed read.

    Returns what is wrong, the row numbers of each whole epoch of that read, and the number of steps.
    """
    steps, wrong = logged(job.folder / "steps")
    wrong += gaps(steps)
    rows: dict[int, list[Any]] = {}
    try:
        wrong += _undisturbed(job, steps, rows)
    except (penstock.Error, OSError) as e:
        wrong.append(f"undisturbed: {type(e).__name__}: {e}")
    whole = sum(len(parts) for parts in rows.values())
    return [f"{job.name}: {text}" for text in wrong], rows, whole


def _undisturbed(job: Trainer, steps: Steps, rows: dict[int, list[Any]]) -> list[str]:
    """Reads the steps of a log again. Adds the row numbers of each whole epoch, and returns what is wrong."""
    if not steps:
        return ["it made no step"]
    last, wrong = max(steps), []
    with trainer.connect(job.given) as client:
        for epoch, step, batch, _ in trainer.steps(client, job.given["query"], None):
            if fault := values.wrong(batch):
                wrong.append(f"undisturbed: epoch {epoch}, step {step} has a wrong {fault}")
            rows.setdefault(epoch, []).append(batch["row"].to_numpy())
            want = (batch.num_rows, trainer.digest(batch))
            got = steps.pop((epoch, step), None)
            if got != want and (epoch, step) <= last:
                wrong.append(f"epoch {epoch}, step {step} has {got}, and {want} undisturbed")
            if (epoch, step) >= last or len(wrong) > 5:
                break
    if steps and not wrong:
        wrong.append(f"{len(steps)} steps are not in an undisturbed run, such as {min(steps)}")
    rows.pop(last[0], None)  # which has not ended
    return wrong


def together(dataset: str, ranks: list[dict[int, list[Any]]]) -> list[str]:
    """Checks that all ranks together have each row once, in each epoch that all have read to its end."""
    wrong = []
    for epoch in sorted(set.intersection(*(set(rank) for rank in ranks))):
        found = np.sort(np.concatenate([part for rank in ranks for part in rank[epoch]]))
        if not np.array_equal(found, np.arange(values.ROWS[dataset])):
            wrong.append(f"{dataset}: epoch {epoch} does not have each row once")
    return wrong


def evaluated(job: Trainer) -> tuple[list[str], int]:
    """Checks that each evaluation that is done has each row once. Returns what is wrong, and their number."""
    wrong, done = [], sorted(job.folder.glob("*.done"))
    want = np.arange(values.ROWS[job.given["query"]["dataset"]])
    for mark in done:
        files = sorted(mark.with_suffix("").glob("*.parquet"))
        found = np.sort(np.concatenate([pq.read_table(file)["row"].to_numpy() for file in files]))
        if not np.array_equal(found, want):
            wrong.append(f"{job.name}: evaluation {mark.stem} does not have each row once")
    return wrong, len(done)


def written(writer: Writer, table: Table) -> list[str]:
    """Checks the rows of a writer's table, and that each change was committed once."""
    wrong = []
    rows = table.scan().to_arrow()
    ids = rows["id"].to_pylist()
    if len(ids) != len(set(ids)):
        wrong.append(f"{len(ids) - len(set(ids))} rows are doubled")
    if lost := writer.rows - set(ids):
        wrong.append(f"{len(lost)} rows are lost, such as {min(lost)}")
    if more := set(ids) - writer.rows - writer.uncertain:
        wrong.append(f"{len(more)} rows were taken back or never acknowledged, such as {min(more)}")
    if rows["value"].to_pylist() != [i * 3 for i in ids]:
        wrong.append("values are wrong")
    found = [
        s.summary.additional_properties.get("penstock.token")
        for s in table.snapshots()
        if s.summary is not None
    ]
    counts = {token: found.count(token) for token in (*writer.tokens, *writer.undone)}
    wrong += [f"change {token} was committed {n} times" for token, n in counts.items() if n != 1]
    return [f"{writer.table}: {text}" for text in wrong]


def slope(series: list[tuple[float, float]]) -> float:
    """The trend of a series of seconds and bytes, in MiB an hour: the median slope of all pairs (Theil-Sen).

    The first sixth is left out: caches and free lists fill then.
    """
    after = series[len(series) // 6 :]
    pairs = itertools.combinations(after, 2)
    slopes = [(more - less) / (late - early) for (early, less), (late, more) in pairs]
    return statistics.median(slopes) * 3600 / (1 << 20) if slopes else 0.0


_BUGS = re.compile(r"panic:|invariant:|fatal error:|goroutine \d+ \[|WARNING: DATA RACE")


def bugs(log: Path) -> Iterator[str]:
    """Lines of a server's log that no fault explains."""
    for line in log.read_text(errors="replace").splitlines():
        if _BUGS.search(line):
            yield f"{log.parent.name}: {line[:400]}"
        elif line.startswith("{"):
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if told.get("level") == "ERROR":
                yield f"{log.parent.name}: {line[:600]}"
