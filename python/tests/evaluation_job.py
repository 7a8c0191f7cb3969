"""An offline evaluation that reads splits one by one with pyarrow alone, and may be killed anywhere.

All that it knows lies in a folder: the pin of its first run, and a file of rows for
the splits of each endpoint, which takes its name when it is whole.

    python evaluation_job.py 127.0.0.1:8815 '{"dataset": "d"}' folder [batches to stop after]
"""

from __future__ import annotations

import hashlib
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow.flight as flight


def plan(client: flight.FlightClient, query: dict[str, Any]) -> flight.FlightInfo:
    return client.get_flight_info(flight.FlightDescriptor.for_command(json.dumps(query)))


def pinned(client: flight.FlightClient, query: dict[str, Any], folder: Path) -> flight.FlightInfo:
    """Plans the query at the pin of the first run."""
    kept = folder / "pin.json"
    if kept.exists():
        return plan(client, {**query, "snapshots": json.loads(kept.read_text())})
    found = plan(client, query)
    kept.write_text(json.dumps(json.loads(found.app_metadata)["pin"]))
    return found


def main() -> None:
    """Reads the endpoints whose splits have no file yet."""
    address, text, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    stop = int(sys.argv[4]) if len(sys.argv) > 4 else -1
    client = flight.FlightClient(f"grpc://{address}")
    query = {**json.loads(text), "endpoints": "splits"}
    batches = 0
    for endpoint in pinned(client, query, folder).endpoints:
        said = json.loads(endpoint.app_metadata)
        done = folder / (hashlib.sha256(" ".join(said["splits"]).encode()).hexdigest() + ".rows")
        if done.exists():
            continue
        rows, report = [], None
        reader = client.do_get(endpoint.ticket)
        for chunk in reader:
            if chunk.data is None:
                report = json.loads(chunk.app_metadata.to_pybytes())["report"]
                continue
            rows += chunk.data.to_pylist()
            batches += 1
            if batches == stop:
                print("in the middle", flush=True)
                signal.pause()
        assert report is not None, "the stream is whole"
        assert report["rows"] == len(rows)
        assert said["rows"] in (-1, len(rows))
        part = done.with_suffix(".part")
        part.write_text(json.dumps(rows))
        part.rename(done)
        print(f"read {len(rows)} rows of {' '.join(said['splits'])}", flush=True)


if __name__ == "__main__":
    main()
