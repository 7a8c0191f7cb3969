"""What new users write wrong: each error names the argument, and says what to write."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import penstock
from penstock import mistakes, query

# What is written wrong, the argument that is named, and what the remedy says.
WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"shuffle": True}, "shuffle", 'order="shuffled", seed=1'),
    ({"shuffle": False}, "shuffle", "leave shuffle out"),
    ({"seed": 7}, "seed", 'order="shuffled", seed=7'),
    ({"seed": 7, "order": "stored"}, "seed", 'order="shuffled", seed=7'),
    ({"columns": "item"}, "columns", "columns=['item']"),
    ({"batch_rows": 8192.0}, "batch_rows", "batch_rows=8192"),
    ({"lanes": "4"}, "lanes", "lanes=4"),
    ({"since": 5e18}, "since", "since=5000000000000000000"),
    ({"limit": 1e3}, "limit", "limit=1000"),
    ({"shard": 1}, "shard", "shard=(1, 4)"),
    ({"filter": [("label", "=", 1)]}, "filter", 'filter="label = 1'),
    ({"epoch": "two"}, "epoch", "epoch=1"),
]


@pytest.mark.parametrize(("fields", "named", "remedy"), WRONG)
def test_a_mistake_says_what_to_write(
    fake: penstock.Client, fields: dict[str, Any], named: str, remedy: str
) -> None:
    for call in (fake.read, fake.plan, fake.schema, fake.explain, fake.manifest):
        with pytest.raises(penstock.Invalid) as caught:
            call("good", **fields)
        assert [fault.field for fault in caught.value.faults] == [named]
        assert remedy in caught.value.remedy
        assert str(caught.value).startswith(f"{named}: ")


@pytest.mark.parametrize(
    "fields",
    [
        {"seed": 0},
        {"seed": None, "shuffle": None, "columns": None},
        {"seed": 7, "order": "shuffled", "shuffle": "rows"},
        {"seed": 7, "cursor": {"v": 1}},
    ],
)
def test_correct_fields_are_not_refused(fields: dict[str, Any]) -> None:
    mistakes.refuse(fields)


@pytest.mark.parametrize("uri", [8815, None, b"127.0.0.1", "", "grpc://"])
def test_invalid_address_error_shows_a_valid_one(uri: Any) -> None:
    with pytest.raises(penstock.Invalid, match=r"write.*127\.0\.0\.1"):
        penstock.connect(uri)


def test_lists_of_arguments_are_refused() -> None:
    given: Any = ["fix", "late"]
    with penstock.connect("127.0.0.1:1") as client:
        with pytest.raises(
            penstock.Invalid, match=r"entries: \['fix', 'late'\] is a list, not a name; .*: 'fix', 'late'"
        ):
            client.promote("feed", given)
        with pytest.raises(penstock.Invalid, match=r"columns: 7 is not a name; pass each name as a text"):
            client.demote("ml.feed", cast(Any, 7))


def test_a_server_that_is_not_there_is_named() -> None:
    with (
        penstock.connect("127.0.0.1:1", timeout=10) as client,
        pytest.raises(penstock.Unavailable) as caught,
    ):
        client.datasets()
    assert "penstock serve" in caught.value.remedy
    assert "127.0.0.1:1" in caught.value.remedy


@pytest.mark.parametrize(
    ("arguments", "named", "remedy"),
    [
        ({"uri": [None]}, "uri", "write connect('127.0.0.1:8815')"),
        ({"uri": Path("/run/penstock.sock")}, "uri", "write connect("),
        ({"uri": {}}, "uri", "write connect("),
        ({"headers": [("a", "b")]}, "headers", "a mapping from name to text"),
        ({"headers": {"a": 1}}, "headers['a']", "must be text, not int"),
        ({"headers": {"a": "b\r\nx: y"}}, "headers['a']", "contains a line break"),
        ({"token": "s3cret\n"}, "token", "call strip() on text from a file"),
        ({"token": b"s3cret"}, "token", "must be text, not bytes"),
        ({"tls_roots": "/etc/ca.pem"}, "tls_roots", "Path(file).read_bytes()"),
        ({"timeout": -1}, "timeout", "more than 0, not -1"),
        ({"timeout": float("nan")}, "timeout", "more than 0"),
        ({"timeout": "5"}, "timeout", "must be seconds"),
        ({"reconnect": None}, "reconnect", "must be seconds, 0 or more"),
        ({"lookahead": -1}, "lookahead", "write lookahead=0"),
        ({"lookahead": 1.5}, "lookahead", "write lookahead=1"),
    ],
)
def test_arguments_of_connect_are_named(arguments: dict[str, Any], named: str, remedy: str) -> None:
    with pytest.raises(penstock.Invalid) as caught:
        penstock.connect(**{"uri": "127.0.0.1:8815", **arguments})
    assert [fault.field for fault in caught.value.faults] == [named]
    assert remedy in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_values_of_other_libraries(fake: penstock.Client) -> None:
    """Arrays are lists, whole numbers of any type are exact, and text is text."""
    sent = query.form(
        "d", {"columns": np.array(["a", "b"]), "hash": np.array([0, 0.5]), "every": (1, np.int64(4))}
    )
    assert sent == {"dataset": "d", "columns": ["a", "b"], "hash": [0.0, 0.5], "every": {"step": 1, "of": 4}}
    with pytest.raises(penstock.Invalid, match=r"filter: 'a\\udce4' contains half of a surrogate pair"):
        fake.read("good", filter="a\udce4")


@pytest.fixture(scope="module")
def bare() -> Iterator[str]:
    """The address of a Flight server that is not Penstock: it implements nothing."""
    program = (
        "import pyarrow.flight as f; s = f.FlightServerBase('grpc://127.0.0.1:0'); print(s.port, flush=True);"
        "s.serve()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"127.0.0.1:{process.stdout.readline().strip()}"
        process.kill()


def test_flight_server_other_than_penstock_is_reported(bare: str) -> None:
    with penstock.connect(bare, timeout=30) as client:
        for call in (client.datasets, lambda: client.plan("d"), lambda: client.explain("d")):
            with pytest.raises(penstock.Internal, match=r"^the server does not implement this call; ") as e:
                call()
            assert e.value.remedy.startswith(f"grpc://{bare} does not answer like a Penstock server: use the")
            assert "the address that `penstock serve` prints" in e.value.remedy


OTHER = """
import pyarrow
import pyarrow.flight as flight


class Other(flight.FlightServerBase):
    def get_flight_info(self, context, descriptor):
        if b"known" not in descriptor.command:
            raise KeyError("no such flight")
        schema = pyarrow.schema([("n", pyarrow.int64())])
        return flight.FlightInfo(schema, descriptor, [flight.FlightEndpoint(b"ticket", [])], -1, -1)


server = Other("grpc://127.0.0.1:0")
print(server.port, flush=True)
server.serve()
"""


def test_flight_server_with_other_flights_is_reported() -> None:
    with subprocess.Popen([sys.executable, "-c", OTHER], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = f"127.0.0.1:{process.stdout.readline().strip()}"
            with penstock.connect(address, timeout=30) as client:
                with pytest.raises(
                    penstock.NotFound, match=r"no such flight.*does not answer like a Penstock server"
                ):
                    client.plan("d")
                with pytest.raises(
                    penstock.Internal, match=r"does not describe its plan.*use the address that"
                ):
                    client.plan("known")
        finally:
            process.kill()


def test_tls_error_names_the_address_without_tls(bare: str) -> None:
    with (
        penstock.connect(f"grpc+tls://{bare}", timeout=30) as client,
        pytest.raises(penstock.Unavailable) as e,
    ):
        client.datasets()
    assert e.value.remedy.startswith(f"the server does not speak TLS: connect to grpc://{bare}")
