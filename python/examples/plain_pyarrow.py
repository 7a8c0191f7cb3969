"""Reads a dataset of a Penstock server with only pyarrow, without the penstock package.

It lists the datasets, shows one, reads it over 1, 2 and 4 shards, and resumes
from the cursor after every batch. Each time all rows must come exactly once,
resumed ones in the same order; it exits with 1 if they do not.

    python plain_pyarrow.py 127.0.0.1:8815 homefeed
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from typing import Any

import pyarrow.flight as flight

LANES = 4

Row = str
Cursor = dict[str, Any]


def plan(client: flight.FlightClient, query: dict[str, Any]) -> flight.FlightInfo:
    """Plans a query: returns its schema, its row count, and a ticket for every shard."""
    return client.get_flight_info(flight.FlightDescriptor.for_command(json.dumps(query)))


def read(client: flight.FlightClient, ticket: flight.Ticket) -> list[tuple[list[Row], Cursor]]:
    """Reads a shard's stream: yields the rows of each batch, and the cursor after it."""
    batches = []
    report = None
    reader = client.do_get(ticket)
    while True:
        try:
            batch, metadata = reader.read_chunk()
        except StopIteration:
            break
        said = json.loads(metadata.to_pybytes())
        if batch is None:  # the last message has no rows: it is the report
            report = said["report"]
        else:
            batches.append(([repr(row) for row in batch.to_pylist()], said))
    # Without the report, the stream is incomplete, however it ended.
    if report is None or report["rows"] != sum(len(rows) for rows, _ in batches):
        raise SystemExit("the stream is not whole")
    return batches


def rows_of(client: flight.FlightClient, query: dict[str, Any]) -> list[list[tuple[list[Row], Cursor]]]:
    """Reads the batches of each shard of a query."""
    return [read(client, endpoint.ticket) for endpoint in plan(client, query).endpoints]


def check(what: str, well: bool) -> None:
    """Prints a check, and exits if it failed."""
    print(f"{what}: {'yes' if well else 'NO'}")
    if not well:
        sys.exit(1)


def resumes(
    client: flight.FlightClient, query: dict[str, Any], shard: list[tuple[list[Row], Cursor]]
) -> bool:
    """Checks that the stream resumes with the very next row from the cursor after every batch."""
    for i, (_, cursor) in enumerate(shard):
        again = rows_of(client, {**query, "shard": cursor["shard"], "cursor": cursor})[0]
        rest = [row for rows, _ in shard[i + 1 :] for row in rows]
        if [row for rows, _ in again for row in rows] != rest:
            return False
    return True


def main() -> None:
    """Lists, shows, reads and resumes."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("server", help="host:port")
    arguments.add_argument("dataset")
    arguments.add_argument("--batch-rows", type=int, default=8192, help="rows of a batch, a multiple of 4")
    given = arguments.parse_args()
    client = flight.FlightClient(f"grpc://{given.server}")

    for found in client.list_flights():
        failure = json.loads(found.app_metadata).get("error")
        state = f"{found.total_records} rows" if failure is None else failure["message"]
        print(f"{found.descriptor.path[0].decode()}: {state}")

    query = {"dataset": given.dataset, "lanes": LANES, "batch_rows": given.batch_rows}
    found = plan(client, query)
    print(found.schema)
    everything = Counter(row for shard in rows_of(client, query) for rows, _ in shard for row in rows)
    if found.total_records >= 0:
        check(f"the {found.total_records} rows of the plan came", everything.total() == found.total_records)

    for shards in (1, 2, 4):
        sharded = {**query, "shard": {"of": shards}}
        streams = rows_of(client, sharded)
        seen = Counter(row for shard in streams for rows, _ in shard for row in rows)
        check(f"{shards} shards give every row exactly once", len(streams) == shards and seen == everything)
        well = all(resumes(client, sharded, shard) for shard in streams)
        check(f"{sum(map(len, streams))} cursors resume with the very next row", well)


if __name__ == "__main__":
    main()
