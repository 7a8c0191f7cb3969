"""The client of `duckdb_flight_server`."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.flight as flight

from peers import contender, sql
from peers.flight_client import FlightClient


class DuckDBFlight(FlightClient):
    """Asks the server for the join."""

    def __init__(self, settings: contender.Settings) -> None:
        super().__init__(settings)
        self._ticket = flight.Ticket(sql.join(settings.inputs).encode())

    def stream(self) -> Iterator[pa.RecordBatch]:
        """Run the join on the server."""
        return self.read(self._ticket)


if __name__ == "__main__":
    contender.main(DuckDBFlight, contender.joined)
