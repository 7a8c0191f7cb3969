"""Penstock read by a plain Flight client, without its own Python package."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.flight as flight

from peers import contender
from peers.flight_client import FlightClient


class Penstock(FlightClient):
    """Plans and reads one shard; planning is part of the time."""

    # What the query asks beside data set and batch size.
    fields: ClassVar[dict[str, Any]] = {}

    def __init__(self, settings: contender.Settings) -> None:
        super().__init__(settings)
        query = {"dataset": settings.inputs.dataset, "batch_rows": settings.batch_rows}
        query |= {**self.fields, **settings.query}
        self._descriptor = flight.FlightDescriptor.for_command(json.dumps(query).encode())

    def stream(self) -> Iterator[pa.RecordBatch]:
        """Plan the query, then read every endpoint's stream, one after the other."""
        for endpoint in self.client.get_flight_info(self._descriptor).endpoints:
            yield from self.read(endpoint.ticket)


if __name__ == "__main__":
    contender.main(Penstock, contender.joined)
