"""A trainer, which reads one epoch after another, logs each step, and resumes from its last checkpoint.

    python -m chaos.trainer '{"addresses": […], "ca": FILE, "token": FILE, "folder": FOLDER, "query": {…}, …}'

The log has a line for each step: epoch, step, rows, a digest of the row numbers, and a period. A checkpoint is written
every few steps, so a trainer that is killed reads some steps again. With `splits`, it evaluates the dataset again and again
instead, each time in a folder of its own.
"""

from __future__ import annotations

import json
import os
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import penstock
from chaos import values

CHECKPOINT = 10  # steps
WRONG = 3  # the exit status for wrong values


def digest(batch: pa.RecordBatch) -> int:
    """A digest of the numbers of a batch's rows, in their order."""
    return zlib.crc32(batch["row"].to_numpy().tobytes())


def steps(client: penstock.Client, query: dict[str, Any], cursor: Any) -> Iterator[tuple[int, int, Any, Any]]:
    """Yields the epoch, the step, the batch and the cursor of each step of a trainer's query."""
    query = dict(query)
    if "mix" in query:
        with penstock.mix(query.pop("mix"), client=client, cursor=cursor, ends="repeat", **query) as mix:
            for batch in mix:
                yield 0, int(mix.cursor["step"]), batch, mix.cursor
    else:
        dataset = query.pop("dataset")
        with client.read(dataset, repeat="forever", cursor=cursor, **query) as stream:
            for batch in stream:
                at: Any = stream.cursor
                yield at["epoch"], at["step"], batch, at


def connect(given: dict[str, Any]) -> penstock.Client:
    """A client of all servers."""
    return penstock.connect(
        given["addresses"],
        token_file=given["token"],
        tls_roots=Path(given["ca"]).read_bytes(),
        timeout=30,
        lookahead=1 << 16,
        reconnect=given.get("reconnect", 60),
    )


def _train(client: penstock.Client, given: dict[str, Any]) -> None:
    folder = Path(given["folder"])
    checkpoint, log = folder / "checkpoint.json", folder / "steps"
    cursor = json.loads(checkpoint.read_text()) if checkpoint.exists() else None
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(out, b"\n")  # a kill may have cut the last line off
    for count, (epoch, step, batch, at) in enumerate(steps(client, given["query"], cursor), 1):
        if fault := values.wrong(batch):
            raise SystemExit(f"wrong values in epoch {epoch}, step {step}: {fault}")
        os.write(out, f"{epoch} {step} {batch.num_rows} {digest(batch)} .\n".encode())
        if count % CHECKPOINT == 0 or not checkpoint.exists():
            part = checkpoint.with_suffix(".part")
            part.write_text(json.dumps(at))
            part.rename(checkpoint)
        time.sleep(given["pause"])


def _rows(stream: penstock.Stream) -> pa.Table:
    parts = []
    for batch in stream:
        if fault := values.wrong(batch):
            raise SystemExit(f"wrong values in an evaluation: {fault}")
        parts.append(batch.select(["row"]))
    return pa.Table.from_batches(parts, pa.schema([stream.schema.field("row")]))


def _evaluate(client: penstock.Client, given: dict[str, Any]) -> None:
    folder, query = Path(given["folder"]), dict(given["query"])
    dataset = query.pop("dataset")
    while True:
        number = len(list(folder.glob("*.done")))
        client.evaluate(dataset, folder / str(number), _rows, threads=2, **query)
        (folder / f"{number}.done").touch()
        time.sleep(given["pause"])


def main() -> None:
    """Runs until it is killed, or an error ends it."""
    given = json.loads(sys.argv[1])
    with connect(given) as client:
        (_evaluate if given.get("splits") else _train)(client, given)


if __name__ == "__main__":
    main()
