"""Private servers that several processes share: who starts them, and how they end."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import lake
import pytest
from server import BINARY

import penstock
from penstock.owners import Launch, Owner

ROWS = 500

pytestmark = [
    pytest.mark.usefixtures("folders"),
    pytest.mark.skipif(sys.platform != "linux", reason="processes are listed in /proc"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lake.scored(tmp_path_factory.mktemp("shared"), 6, ROWS, 50)


class Rank:
    """A process that has opened the config."""

    def __init__(self, config: Path) -> None:
        program = Path(__file__).with_name("shared_owner.py")
        self.process = subprocess.Popen(
            [sys.executable, str(program), str(BINARY), str(config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def told(self) -> tuple[int, int]:
        """The process of its server, and the rows that it has read."""
        assert self.process.stdout is not None
        server, rows = self.process.stdout.readline().split()
        return int(server), int(rows)

    def ask(self, line: str = "read") -> tuple[int, int]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.told()

    def end(self, *, kill: bool = False) -> None:
        if kill:
            self.process.kill()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        assert self.process.wait() == (-signal.SIGKILL if kill else 0)
        self.process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.end(kill=True)


def gone(process: int) -> bool:
    """Whether a process has ended. It may be a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def children(process: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if parent(int(folder.name)) == process:
                found.append(int(folder.name))
    return found


def until_gone(server: int, folders: Path) -> float:
    """Waits until a server and its folder have gone, and returns the seconds."""
    began = time.monotonic()
    while not gone(server) or list(folders.iterdir()):
        assert time.monotonic() - began < 30
        time.sleep(0.01)
    return time.monotonic() - began


def server_of(client: penstock.Client) -> int:
    assert client.settings.private is not None
    return client.settings.private.pid


# spec: private-29, private-30
@pytest.mark.parametrize("kill", [False, True])
def test_ranks_share_a_server_until_the_last_one_ends(config: Path, folders: Path, kill: bool) -> None:
    """Four processes open it at once. They end one after the other, in either order of those that started it and joined it."""
    with Rank(config) as a, Rank(config) as b, Rank(config) as c, Rank(config) as d:
        told = [rank.told() for rank in (a, b, c, d)]
        server = told[0][0]
        assert told == [(server, ROWS)] * 4
        assert server > 0
        assert len(list(folders.iterdir())) == 1
        starter = parent(parent(server))
        ranks = sorted((a, b, c, d), key=lambda rank: rank.process.pid != starter)
        assert ranks[0].process.pid == starter
        assert ranks[1].ask("fork") == (server, ROWS)
        while len(ranks) > 1:
            ranks.pop(0).end(kill=kill)
            assert [rank.ask() for rank in ranks] == [(server, ROWS)] * len(ranks)
        ranks[0].end(kill=kill)
        if not kill:
            assert gone(server)
            assert not list(folders.iterdir())
        until_gone(server, folders)


# spec: private-30
def test_a_server_outlives_a_starter_whose_children_are_killed(config: Path, folders: Path) -> None:
    """Ray ends a worker in this way."""
    with Rank(config) as first:
        server, _ = first.told()
        with Rank(config) as second:
            assert second.told() == (server, ROWS)
            for child in children(first.process.pid):
                os.kill(child, signal.SIGKILL)
            first.end(kill=True)
            assert second.ask() == (server, ROWS)
            second.end()
            until_gone(server, folders)


# spec: private-31
def test_the_server_is_gone_a_second_after_its_last_owner_is_killed(config: Path, folders: Path) -> None:
    """One of three tries may be late on a busy machine, not all."""
    late = []
    for _ in range(3):
        with Rank(config) as rank:
            server, _ = rank.told()
            rank.end(kill=True)
        took = until_gone(server, folders)
        if took <= 1.0:
            return
        late.append(took)
    pytest.fail(f"the server was gone after {late} seconds")


# spec: private-30
@pytest.mark.more
def test_a_server_whose_starter_was_killed_while_it_started_is_used_or_replaced(
    config: Path, folders: Path
) -> None:
    for _ in range(2):
        with Rank(config) as first:
            while not list(folders.glob("*/server.log")):
                time.sleep(0.001)
            first.end(kill=True)
            with Rank(config) as second:
                server, rows = second.told()
                assert rows == ROWS
                assert second.ask() == (server, ROWS)
                second.end()
                until_gone(server, folders)


# spec: private-30
def test_a_killed_server_is_replaced_by_the_next_that_opens_it(config: Path) -> None:
    with penstock.open(config, program=BINARY) as client, Rank(config) as rank:
        killed = server_of(client)
        assert rank.told() == (killed, ROWS)
        os.kill(killed, signal.SIGKILL)
        with pytest.raises(penstock.Unavailable, match="has ended by signal 9; its log ends"):
            client.plan("d")
        with penstock.open(config, program=BINARY) as again:
            assert server_of(again) not in (0, killed)
            assert server_of(client) == server_of(again)
            assert client.read("d").read_all().num_rows == ROWS
            assert rank.ask() == (server_of(again), ROWS)
        rank.end()


# spec: private-29
def test_clients_of_a_process_share_a_server(config: Path) -> None:
    with penstock.open(config, program=BINARY) as first:
        found: list[int] = []

        def opens() -> None:
            with penstock.open(config, program=BINARY) as client:
                assert client.head("d", 1).num_rows == 1
                found.append(server_of(client))

        threads = [threading.Thread(target=opens) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [server_of(first)] * 4
        assert first.head("d", 1).num_rows == 1


# spec: private-29
def test_a_client_is_collected_while_another_is_opened(
    config: Path, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The garbage collector may run in the thread that opens the same server, at any moment."""
    enter = Owner._try_enter

    def collecting(owner: Owner, launch: Launch) -> bool:
        gc.collect()
        return enter(owner, launch)

    cycle: list[Any] = [penstock.open(config, program=BINARY)]
    server = server_of(cycle[0])
    cycle.append(cycle)
    del cycle
    monkeypatch.setattr(Owner, "_try_enter", collecting)
    with penstock.open(config, program=BINARY) as client:
        assert server_of(client) == server
        assert client.read("d").read_all().num_rows == ROWS
    until_gone(server, folders)


# spec: private-29
def test_servers_of_other_settings_files_and_credentials_are_not_shared(
    config: Path, folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked = tmp_path / "linked.yaml"
    linked.symlink_to(config)
    with penstock.open(config, program=BINARY) as first:
        folder = first.uri
        with penstock.open(linked, program=BINARY) as same:
            assert same.uri == folder
        with penstock.open(config, program=BINARY, share=False) as own:
            assert own.uri != folder
        with penstock.open(config, program=BINARY, settings={"memory": "1GiB"}) as other:
            assert other.uri != folder
        monkeypatch.setenv("LOCAL_RANK", "3")
        with penstock.open(config, program=BINARY) as same:
            assert same.uri == folder
        monkeypatch.setenv("AWS_PROFILE", "other")
        with penstock.open(config, program=BINARY) as other:
            assert other.uri != folder
            assert len(list(folders.iterdir())) == 2
        monkeypatch.delenv("AWS_PROFILE")
        text = config.read_text()
        config.write_text(f"{text}\n# the value of ${{SECRET_OF_THE_FILE}}\n")
        with penstock.open(config, program=BINARY) as other:
            assert other.uri != folder
            monkeypatch.setenv("SECRET_OF_THE_FILE", "a")
            with penstock.open(config, program=BINARY) as third:
                assert third.uri not in (folder, other.uri)
        config.write_text(text)


# spec: private-30
def test_a_folder_that_goes_while_it_is_opened_is_made_again(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last owner of a server removes the folder at any moment: before another one looks at it, or opens its file."""
    real = os.open
    gone: list[Path] = []

    def opens(path: object, *rest: object, **named: object) -> int:
        if str(path).endswith("/owners") and len(gone) < 2:
            folder = Path(str(path)).parent
            gone.append(folder)
            folder.rmdir()
        return real(path, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", opens)
    with penstock.open(config, program=BINARY) as client:
        assert gone == [Path(client.uri.removeprefix("grpc+unix://")).parent] * 2
        assert client.head("d", 1).num_rows == 1


# spec: private-32
def test_a_folder_that_others_can_enter_is_refused(config: Path, folders: Path) -> None:
    with penstock.open(config, program=BINARY) as client:
        server, folder = server_of(client), Path(client.uri.removeprefix("grpc+unix://")).parent
    until_gone(server, folders)
    folder.mkdir(0o755)
    folder.chmod(0o755)
    (folder / "kept").touch()
    with pytest.raises(penstock.Invalid, match=r"not a folder that only this user can enter.*share=False"):
        penstock.open(config, program=BINARY)
    assert (folder / "kept").exists()
    with penstock.open(config, program=BINARY, share=False) as client:
        assert client.head("d", 1).num_rows == 1
    (folder / "kept").unlink()
    folder.rmdir()
    assert not list(folders.iterdir())
