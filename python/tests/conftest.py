"""Servers that the tests read from."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.rests import rests

# Daft reports its use to its makers unless this is set before it is imported.
os.environ["DAFT_ANALYTICS_ENABLED"] = "0"


@pytest.fixture(scope="session")
def fake_address() -> Iterator[str]:
    """The address of a fake server, in a process of its own."""
    program = Path(__file__).with_name("fake_server.py")
    with subprocess.Popen(
        [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


@pytest.fixture
def fake(fake_address: str) -> Iterator[penstock.Client]:
    """A client of the fake server."""
    with penstock.connect(fake_address, timeout=30) as client:
        yield client


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which private servers have their folders, which are all gone in the end."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)
        monkeypatch.undo()
        gc.collect()
        assert not list(Path(folder).iterdir())


@pytest.fixture(autouse=True)
def no_rests() -> None:
    """A port that a test has used, and that another one uses again, does not rest."""
    rests.forget()


@pytest.fixture
def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients try the addresses in the order in which they are written, so that a test determines which server has a stream."""
    monkeypatch.setattr("penstock.servers.ranked", lambda _, addresses: list(addresses))
