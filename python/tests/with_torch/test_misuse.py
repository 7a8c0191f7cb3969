"""What a loop gets wrong: it is refused, or does no harm. Never are rows lost in silence."""

from __future__ import annotations

import copy
import json
import logging
import multiprocessing
import pickle
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from server import Server
from torch.utils.data import DataLoader
from trained import QUERY, RULES, Served, Steps, rows, served

import penstock
from penstock.torch import Converter, IterableDataset, merge_states

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

LIMIT = 30.0


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("misuse") / "lake") as found:
        yield found


def after(ds: IterableDataset, steps: int) -> Any:
    """The state of a dataset after a number of steps, as JSON."""
    iterator = iter(ds)
    for _ in range(steps):
        next(iterator)
    iterator.close()
    return json.loads(json.dumps(ds.state_dict()))


def more(own: Served) -> None:
    """Commits 300 rows to the training table."""
    table = own.lake.catalog.load_table("ml.events")
    table.append(table.scan(limit=300).to_arrow().cast(table.scan().to_arrow().schema))
    own.lake.catalog.engine.dispose()


# spec: trainer-9
@pytest.mark.parametrize(("prefetch", "workers"), [(0, 0), (2, 0), (0, 2)])
def test_a_transform_cannot_end_the_epoch(here: Served, prefetch: int, workers: int) -> None:
    def transform(batch: Any) -> Any:
        return next(iter(()) if batch.step == 3 else iter([batch]))

    ds = here.dataset(transform=transform, prefetch=prefetch)
    with pytest.raises(RuntimeError, match="transform raised StopIteration"):
        for _ in DataLoader(ds, batch_size=None, num_workers=workers):
            pass


@pytest.mark.parametrize(("prefetch", "workers"), [(0, 0), (2, 0), (0, 2)])
def test_an_exception_of_a_transform_names_its_step(here: Served, prefetch: int, workers: int) -> None:
    def transform(batch: Any) -> Any:
        return 1 // (batch.step - 3)

    ds = here.dataset(transform=transform, prefetch=prefetch)
    with pytest.raises(ZeroDivisionError) as raised:
        for _ in DataLoader(ds, batch_size=None, num_workers=workers):
            pass
    assert "This was step 3 of 'd'." in "".join(traceback.format_exception(raised.value))


# spec: trainer-11
@pytest.mark.parametrize("then", [2, 3])
def test_state_is_used_once_whatever_the_worker_seed(here: Served, then: int) -> None:
    expected = here.steps()
    ds = here.dataset()
    ds.load_state_dict(after(here.dataset(), 3))
    found: list[Steps] = []
    for workers in (2, then):
        alike = torch.Generator().manual_seed(0)
        made = DataLoader(ds, batch_size=None, num_workers=workers, generator=alike)
        found.append([batch["row"].tolist() for batch in made])
    assert found == [expected[3:], expected]


# spec: trainer-11
def test_persistent_workers_do_not_ignore_a_loaded_state(here: Served) -> None:
    expected = here.steps()
    ds = here.dataset()
    made = DataLoader(ds, batch_size=None, num_workers=2, persistent_workers=True)
    assert rows(made) == expected
    ds.load_state_dict(after(here.dataset(), 4))
    for _ in range(2):
        with pytest.raises(
            penstock.Invalid, match=r"a state was loaded after the workers.*create the DataLoader after"
        ):
            next(iter(made))
    assert rows(DataLoader(ds, batch_size=None, num_workers=2)) == expected[4:]
    assert rows(made) == expected
    ds.load_state_dict(after(here.dataset(), 5))
    assert rows(ds) == expected[5:]
    assert rows(made) == expected


# spec: trainer-11
def test_slow_workers_do_not_use_a_later_state(here: Served) -> None:
    ds = here.dataset()
    ds.load_state_dict(after(here.dataset(), 2))
    gate = multiprocessing.get_context("fork").Event()

    def wait(_: int) -> None:
        gate.wait(LIMIT)

    made = DataLoader(
        ds,
        batch_size=None,
        num_workers=1,
        multiprocessing_context="fork",
        worker_init_fn=wait,
    )
    slow = iter(made)
    ds.load_state_dict(after(here.dataset(), 6))
    gate.set()
    with pytest.raises(penstock.Invalid, match="a state was loaded after the workers"):
        next(slow)
    assert rows(ds) == here.steps()[6:]


# spec: trainer-14
def test_cursors_of_all_ranks_that_do_not_belong_together(here: Served) -> None:
    first, second = (after(here.dataset(rank=rank, world=2), 3)["cursor"] for rank in range(2))
    further = after(here.dataset(rank=1, world=2), 5)["cursor"]
    later = here.dataset(rank=1, world=2)
    later.set_epoch(1)
    for rank in range(2):
        ds = here.dataset(rank=rank, world=2)
        ds.load_state_dict([first, further])
        with pytest.raises(penstock.Invalid, match="all shards saved after the same step"):
            next(iter(ds))
        with pytest.raises(penstock.Invalid, match="different epochs: 0, 1"):
            ds.load_state_dict([first, after(later, 3)["cursor"]])
        with pytest.raises(penstock.Invalid, match="two states are from rank 0"):
            ds.load_state_dict([first, first, second])
        with pytest.raises(penstock.Invalid, match="merge_states"):
            ds.load_state_dict([after(here.dataset(rank=0, world=2), 3)])
        ds.load_state_dict([second, first])
        assert rows(ds) == here.steps(rank, 2)[3:]


# spec: trainer-5
def test_the_length_of_a_rank_that_ended_before_others(here: Served) -> None:
    # The order of splits, and with it each rank's share, depends on the table's uuid.
    for below in range(700, 1200, 25):
        uneven: Any = {"filter": f"row < {below}", "tail": "keep", "count": "exact"}
        ranks = [here.dataset(rank=rank, world=2, **uneven) for rank in range(2)]
        lengths = [len(rows(ds)) for ds in ranks]
        if lengths[0] != lengths[1]:
            break
    assert lengths[0] != lengths[1]
    merged = merge_states([ds.state_dict() for ds in ranks])
    for ds, length in zip(ranks, lengths, strict=True):
        ds.load_state_dict(merged)
        assert len(ds) == length
        assert rows(ds) == []


# spec: trainer-16
def test_states_that_were_written_by_hand_are_invalid(here: Served) -> None:
    state = after(here.dataset(), 3)
    cursor = state["cursor"]
    wrongs: list[Any] = [None, "x", 1.5, -1, [], {}, 2**70]
    written: list[Any] = [{**state, "epoch": wrong} for wrong in wrongs]
    written += [{**state, "every": wrong} for wrong in [*wrongs, {"step": -1, "of": 2}, {"step": 0, "of": 0}]]
    written += [{**state, "snapshots": wrong} for wrong in wrongs[1:5]]
    for name in ("epoch", "shard", "step"):
        written += [{**state, "cursor": {**cursor, name: wrong}} for wrong in wrongs]
    written += [{**state, "cursor": {**cursor, "pin": wrong}} for wrong in wrongs if wrong != {}]
    written += [{**state, "cursor": {**cursor, "shard": {"index": 2, "of": 2}}}, {**state, "epoch": 5}]
    for wrong in [*written, "{", "3"]:
        with pytest.raises(penstock.Invalid):
            here.dataset().load_state_dict(wrong)
        with pytest.raises(penstock.Invalid):
            merge_states([wrong])
    with pytest.raises(penstock.Invalid, match="there is no epoch 9223372036854775808"):
        here.dataset().set_epoch(1 << 63)


# spec: trainer-13
def test_states_can_be_json_text(here: Served) -> None:
    state = after(here.dataset(), 3)
    for kept in (json.dumps(state), json.dumps(state).encode(), json.dumps(state["cursor"])):
        ds = here.dataset()
        ds.load_state_dict(kept)
        assert rows(ds) == here.steps()[3:]
        assert merge_states([kept])["cursor"] == merge_states(kept)["cursor"] == state["cursor"]


# spec: trainer-16
@pytest.mark.parametrize(
    ("said", "other"),
    [
        ({"seed": 3}, {"seed": 4}),
        ({"lanes": 4}, {"lanes": 8}),
        ({"shuffle": "rows"}, {"shuffle": "splits"}),
        ({"shuffle": "splits"}, {"shuffle": None}),
        ({"shuffle_window": 64}, {"shuffle_window": 65}),
        ({"shuffle_window": 64}, {"shuffle_window": None}),
    ],
)
def test_state_with_a_different_order_is_refused_after_its_epoch(here: Served, said: Any, other: Any) -> None:
    (name,) = said
    for steps in (3, 10):
        ds = here.dataset(**said)
        state = after(ds, steps)
        if steps == 10:
            rows(ds)
            state = ds.state_dict()
        with pytest.raises(
            penstock.Invalid, match=f"^{name}: the state has {said[name]!r}, but the dataset has"
        ):
            here.dataset(**other).load_state_dict(state)
        here.dataset(**said).load_state_dict(state)


# spec: trainer-5, trainer-7
def test_snapshots_of_states_agree_with_the_query(tmp_path: Path) -> None:
    with served(tmp_path / "lake") as own:
        ds = own.dataset()
        pin = ds.plan().pin
        assert len(ds) == 10
        more(own)
        later = after(own.dataset(), 2)
        ds.load_state_dict(later)
        assert len(rows(ds)) == 11
        assert len(rows(ds)) == 13
        assert len(ds) == 13
        fixed = own.dataset(snapshots=pin)
        fixed.load_state_dict(later)
        with pytest.raises(penstock.Invalid, match="snapshots: the cursor was made at other snapshots"):
            next(iter(fixed))
        assert len(rows(fixed)) == len(fixed) == 10


# spec: trainer-19
def test_the_length_of_an_epoch_waits_for_a_server_that_is_restarted(tmp_path: Path) -> None:
    with served(tmp_path / "lake") as own:
        config = own.lake.folder / "penstock.yaml"
        began: list[Server] = []

        class Restarts(logging.Handler):
            """Starts the server again as soon as a log line says that a client waits."""

            def emit(self, record: logging.LogRecord) -> None:
                if "a call failed" in record.getMessage() and len(began) == 1:
                    began.append(Server(config, listen=f"unix://{tmp_path}/socket").__enter__())

        began.append(Server(config, listen=f"unix://{tmp_path}/socket").__enter__())
        handler = Restarts()
        logging.getLogger("penstock").addHandler(handler)
        try:
            ds = IterableDataset(f"grpc+unix://{tmp_path}/socket", "d", **QUERY, **RULES)
            assert len(rows(ds)) == 10
            began[0].kill()
            ds.set_epoch(1)
            assert len(ds) == 10
            assert len(began) == 2
        finally:
            logging.getLogger("penstock").removeHandler(handler)
            for server in began:
                server.kill()


# spec: trainer-1
@pytest.mark.parametrize("prefetch", [0, 2])
def test_threads_that_share_an_iterator_get_each_batch_once(here: Served, prefetch: int) -> None:
    expected = here.steps(global_batch_rows=4)
    iterator = iter(here.dataset(global_batch_rows=4, prefetch=prefetch))
    found: list[Any] = []

    def loop() -> None:
        found.extend(iterator)

    threads = [threading.Thread(target=loop) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert rows(sorted(found, key=lambda batch: batch.step or 0)) == expected


def test_a_loader_that_would_stack_batches_is_refused(here: Served) -> None:
    wrongs: list[Any] = [{}, {"batch_size": 4}, {"num_workers": 1}]
    for options in wrongs:
        with pytest.raises(penstock.Invalid, match="batch_size=None"):
            next(iter(DataLoader(here.dataset(), **options)))
    first = next(iter(DataLoader(here.dataset(), batch_size=1, collate_fn=lambda batches: batches[0])))
    assert first["row"].tolist() == here.steps()[0]


def test_errors_name_arguments_of_the_wrong_type(here: Served) -> None:
    with pytest.raises(
        penstock.Invalid, match=r"^nulls: 7 cannot be the rule for all columns; .*nulls=\{'label': 7\}"
    ):
        next(iter(here.dataset(nulls=7)))
    wrongs: list[Any] = [{"nulls": [0]}, {"hash": 1000}, {"vocab": ["a"]}, {"decimals": "float32"}]
    for wrong in wrongs:
        (name,) = wrong
        form = f"^{name}: must be a mapping from columns to their rules, not (int|list|str); name columns: {name}="
        with pytest.raises(penstock.Invalid, match=form):
            next(iter(here.dataset(**wrong)))
    other: Any = None
    with pytest.raises(penstock.Invalid, match="dataset: must be a name"):
        IterableDataset(here.address, other)
    with pytest.raises(penstock.Invalid, match=r"dataset\.training: must be"):
        next(iter(IterableDataset(here.address, {"training": "ml.events"})))


# spec: trainer-1
@pytest.mark.parametrize("prefetch", [0, 2])
def test_default_device_does_not_affect_batches(here: Served, prefetch: int) -> None:
    with torch.device("meta"):
        ds = here.dataset(prefetch=prefetch)
        ds.set_epoch(1)
        found = list(ds)
        state = ds.state_dict()
        other = pickle.loads(pickle.dumps(ds))
        other.load_state_dict(state)
        assert other.epoch == 1
    assert rows(found) == here.steps(epoch=1)
    assert {tensor.device.type for batch in found for tensor in batch.tensors()} == {"cpu"}
    schema = pa.schema([pa.field("row", pa.int64(), nullable=False)])
    with torch.device("meta"):
        empty = Converter(schema)(pa.record_batch([pa.array([], pa.int64())], schema))
    assert empty["row"].device.type == "cpu"


# spec: trainer-1, trainer-6
@pytest.mark.parametrize("prefetch", [0, 2])
def test_dataset_created_in_inference_mode(here: Served, prefetch: int) -> None:
    with torch.inference_mode():
        ds = here.dataset(prefetch=prefetch)
        assert rows(ds) == here.steps()
        copied = copy.deepcopy(ds)
    for made in (ds, copied):
        made.set_epoch(1)
        assert rows(made) == here.steps(epoch=1)
    with torch.inference_mode():
        ds.load_state_dict(after(here.dataset(), 3))
        ds.set_epoch(0)
        assert rows(ds) == here.steps()[3:]
