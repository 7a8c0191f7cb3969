"""DuckDB behind the shortest Flight server one would write: the ticket is SQL."""

from __future__ import annotations

import argparse

import pyarrow.flight as flight

from peers import sql


class Server(flight.FlightServerBase):
    """Runs each ticket's query on a connection of its own."""

    def __init__(self, batch_rows: int) -> None:
        super().__init__("grpc://127.0.0.1:0")
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
    server = Server(parser.parse_args().batch_rows)
    print(f"127.0.0.1:{server.port}", flush=True)
    server.serve()


if __name__ == "__main__":
    main()
