"""A plain pyarrow Flight client: one channel, one `read_chunk` loop."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.flight as flight
from address import location

from peers.contender import Settings


class FlightClient:
    """Reads streams from the server that the settings name."""

    def __init__(self, settings: Settings) -> None:
        if settings.address is None:
            raise ValueError("--address is missing")
        self.client = flight.FlightClient(location(settings.address))
        self.client.wait_for_available(timeout=30)

    def read(self, ticket: flight.Ticket) -> Iterator[pa.RecordBatch]:
        """The batches behind a ticket; messages that hold only metadata are passed over."""
        reader = self.client.do_get(ticket)
        while True:
            try:
                chunk = reader.read_chunk()
            except StopIteration:
                return
            if chunk.data is not None:
                yield chunk.data

    def rows(self, batch: pa.RecordBatch) -> int:
        """The batch's rows."""
        return int(batch.num_rows)

    def arrow(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The batch itself."""
        return [batch]
