"""A server that speaks the calls of Penstock that the benchmark uses.

DuckDB joins; GetFlightInfo, cursors as metadata and the last message without
rows are as on Penstock's wire. `--wrong` alters one row. It is there so that
the benchmark's own path can be tested without the server's.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.flight as flight

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from address import bound, location
from inputs import Inputs
from peers import sql


class Stub(flight.FlightServerBase):
    """One endpoint per query; the ticket is the query."""

    def __init__(self, folder: Path, wrong: bool, listen: str) -> None:
        super().__init__(location(listen))
        self._folder = folder
        self._wrong = wrong

    def get_flight_info(
        self, _context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.FlightInfo:
        """Plan nothing."""
        endpoint = flight.FlightEndpoint(flight.Ticket(descriptor.command), [])
        return flight.FlightInfo(pa.schema([]), descriptor, [endpoint], -1, -1)

    def do_get(self, _context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.GeneratorStream:
        """Join the inputs of the data set that the ticket names."""
        query = json.loads(ticket.ticket)
        inputs = Inputs.load(self._folder / f"{query['dataset']}.json")
        connection = sql.connect()
        reader = connection.sql(sql.join(inputs)).to_arrow_reader(query["batch_rows"])
        return flight.GeneratorStream(reader.schema, self._messages(reader))

    def _messages(self, reader: pa.RecordBatchReader) -> Iterator[tuple[pa.RecordBatch, bytes]]:
        wrong = self._wrong
        for batch in reader:
            given = batch
            if wrong:
                position = batch.schema.get_field_index("item_id")
                items = batch.column(position).to_pylist()
                items[0] += 1
                given = batch.set_column(position, batch.schema.field(position), pa.array(items))
                wrong = False
            yield given, b"{}"


def main() -> None:
    """`serve --config FILE --listen ADDRESS`; the tables lie beside FILE."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--wrong", action="store_true")
    parser.add_argument("call", choices=["serve"])
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--listen", required=True)
    arguments = parser.parse_args()
    server = Stub(arguments.config.parent, arguments.wrong, arguments.listen)
    print(bound(arguments.listen, server.port), flush=True)
    server.serve()


if __name__ == "__main__":
    main()
