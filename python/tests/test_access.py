"""Reads from servers with TLS, as clients of the package and of plain pyarrow."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import lake
import pyarrow.flight as flight
import pytest
from server import BINARY, Server

import penstock

ROWS = 300


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lake.scored(tmp_path_factory.mktemp("access"), 7, ROWS, 50)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates for localhost alone, so that 127.0.0.1 is a name that is not in them."""
    made = tmp_path_factory.mktemp("certificates")
    subprocess.run([BINARY, "certificate", "new", made, "--host", "localhost"], check=True)
    return made


@pytest.fixture(scope="module")
def secure(config: Path, folder: Path) -> Iterator[str]:
    """The port of a server with TLS."""
    with Server(
        config, "--tls-cert", str(folder / "server.pem"), "--tls-key", str(folder / "server.key")
    ) as server:
        yield server.address.rpartition(":")[2]


def test_rows_are_read_over_tls(secure: str, folder: Path) -> None:
    roots = (folder / "ca.pem").read_bytes()
    with penstock.connect(f"grpc+tls://localhost:{secure}", tls_roots=roots) as client:
        assert client.read("d").read_all().num_rows == ROWS


def test_plain_pyarrow_reads_over_tls(secure: str, folder: Path) -> None:
    roots = (folder / "ca.pem").read_bytes()
    with flight.FlightClient(f"grpc+tls://localhost:{secure}", tls_root_certs=roots) as client:
        found = client.get_flight_info(flight.FlightDescriptor.for_path("d"))
        assert client.do_get(found.endpoints[0].ticket).read_all().num_rows == ROWS


def test_certificate_of_the_client_is_required(config: Path, folder: Path) -> None:
    flags = {"cert": "server.pem", "key": "server.key", "client-ca": "ca.pem"}
    given = [text for name, file in flags.items() for text in (f"--tls-{name}", str(folder / file))]
    pem = {name: (folder / name).read_bytes() for name in ("ca.pem", "client.pem", "client.key")}
    with Server(config, *given) as server:
        uri = f"grpc+tls://localhost:{server.address.rpartition(':')[2]}"
        with penstock.connect(
            uri, tls_roots=pem["ca.pem"], tls_chain=pem["client.pem"], tls_key=pem["client.key"]
        ) as client:
            assert client.read("d").read_all().num_rows == ROWS
        with (
            penstock.connect(uri, tls_roots=pem["ca.pem"]) as client,
            pytest.raises(penstock.Unavailable, match="tls_chain="),
        ):
            client.datasets()


@pytest.mark.parametrize(
    ("uri", "trusts", "remedy"),
    [
        ("grpc://localhost", False, "the server speaks TLS: connect to grpc+tls://localhost:"),
        ("grpc+tls://localhost", False, "pass the certificate of its CA as tls_roots="),
        ("grpc+tls://127.0.0.1", True, "connect to a name or address that is in the server's certificate"),
    ],
)
def test_error_says_what_tls_lacks(secure: str, folder: Path, uri: str, trusts: bool, remedy: str) -> None:
    roots = (folder / "ca.pem").read_bytes() if trusts else None
    with (
        penstock.connect(f"{uri}:{secure}", tls_roots=roots, timeout=30) as client,
        pytest.raises(penstock.Unavailable) as e,
    ):
        client.datasets()
    assert remedy in e.value.remedy


def test_error_says_that_certificates_are_no_certificates(secure: str) -> None:
    with (
        penstock.connect(f"grpc+tls://localhost:{secure}", tls_roots=b"none", timeout=30) as client,
        pytest.raises(penstock.Unavailable, match="in PEM form"),
    ):
        client.datasets()
