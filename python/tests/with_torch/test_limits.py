"""Where the time of steps goes, and the warning about a loop that waits too long."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from trained import Served, served

import penstock
from penstock import StreamStatus, Waited
from penstock.stream import Stats
from penstock.torch.limits import Watch
from penstock.torch.meter import Meter


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("limits") / "lake") as found:
        yield found


class Clock:
    """A clock that stands still unless a test moves it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("penstock.torch.meter.time", self)

    def monotonic(self) -> float:
        return self.now


@dataclass
class FakeStatus:
    """The status of a server with these streams."""

    streams: list[StreamStatus]


@dataclass
class FakeSource:
    """A source, and its client, whose server is in a given state."""

    status_of: list[StreamStatus]
    received: float = 0.0
    rank: tuple[int, int] = (0, 1)
    failure: penstock.Error | None = None
    asked: int = 0
    plan: Any = field(default_factory=lambda: type("Plan", (), {"id": "p1"}))

    @property
    def client(self) -> FakeSource:
        return self

    @property
    def stats(self) -> Stats:
        return Stats(0, 0, 0.0, self.received, 0)

    def status(self, *, timeout: float) -> FakeStatus:
        assert timeout <= 1
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return FakeStatus(self.status_of)


def stream(plan: str = "p1", shard: int = 0, opened: float = 10.0, **waited: float) -> StreamStatus:
    causes = dict.fromkeys(Waited.__dataclass_fields__, 0.0)
    return StreamStatus(
        id="s",
        subject="",
        job="",
        dataset="d",
        plan=plan,
        shard=shard,
        shards=1,
        lanes=1,
        started=datetime.now(UTC),
        open=opened,
        rows=0,
        rows_total=None,
        step=0,
        steps=None,
        batches=0,
        bytes=0,
        mapped_bytes=0,
        way="network",
        parked=False,
        waiting=None,
        waited=Waited(**{**causes, **waited}),
    )


def loop(
    clock: Clock,
    source: FakeSource,
    watch: Watch,
    batches: int,
    waits: float,
    *,
    converts: float = 0.0,
    copies: float = 0.0,
) -> Meter:
    """Runs a loop whose steps take a second. Of each, it waits; in this time, the source converts and copies."""
    meter = Meter()
    for _ in range(batches):
        began = meter.start_wait()
        clock.now += waits
        meter.spent.converting += converts
        meter.spent.copying += copies
        source.received += waits - converts - copies
        meter.end_wait(began, 10)
        watch.look(meter, source)  # type: ignore[arg-type]
        clock.now += 1 - waits
    return meter


# spec: trainer-49
def test_the_time_of_steps_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    meter = loop(clock, FakeSource([]), Watch("d"), 150, 0.125, copies=0.0625)
    stats = meter.stats()
    assert (stats.batches, stats.rows, stats.waited, stats.copied) == (150, 1500, 150 * 0.125, 150 * 0.0625)
    total, recent = stats.total, stats.recent
    assert (total.steps, total.waiting, total.copying) == (150, 150 * 0.0625, 150 * 0.0625)
    assert total.seconds == total.waiting + total.copying + total.loop == stats.seconds == 149.125
    assert (recent.steps, recent.seconds, recent.waiting, recent.copying) == (100, 100, 6.25, 6.25)
    assert (recent.loop, recent.stall) == (87.5, 0.125)


def test_only_a_copy_for_which_the_loop_waits_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, meter = Clock(monkeypatch), Meter()
    for _ in range(2):
        meter.spent.copying += 3.0  # while the loop computed
        began = meter.start_wait()
        meter.spent.copying += 2.0
        clock.now += 0.5
        meter.end_wait(began, 1)
    assert (meter.stats().waited, meter.stats().copied) == (1.0, 1.0)


# spec: trainer-50
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"storage": 6.0}, "storage"),
        ({"memory": 6.0, "storage": 2.0}, "memory budget"),
        ({"slot": 6.0}, "slots"),
        ({"stream": 6.0}, "another stream"),
        ({"trainer": 6.0}, "network"),
        ({"trainer": 3.0, "storage": 3.0}, "decoding and joining"),
        ({"plan": "p2", "storage": 6.0}, "the server or the network"),
        ({"shard": 1, "storage": 6.0}, "the server or the network"),
    ],
)
def test_a_warning_names_the_stage_of_the_server_that_limits_the_loop(
    state: dict[str, Any], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, watch = FakeSource([stream(**state)]), Watch("homefeed")
    clock = Clock(monkeypatch)
    with pytest.warns(
        UserWarning, match=f"of 'homefeed' for 50% of 100 steps. The limit is .*{expected}"
    ) as found:
        loop(clock, source, watch, 500, 0.5)
    loop(clock, source, watch, 500, 0.5)
    assert (len(found), source.asked) == (1, 1)


# spec: trainer-50
@pytest.mark.parametrize(
    ("name", "expected"), [("converts", "converting batches"), ("copies", "copy to the device")]
)
def test_a_warning_names_the_stage_of_this_process_that_limits_the_loop(
    name: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = FakeSource([stream(storage=6.0)])
    share: dict[str, Any] = {name: 0.3}
    with pytest.warns(UserWarning, match=f"The limit is .*{expected}"):
        loop(Clock(monkeypatch), source, Watch("d"), 101, 0.5, **share)
    assert source.asked == 0


def test_a_server_that_does_not_answer_does_not_stop_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    source = FakeSource([], failure=penstock.errors.Unavailable("busy"))
    with pytest.warns(UserWarning, match="the server or the network"):
        loop(Clock(monkeypatch), source, Watch("d"), 101, 0.5)


# spec: trainer-50
@pytest.mark.parametrize(
    ("batches", "waits"), [(100, 0.5), (500, 0.125)], ids=["too few steps", "a short wait"]
)
def test_a_loop_that_does_not_wait_long_gets_no_warning(
    batches: int, waits: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = FakeSource([stream(storage=6.0)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loop(Clock(monkeypatch), source, Watch("d"), batches, waits)
    assert source.asked == 0


# spec: trainer-49, trainer-50
@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_loop_without_work_logs_its_limit_once(here: Served, prefetch: int) -> None:
    ds = here.dataset(global_batch_rows=8, prefetch=prefetch)

    def read(epoch: int) -> int:
        ds.set_epoch(epoch)
        return sum(batch.rows for batch in ds)

    with pytest.warns(
        UserWarning, match="the loop waited for batches of 'd' for .*% of 100 steps. The limit is"
    ) as found:
        assert [read(0), read(1)] == [1200, 1200]
    assert [one.filename for one in found] == [__file__]
    stats = ds.stats()
    assert stats.bytes >= 1200 * 8
    assert stats.total.steps == stats.batches == 150
    assert stats.total.loop + stats.total.waiting == pytest.approx(stats.seconds)
    assert stats.recent.steps == 100
