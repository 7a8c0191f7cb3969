"""DuckDB behind the shortest Flight server one would write: the ticket is SQL."""

from __future__ import annotations

import argparse

import pyarrow.flight as flight
from address import bound, location

from peers import sql


class Server(flight.FlightServerBase):
    """Runs each ticket's query on a connection of its own."""

    def __init__(self, batch_rows: int, listen: str) -> None:
        super().__init__(location(listen))
        self._database = sql.connect()
        self._batch_rows = batch_rows

    def do_get(self, _context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.RecordBatchStream:
        """Stream the query's result; from here on no Python runs."""
        relation = self._database.cursor().sql(ticket.ticket.decode())
        reader = relation.to_arrow_reader(self._batch_rows)
        return flight.RecordBatchStream(reader)


def main() -> None:
    """Serve until killed; the first line on stdout is the address."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-rows", type=int, required=True)
    parser.add_argument("--listen", required=True)
    given = parser.parse_args()
    server = Server(given.batch_rows, given.listen)
    print(bound(given.listen, server.port), flush=True)
    server.serve()


if __name__ == "__main__":
    main()
