"""The blocks of docs/ray.md run unchanged but for the places of servers and files, one after the other."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from lake import Lake
from pyiceberg.types import FloatType, IntegerType, LongType
from server import BINARY, Server

pytest_plugins = ["local_ray"]
PAGE = Path(__file__).parents[3] / "docs" / "ray.md"
BLOCKS = 4


@dataclass(frozen=True)
class Places:
    """What the page's names stand for.

    Attributes:
        address: that of a server without TLS.
        names: what to write for names of the page.
    """

    address: str
    names: dict[str, Path | str]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    rng, folder = random.Random(3), tmp_path_factory.mktemp("page")
    made = Lake(folder / "lake")
    shown: dict[str, Any] = {
        "request_id": LongType(),
        "item_id": LongType(),
        "price": FloatType(),
        "label": IntegerType(),
    }
    rows = [
        {"request_id": i // 10, "item_id": i % 50, "price": float(rng.randrange(9)), "label": i % 2}
        for i in range(1000)
    ]
    made.write("ml.shown", shown, ("request_id", 4), rows)
    config = made.config({"homefeed": {"training": {"table": "ml.shown"}, "key": ["request_id"]}})
    token = folder / "token"
    new: list[str | Path] = [BINARY, "token", "new", "--subject", "trainers", "--tokens", folder / "tokens"]
    token.write_text(subprocess.run(new, check=True, capture_output=True, text=True).stdout)
    certificate, key = folder / "ca.pem", folder / "server.key"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *files], check=True, capture_output=True)
    guards = [f"--tokens={folder / 'tokens'}", f"--tls-cert={certificate}", f"--tls-key={key}"]
    with Server(config) as server, Server(config, *guards) as secure:
        names: dict[str, Path | str] = {
            "grpc+tls://loader:8815": f"grpc+tls://localhost:{secure.address.rpartition(':')[2]}",
            "/run/penstock/token": token,
            "/etc/penstock/ca.pem": certificate,
            "/shared/checkpoints": folder / "checkpoints",
        }
        yield Places(server.address, names)


@pytest.mark.usefixtures("local_ray")
@pytest.mark.timeout(600)  # workers of Ray Train take long to start
def test_the_blocks_run(places: Places) -> None:
    page = PAGE.read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == BLOCKS == page.count("```") / 2
    names: dict[str, Any] = {"address": places.address, "__name__": "page_of_ray"}
    for number, block in enumerate(blocks, 1):
        code = block
        for name, place in places.names.items():
            code = code.replace(f'"{name}"', repr(str(place)))
        exec(compile(code, f"{PAGE.name}, block {number}", "exec"), names)
        if number == 2:
            assert names["ds"].count() == 1000
    assert names["result"].metrics["loss"] >= 0
    assert names["cursor"]["step"] == len(names["steps"])
