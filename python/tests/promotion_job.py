"""A training job that reads epochs of a shuffled dataset, and may be killed anywhere.

It keeps a file with one line for each batch: the epoch, the rows, the schema, and the cursor after them. The last line of an
epoch has the entries that were read from promoted columns. When the job starts again, it continues after the last whole
line. It reads a batch for each line that it is given.

    python promotion_job.py 127.0.0.1:8815 '{"seed": 7}' 3 folder/job.jsonl
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import penstock

# The exit status of a job whose server did not answer. It is started again.
UNAVAILABLE = 75


def kept(file: Path) -> list[dict[str, Any]]:
    """The batches of a job. A line that was cut off by a kill is not one."""
    if not file.exists():
        return []
    whole, _, _ = file.read_text().rpartition("\n")
    return [json.loads(line) for line in whole.split("\n")] if whole else []


def next_of(batches: list[dict[str, Any]]) -> tuple[int, dict[str, Any] | None]:
    """The epoch to read, and the cursor at which it continues."""
    if not batches:
        return 0, None
    last = batches[-1]
    return (last["epoch"] + 1, None) if last["end"] else (last["epoch"], last["cursor"])


def main() -> None:
    """Reads the epochs that are left."""
    address, query, epochs, file = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    batches = kept(file)
    epoch, cursor = next_of(batches)
    file.write_text("".join(json.dumps(batch) + "\n" for batch in batches))
    # It reads little ahead, so that a kill of the server finds something left to read.
    with (
        penstock.connect(address, lookahead=1 << 12, reconnect=60) as client,
        file.open("a", buffering=1) as out,
    ):
        for number in range(epoch, epochs):
            stream = client.read("home", **query, epoch=number, cursor=cursor)
            cursor = None
            for permit in sys.stdin:
                batch = next(stream, None)
                line = {
                    "epoch": number,
                    "rows": batch.to_pylist() if batch is not None else [],
                    "schema": str(stream.schema),
                    "promoted": sorted(stream.report.get("promoted", {})) if batch is None else [],
                    "cursor": stream.cursor,
                    "end": batch is None,
                }
                out.write(json.dumps(line) + "\n")
                print(permit.strip(), flush=True)
                if batch is None:
                    break


if __name__ == "__main__":
    try:
        main()
    except penstock.Unavailable:
        sys.exit(UNAVAILABLE)
