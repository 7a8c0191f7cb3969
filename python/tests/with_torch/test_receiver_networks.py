"""Receivers reach the servers that the process itself reaches: over TLS, by names, by IPv6, and through proxies."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from receiver_processes import receivers_in
from server import BINARY, Server
from test_streams import ROWS, RULES, written

from penstock import receivers
from penstock.torch import IterableDataset

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="memory can be passed to other processes only on Linux"
)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("networks"))[0]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of a server and a client. Each is its own CA; the text before that of the server is Latin-1."""
    made = tmp_path_factory.mktemp("certificates")
    for name in ("server", "client"):
        command = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -addext subjectAltName=DNS:localhost"
        files = ["-keyout", str(made / f"{name}.key"), "-out", str(made / f"{name}.pem")]
        subprocess.run([*command.split(), *files], check=True, capture_output=True)
    server = made / "server.pem"
    server.write_bytes("# Autorité\n".encode("latin-1") + server.read_bytes())
    return made


@pytest.fixture(scope="module")
def secure(config: Path, certificates: Path) -> Iterator[str]:
    """The location of a server that requires the client's certificate."""
    flags = {"cert": "server.pem", "key": "server.key", "client-ca": "client.pem"}
    given = [text for name, file in flags.items() for text in (f"--tls-{name}", str(certificates / file))]
    with Server(config, *given) as server:
        yield f"grpc+tls://localhost:{server.address.rpartition(':')[2]}"


@pytest.fixture(autouse=True)
def program(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the folders of receivers, whose program is on the PATH. In the end, nothing uses a receiver."""
    monkeypatch.setenv("PATH", str(BINARY.parent), prepend=":")
    yield folders
    receivers.leave()


def read(location: str, **options: Any) -> int:
    """Reads all rows through a receiver, and returns their number."""
    data = IterableDataset(location, "d", batch_rows=160, **RULES, **options)
    rows = sum(batch.rows for batch in data)
    assert data.stats().way == "receiver", data.stats().why
    return rows


# spec: receiver-1
def test_receivers_use_the_certificates_of_the_process(
    secure: str, certificates: Path, tmp_path: Path
) -> None:
    tls = {
        "tls_roots": (certificates / "server.pem").read_bytes(),
        "tls_chain": (certificates / "client.pem").read_bytes(),
        "tls_key": (certificates / "client.key").read_bytes(),
    }
    assert read(secure, **tls) == ROWS
    del tls["tls_roots"]
    script = tmp_path / "read.py"
    script.write_text(
        "import json, sys\nfrom test_receiver_networks import read\n"
        "tls = {name: text.encode() for name, text in json.loads(sys.argv[2]).items()}\n"
        "print(read(sys.argv[1], **tls))\n"
    )
    given = json.dumps({name: text.decode() for name, text in tls.items()})
    roots = {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(certificates / "server.pem")}
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.check_output(
        [sys.executable, str(script), secure, given], env={**os.environ, **roots, **paths}
    )
    assert int(said) == ROWS


# spec: receiver-1
def test_receivers_reach_servers_by_any_address(config: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as none:
        dead = f"127.0.0.1:{none.getsockname()[1]}"
    with Server(config) as server:
        assert read(f"grpc://{dead},grpc://{server.address}") == ROWS
        assert read(f"grpc://localhost:{server.address.rpartition(':')[2]}") == ROWS


@pytest.mark.skipif(not socket.has_ipv6, reason="the host has no IPv6")
def test_receivers_reach_servers_by_ipv6(config: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as e:
        pytest.skip(f"the host has no IPv6: {e}")
    with Server(config, listen="[::1]:0") as server:
        assert read(f"grpc://{server.address}") == ROWS


# spec: receiver-1
@pytest.mark.parametrize(
    ("given", "used"),
    [
        ({"HTTPS_PROXY": "http://127.0.0.1:1", "HTTP_PROXY": "http://127.0.0.1:2"}, {}),
        (
            {"https_proxy": "http://127.0.0.1:1", "no_proxy": "127.0.0.1"},
            {"HTTPS_PROXY": "http://127.0.0.1:1", "NO_PROXY": "127.0.0.1"},
        ),
        (
            {"grpc_proxy": "http://127.0.0.1:3", "http_proxy": "http://127.0.0.1:1", "no_grpc_proxy": "127.0.0.1"},
            {"HTTPS_PROXY": "http://127.0.0.1:3", "NO_PROXY": "127.0.0.1"},
        ),
    ],
)  # fmt: skip
def test_receivers_use_the_proxies_of_the_process(
    config: Path, program: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], used: dict[str, str]
) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with Server(config) as server:
        assert read(f"grpc://{server.address}") == ROWS
        [receiver] = receivers_in(program)
        pairs = Path(f"/proc/{receiver}/environ").read_bytes().decode().split("\0")
        found = dict(pair.split("=", 1) for pair in pairs if pair)
    proxies = {name: value for name, value in found.items() if name.upper() in ("HTTPS_PROXY", "NO_PROXY")}
    assert proxies == used
