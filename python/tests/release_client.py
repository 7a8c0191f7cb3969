"""A client of either release's package, for test_release_before.py: which one PYTHONPATH has decides.

Reads a task as JSON from its input, and prints the result as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import penstock
from penstock import servers

# Both releases try the addresses in the order in which they are written.
if hasattr(servers, "ranked"):
    servers.ranked = lambda _, addresses: list(addresses)


def read(client: penstock.Client, task: dict[str, Any]) -> dict[str, Any]:
    """Reads a stream from its cursor, or some batches of it. With `pause`, waits for a line of input after these, and reads on."""
    rows: list[Any] = []
    stream = client.read("wide", **task["query"], cursor=task.get("cursor"))
    for batch in stream:
        rows += batch.column("row").to_pylist()
        if stream.stats.batches == task.get("batches"):
            if not task.get("pause"):
                break
            print("read", flush=True)
            sys.stdin.readline()
    stats = stream.stats
    found = {
        "rows": rows,
        "cursor": stream.cursor,
        "moved": getattr(stats, "moved", 0),
        "resumed": stats.resumed,
    }
    stream.close()
    return found


def stage(client: penstock.Client, task: dict[str, Any]) -> dict[str, Any]:
    """Appends rows to a table."""
    import pyarrow as pa

    staged = client.stage(
        task["table"], pa.Table.from_pylist(task["rows"]), token=task["token"], key=["id"], buckets=4
    )
    return {"rows": staged.rows}


def ask(client: penstock.Client, _: dict[str, Any]) -> dict[str, Any]:
    """Makes every kind of call that only reads."""
    manifest = client.manifest("wide")
    return {
        "version": client.status().version,
        "datasets": [one.name for one in client.datasets()],
        "plan": client.plan("wide").id,
        "manifest": manifest,
        "replayed": client.replay(manifest).read_all().num_rows,
        "explained": bool(client.explain("wide")),
        "clean": client.verify("wide").clean,
        "tables": client.tables(),
        "splits": len(list(client.read_splits("wide"))),
    }


def main() -> None:
    """Does the task of the input."""
    task = json.loads(sys.stdin.readline())
    todo: dict[str, Callable[[penstock.Client, dict[str, Any]], dict[str, Any]]] = {
        "read": read,
        "stage": stage,
        "ask": ask,
    }
    with penstock.connect(task["addresses"], lookahead=1 << 16, reconnect=60) as client:
        found = todo[task["do"]](client, task)
    print(json.dumps({**found, "package": str(Path(penstock.__file__).parents[1])}, default=str))


if __name__ == "__main__":
    main()
