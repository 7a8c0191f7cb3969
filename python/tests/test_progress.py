"""Progress of a stream, as people see it."""

from __future__ import annotations

import io
import sys

import pytest
from fake_server import ROWS

import penstock
from penstock.progress import Progress


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_bar_shows_rows_batches_and_waiting(
    fake: penstock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    stream = fake.read("good", progress=True)
    assert sum(batch.num_rows for batch in stream) == ROWS
    last = screen.getvalue().rsplit("\r", 1)[-1]
    assert "good: 100%" in last
    assert "1.00k/1.00k" in last
    assert "16/16 batches, waited " in last


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_without_tqdm_is_a_line(
    fake: penstock.Client, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    screen = Screen() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    fake.read("good", progress=True).read_all()
    said = screen.getvalue()
    lines = said.split("\r") if terminal else said.splitlines()
    assert "good: 1000/1000 rows (100%), 16/16 batches, " in lines[-1]
    assert " rows/s, waited " in lines[-1]
    assert said.endswith("\n")
    # One with the first batch, and one at the end.
    assert terminal or len(lines) == 2


def test_progress_without_known_rows_has_no_percentage() -> None:
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "tqdm", None)
        shown = Progress("d", None, None, out=out)
    shown.show(64, 1, 2.0, 0.25)
    shown.close()
    shown.close()
    assert out.getvalue().splitlines()[-1] == "d: 64 rows, 1 batches, 32 rows/s, waited 25%"


@pytest.mark.parametrize("terminal", [True, False])
def test_auto_shows_it_on_a_terminal(
    fake: penstock.Client, monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    screen = Screen() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    fake.read("good", progress="auto").read_all()
    fake.read("good").read_all()
    assert bool(screen.getvalue()) is terminal
    assert screen.getvalue().count("100%") == (1 if terminal else 0)


def test_stats_have_the_readers_waiting_time(fake: penstock.Client) -> None:
    stream = fake.read("good")
    assert stream.stats == penstock.Stats(rows=0, batches=0, seconds=0.0, waited=0.0, resumed=0)
    assert stream.stats.stall == 0
    stream.read_all()
    stats = stream.stats
    assert (stats.rows, stats.batches, stats.resumed) == (ROWS, 16, 0)
    assert 0 < stats.waited <= stats.seconds
    assert 0 < stats.stall <= 1
