"""Reads from servers with TLS and tokens, as clients of the package and of plain pyarrow."""

from __future__ import annotations

import os
import pickle
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import lake
import pyarrow.flight as flight
import pytest
from server import BINARY, Server

import penstock
from penstock import security
from penstock.addresses import names
from penstock.plan import Endpoint

ROWS = 300


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lake.scored(tmp_path_factory.mktemp("access"), 7, ROWS, 50)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates for localhost alone, so that 127.0.0.1 is a name that is not in them. Each is its own CA."""
    made = tmp_path_factory.mktemp("certificates")
    for name in ("server", "client"):
        command = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -addext subjectAltName=DNS:localhost"
        files = ["-keyout", str(made / f"{name}.key"), "-out", str(made / f"{name}.pem")]
        subprocess.run([*command.split(), *files], check=True, capture_output=True)
    return made


@pytest.fixture(scope="module")
def secure(config: Path, folder: Path) -> Iterator[str]:
    """The port of a server with TLS."""
    with Server(
        config, "--tls-cert", str(folder / "server.pem"), "--tls-key", str(folder / "server.key")
    ) as server:
        yield server.address.rpartition(":")[2]


def test_rows_are_read_over_tls(secure: str, folder: Path) -> None:
    roots = (folder / "server.pem").read_bytes()
    with penstock.connect(f"grpc+tls://localhost:{secure}", tls_roots=roots) as client:
        assert client.read("d").read_all().num_rows == ROWS


# spec: replicas-3
def test_the_certificate_is_that_of_the_name(
    secure: str, config: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two servers behind one name have addresses that are not in their certificate."""
    two = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{i}", int(secure))) for i in (1, 2)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: two)
    names.after_in_child()
    files = ("--tls-cert", str(folder / "server.pem"), "--tls-key", str(folder / "server.key"))
    roots = (folder / "server.pem").read_bytes()
    with (
        Server(config, *files, listen=f"127.0.0.2:{secure}"),
        penstock.connect(f"grpc+tls://localhost:{secure}", tls_roots=roots) as client,
        penstock.connect(f"grpc+tls://other:{secure}", tls_roots=roots, reconnect=0) as other,
    ):
        for shard in range(8):
            client.read("d", lanes=8, shard=(shard, 8)).read_all()
        assert len(client._servers._channels) == 2
        assert all(channel.answered for channel in client._servers._channels.values())
        with pytest.raises(penstock.Unavailable, match="name or address that is in the server's certificate"):
            other.plan("d")
    names.after_in_child()


def test_plain_pyarrow_reads_over_tls(secure: str, folder: Path) -> None:
    roots = (folder / "server.pem").read_bytes()
    with flight.FlightClient(f"grpc+tls://localhost:{secure}", tls_root_certs=roots) as client:
        found = client.get_flight_info(flight.FlightDescriptor.for_path("d"))
        assert client.do_get(found.endpoints[0].ticket).read_all().num_rows == ROWS


def test_certificate_of_the_client_is_required(config: Path, folder: Path) -> None:
    flags = {"cert": "server.pem", "key": "server.key", "client-ca": "client.pem"}
    given = [text for name, file in flags.items() for text in (f"--tls-{name}", str(folder / file))]
    pem = {name: (folder / name).read_bytes() for name in ("server.pem", "client.pem", "client.key")}
    with Server(config, *given) as server:
        uri = f"grpc+tls://localhost:{server.address.rpartition(':')[2]}"
        with penstock.connect(
            uri, tls_roots=pem["server.pem"], tls_chain=pem["client.pem"], tls_key=pem["client.key"]
        ) as client:
            assert client.read("d").read_all().num_rows == ROWS
        with (
            penstock.connect(uri, tls_roots=pem["server.pem"]) as client,
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
    roots = (folder / "server.pem").read_bytes() if trusts else None
    with (
        penstock.connect(f"{uri}:{secure}", tls_roots=roots, timeout=30) as client,
        pytest.raises(penstock.Unavailable) as e,
    ):
        client.datasets()
    assert remedy in e.value.remedy


def test_error_says_that_a_certificate_has_expired() -> None:
    said = "Ssl handshake failed: SSL_ERROR_SSL: error:0A000086:SSL routines::certificate verify failed: certificate has expired"
    remedy = security.tls_remedy("grpc+tls://localhost:1", said)
    assert remedy is not None
    assert "renew" in remedy
    assert "tls_roots" not in remedy


def test_error_says_that_certificates_are_no_certificates(secure: str) -> None:
    with (
        penstock.connect(f"grpc+tls://localhost:{secure}", tls_roots=b"none", timeout=30) as client,
        pytest.raises(penstock.Unavailable, match="in PEM form"),
    ):
        client.datasets()


def issue(tokens: Path, subject: str) -> str:
    """Makes a token, and adds its line to the server's file."""
    command: list[str | Path] = [BINARY, "token", "new", "--subject", subject, "--tokens", tokens]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's file of tokens."""
    return tmp_path_factory.mktemp("tokens") / "server.tokens"


@pytest.fixture(scope="module")
def trainers(tokens: Path) -> str:
    """A token."""
    return issue(tokens, "trainers")


@pytest.fixture(scope="module")
def guarded(config: Path, tokens: Path, trainers: str) -> Iterator[str]:
    """The address of a server with tokens, on the loopback without TLS."""
    assert trainers
    with Server(config, "--tokens", str(tokens)) as server:
        yield server.address


# spec: access-5
def test_rows_are_read_with_a_token(guarded: str, trainers: str) -> None:
    with penstock.connect(guarded, token=trainers) as client:
        assert client.read("d").read_all().num_rows == ROWS
    with penstock.connect(guarded) as client, pytest.raises(penstock.Unauthenticated) as e:
        client.datasets()
    assert "token_file" in e.value.remedy
    with (
        penstock.connect(guarded, token=trainers[:-1]) as client,
        pytest.raises(penstock.Unauthenticated, match="the token is unknown"),
    ):
        client.read("d")


# spec: ticket-12
def test_ticket_of_another_subject_is_not_tried_again(
    guarded: str, tokens: Path, trainers: str, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(trainers)
    with penstock.connect(guarded, token_file=file, reconnect=600) as client:
        stream = client.read("d")
        file.write_text(issue(tokens, "guests"))
        retry_until(lambda: client.datasets(), penstock.Unauthenticated)
        with pytest.raises(penstock.Forbidden, match="made for another subject") as e:
            stream.read_all()
        assert "trainers" not in str(e.value)
        assert client.read("d").read_all().num_rows == ROWS


def test_plain_pyarrow_reads_with_a_token(guarded: str, trainers: str) -> None:
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {trainers}".encode())])
    with flight.FlightClient(f"grpc://{guarded}") as client:
        found = client.get_flight_info(flight.FlightDescriptor.for_path("d"), options)
        assert client.do_get(found.endpoints[0].ticket, options).read_all().num_rows == ROWS
        with pytest.raises(flight.FlightUnauthenticatedError, match="no token"):
            client.get_flight_info(flight.FlightDescriptor.for_path("d"))
        with pytest.raises(flight.FlightUnauthenticatedError, match="no token"):
            client.do_get(found.endpoints[0].ticket)


def test_token_file_is_read_for_each_call_and_never_pickled(
    guarded: str, tokens: Path, trainers: str, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(trainers + "\n")
    with penstock.connect(guarded, token_file=file) as client:
        assert client.read("d").read_all().num_rows == ROWS
        stored = pickle.dumps(client)
        assert trainers.encode() not in stored
        assert trainers not in repr(client.settings)
        file.write_text(issue(tokens, "sweeps"))
        retry_until(lambda: client.datasets(), penstock.Unauthenticated)
        with pickle.loads(stored) as copy:
            assert copy.read("d").read_all().num_rows == ROWS
        link = tmp_path / "link"
        link.symlink_to(file)
        assert penstock.connect(guarded, token_file=link).settings.token_file == str(link)
        file.unlink()
        with pytest.raises(penstock.Unavailable, match="read the token in"):
            client.status()
        file.write_text("two\nlines")
        with pytest.raises(penstock.Unavailable, match="has no token"):
            client.status()


def retry_until(ask: Callable[[], object], error: type[penstock.Error]) -> None:
    """Calls `ask` until it raises no such error."""
    for _ in range(600):
        try:
            ask()
        except error:
            time.sleep(0.1)
        else:
            return
    ask()


# spec: access-6
def test_token_that_the_server_does_not_check_is_refused(config: Path) -> None:
    with (
        Server(config) as server,
        penstock.connect(server.address, token="secret") as client,
        pytest.raises(penstock.Invalid, match="this server has none configured"),
    ):
        client.datasets()


@pytest.mark.parametrize("uri", ["host:1", "grpc://10.0.0.1:1", "localhost:1,host:1", "grpc+tcp://[::2]:1"])
def test_token_is_not_sent_to_other_machines_without_tls(uri: str, tmp_path: Path) -> None:
    for given in ({"token": "secret"}, {"token_file": tmp_path / "token"}):
        with pytest.raises(penstock.Invalid, match=r"is not sent to .* without TLS"):
            penstock.connect(uri, **given)
    penstock.connect(uri).close()


def test_token_is_sent_where_it_is_safe() -> None:
    for uri in (
        "localhost:1",
        "127.0.0.1:1",
        "grpc://[::1]:1",
        "grpc+unix:///run/p.sock",
        "grpc+tls://host:1",
    ):
        penstock.connect(uri, token="secret").close()


def test_token_and_file_are_alternatives(tmp_path: Path) -> None:
    with pytest.raises(penstock.Invalid, match="cannot be combined with token"):
        penstock.connect("localhost:1", token="a", token_file=tmp_path)
    with pytest.raises(penstock.Invalid, match="must be a path"):
        penstock.connect("localhost:1", token_file=1)  # type: ignore[arg-type]


def test_commands_of_the_page_on_running_a_server_work(config: Path, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/run.md").read_text()
    section = page.partition("## TLS and tokens\n")[2].partition("\n## ")[0]
    found = re.findall(r"^```(sh|python)\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)
    assert [language for language, _ in found] == ["sh", "python", "python"]
    (tmp_path / "penstock.yaml").write_text(config.read_text())
    (tmp_path / "penstock").symlink_to(BINARY)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    lines = ["set -eu", "trap 'kill $(jobs -p)' EXIT"]
    for language, text in found:
        lines.append(text if language == "sh" else f"{sys.executable} - <<'BLOCK'\n{text}BLOCK")
    ran = subprocess.run(
        ["bash", "-c", "\n".join(lines).replace("8815", port)],
        check=False,
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "PYTHONPATH": str(Path(penstock.__file__).parents[1]),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("DatasetDescription(") == 1
    assert ran.stdout.count("FlightInfo") == 1
    assert "is insecure" not in ran.stderr


def test_tickets_are_not_printed() -> None:
    """Whoever has a ticket can read its rows, and engines print the tasks that have it."""
    assert repr(Endpoint(b"secret", 1, 1, ("a",))) == "Endpoint(rows=1, batches=1, splits=('a',), files=None)"
