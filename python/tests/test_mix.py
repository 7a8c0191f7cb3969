"""Mixes of several datasets, against plain reads of each."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import mixed_lake
import pyarrow as pa
import pytest
from mixed_lake import LANES, QUERY, ROWS, configured, members, of, plain, resumed, rows
from server import Server
from test_shares import WINDOW, worst_share

import penstock
from penstock import Invalid, Mix, shares
from penstock.members import check
from penstock.mixcursor import MixPosition


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return configured(tmp_path_factory.mktemp("mixed") / "lake")


@pytest.fixture(scope="module")
def client(config: Path) -> Iterator[penstock.Client]:
    with Server(config) as server, penstock.connect(server.address) as made:
        yield made


def mixed(client: penstock.Client, **options: Any) -> penstock.Mix:
    given: Any = {"mix": members(), "global_batch_rows": 320, **QUERY, **options}
    return penstock.mix(given.pop("mix"), client=client, **given)


def read(client: penstock.Client, steps: int | None = None, **options: Any) -> list[list[mixed_lake.Row]]:
    """The rows of each step of a mix, or of its first ones."""
    with mixed(client, **options) as mix:
        found = []
        for batch in mix:
            found.append(batch)
            if len(found) == steps:
                break
        return rows(found)


# spec: mix-1, mix-8
def test_members_give_their_own_rows_in_order(client: penstock.Client) -> None:
    with mixed(client) as mix:
        steps = len(mix)
        found = rows(mix)
    assert len(found) == steps == 1200 // 32  # c ends first
    assert all(Counter(source for source, _ in step) == {"a": 224, "b": 64, "c": 32} for step in found)
    for name, batch in (("a", 224), ("b", 64), ("c", 32)):
        own = of(found, name)
        assert own == plain(client, name, batch)[: len(own)]
    assert mix.counts == {name: len(of(found, name)) for name in ROWS}
    assert mix.stats.rows == sum(map(len, found))
    with pytest.raises(Invalid, match="the mix was already read to its end"):
        rows(mix)


# spec: mix-1
@pytest.mark.parametrize("size", [24, 100, 256])
def test_uneven_steps_give_the_rows_of_each_member_in_order(client: penstock.Client, size: int) -> None:
    with mixed(client, global_batch_rows=size) as mix:
        known = len(mix)
        found = rows(mix)
    assert len(found) == known
    assert len({len(step) for step in found}) > 1
    made = shares.divide([shares.weight(w) for w in (0.7, 0.2, 0.1)], [LANES] * 3, size)
    for name, share in zip(ROWS, made, strict=True):
        own = of(found, name)
        assert own == plain(client, name, share.rows)[: len(own)]
        assert len(own) == share.before(known) * share.rows


# spec: mix-2, mix-10
@pytest.mark.parametrize("size", [pytest.param(24, marks=pytest.mark.more), 256, 1024])
def test_shares_hold_over_any_window_also_after_resuming(client: penstock.Client, size: int) -> None:
    cursor: Any = None
    found: list[str] = []
    rng = random.Random(size)
    while len(found) < 3 * WINDOW:
        with mixed(client, global_batch_rows=size, ends="repeat", cursor=cursor) as mix:
            for _ in range(rng.randrange(5, 6000 // size + 10)):
                found += next(mix).column("source").to_pylist()
            cursor = json.loads(json.dumps(mix.cursor))
    weights = [shares.weight(w) for w in (0.7, 0.2, 0.1)]
    assert worst_share([list(ROWS).index(source) for source in found], weights) <= 0.01


# spec: mix-4
@pytest.mark.parametrize("ends", ["mix", "member", "repeat"])
@pytest.mark.parametrize("size", [320, 100])
def test_ranks_end_at_one_step_with_the_same_rows(client: penstock.Client, ends: str, size: int) -> None:
    steps = 60 if ends == "repeat" else None
    alone = read(client, steps, ends=ends, global_batch_rows=size)
    for world in (2, 4):
        ranks = [
            read(client, steps, ends=ends, global_batch_rows=size, shard=(rank, world))
            for rank in range(world)
        ]
        assert {len(found) for found in ranks} == {len(alone)}
        for together, step in zip(zip(*ranks, strict=True), alone, strict=True):
            assert sorted(row for rank in together for row in rank) == sorted(step)
            assert len({len(rank) for rank in together}) == 1


# spec: mix-4
@pytest.mark.parametrize("ends", ["mix", "member"])
def test_ranks_end_at_one_step_if_a_filter_leaves_lanes_of_different_lengths(
    client: penstock.Client, ends: str
) -> None:
    options: dict[str, Any] = {"ends": ends, "filter": "row >= 700 AND row NOT IN (900, 901, 902)"}
    alone = read(client, **options)
    ranks = [read(client, shard=(rank, 4), **options) for rank in range(4)]
    assert {len(found) for found in ranks} == {len(alone)}
    for together, step in zip(zip(*ranks, strict=True), alone, strict=True):
        assert sorted(row for rank in together for row in rank) == sorted(step)


# spec: mix-9
def test_a_member_ends_alone_and_the_others_divide_its_share(client: penstock.Client) -> None:
    found = read(client, ends="member", mix=members(a=0.5, b=0.25, c=0.25), global_batch_rows=400)
    counts = [Counter(source for source, _ in step) for step in found]
    assert counts[0] == {"a": 200, "b": 100, "c": 100}
    phases = {tuple(sorted(count.items())): counts.count(count) for count in counts}
    assert list(phases) == [
        (("a", 200), ("b", 100), ("c", 100)),
        (("a", 268), ("b", 132)),
        (("a", 400),),
    ]
    c, b, a = phases.values()
    assert c == 1200 // 100
    assert b == (3000 - c * 100) // 132
    assert a == (9000 - c * 200 - b * 268) // 400
    assert of(found, "a") == resumed(client, "a", [(c, 200), (b, 268), (a, 400)])
    assert of(found, "b") == resumed(client, "b", [(c, 100), (b, 132)])
    assert of(found, "c") == plain(client, "c", 100)


# spec: mix-9
def test_the_number_of_steps_is_unknown_if_a_member_ends_alone(client: penstock.Client) -> None:
    for ends in ("member", "repeat"):
        with mixed(client, ends=ends) as mix, pytest.raises(TypeError, match="known before reading only if"):
            len(mix)
    first: list[penstock.Member] = [
        {"dataset": "a", "weight": 7, "ends": "mix"},
        {"dataset": "b", "weight": 2, "ends": "repeat"},
        {"dataset": "c", "weight": 1, "ends": "repeat"},
    ]
    with mixed(client, mix=first) as mix:
        assert len(mix) == 9000 // 224


# spec: mix-10
def test_a_member_repeats_with_its_next_epoch(client: penstock.Client) -> None:
    given: list[penstock.Member] = [
        {"dataset": "a", "weight": 0.7},
        {"dataset": "b", "weight": 0.2},
        {"dataset": "c", "weight": 0.1, "ends": "repeat"},
    ]
    found = read(client, mix=given, epoch=2)
    assert len(found) == 9000 // 224
    epochs = [plain(client, "c", 32, epoch=epoch) for epoch in (2, 3)]
    assert epochs[0] != epochs[1]
    assert of(found, "c") == (epochs[0] + epochs[1])[: 32 * len(found)]
    assert of(found, "a") == plain(client, "a", 224, epoch=2)[: 224 * len(found)]


# spec: mix-10, mix-11
def test_later_commits_change_nothing(tmp_path: Path) -> None:
    config, tables = mixed_lake.written(tmp_path / "lake")
    with Server(config) as server:
        address = server.address
    with Server(config, listen=address) as server, penstock.connect(address) as client:
        expected = read(client, 60, ends="repeat")
        with mixed(client, ends="repeat") as mix:
            found = rows(islice(mix, 10))
            tables["c"].table.append(tables["c"].table.scan().to_arrow())
            tables["a"].table.append(tables["a"].table.scan().to_arrow())
            server.kill()
            server.__enter__()
            found += rows(islice(mix, 35))
            cursor = mix.cursor
        found += read(client, 15, ends="repeat", cursor=cursor)
        assert found == expected
        assert read(client, 60, ends="repeat") != expected, "the commits are seen by a new mix"


# spec: mix-10
@pytest.mark.filterwarnings("ignore:.* has no step")
def test_a_member_without_a_whole_batch_cannot_repeat(client: penstock.Client) -> None:
    given: list[penstock.Member] = [
        {"dataset": "a", "weight": 0.7},
        {"dataset": "c", "weight": 0.3, "filter": "row < 20", "ends": "repeat"},
    ]
    with mixed(client, mix=given) as mix, pytest.raises(Invalid, match="'c' cannot repeat: epoch 0 has no"):
        next(mix)


# spec: mix-11
@pytest.mark.parametrize("ends", [pytest.param("mix", marks=pytest.mark.more), "member", "repeat"])
@pytest.mark.parametrize("size", [pytest.param(320, marks=pytest.mark.more), 100])
def test_a_mix_resumes_with_the_next_step_on_other_ranks(
    client: penstock.Client, ends: str, size: int
) -> None:
    steps = 60 if ends == "repeat" else None
    options: dict[str, Any] = {"ends": ends, "global_batch_rows": size}
    alone = read(client, steps, **options)
    rng = random.Random(size)
    at, cursors = 0, None
    while at < len(alone):
        world = rng.choice([1, 2, 4])
        until = min(len(alone), at + rng.randrange(1, 14))
        ranks = [mixed(client, shard=(rank, world), cursor=cursors, **options) for rank in range(world)]
        for step in range(at, until):
            found = rows(next(mix) for mix in ranks)
            assert sorted(row for rank in found for row in rank) == sorted(alone[step]), f"step {step}"
        at = until
        cursors = [json.loads(json.dumps(mix.cursor)) for mix in ranks]
        assert {cursor["step"] for cursor in cursors} == {at}
        for mix in ranks:
            mix.close()
    if ends != "repeat":
        with mixed(client, cursor=cursors, **options) as mix:
            assert list(mix) == []
            assert mix.cursor["step"] == at


# spec: mix-11
def test_a_member_that_seldom_gives_rows_keeps_its_place(client: penstock.Client) -> None:
    options: dict[str, Any] = {"mix": members(a=0.99, c=0.01), "global_batch_rows": 40}
    alone = read(client, 60, **options)
    assert sum(any(source == "c" for source, _ in step) for step in alone) == 6
    rng, cursors, at = random.Random(1), None, 0
    while at < 60:
        world = rng.choice([1, 2, 4])
        ranks = [mixed(client, shard=(rank, world), cursor=cursors, **options) for rank in range(world)]
        for step in range(at, at := min(60, at + rng.randrange(1, 4))):
            found = rows(next(mix) for mix in ranks)
            assert sorted(row for rank in found for row in rank) == sorted(alone[step]), f"step {step}"
        cursors = [json.loads(json.dumps(mix.cursor)) for mix in ranks]
        for mix in ranks:
            mix.close()


# spec: mix-11
def test_weights_and_sizes_may_change_on_resuming(client: penstock.Client) -> None:
    with mixed(client) as mix:
        first = rows([next(mix), next(mix)])
        cursor = mix.cursor
    changed = {"mix": members(a=0.5, b=0.25, c=0.25), "global_batch_rows": 400, "cursor": cursor}
    rest = read(client, 3, **changed)
    assert Counter(source for source, _ in rest[0]) == {"a": 200, "b": 100, "c": 100}
    for name, before, after in (("a", 224, 200), ("b", 64, 100), ("c", 32, 100)):
        assert of([*first, *rest], name) == resumed(client, name, [(2, before), (3, after)])


# spec: mix-13
@pytest.mark.parametrize("size", [320, 200, 100])
@pytest.mark.parametrize("of", [2, 3])
def test_readers_that_take_turns_give_the_steps_of_the_mix(
    client: penstock.Client, size: int, of: int
) -> None:
    """What DataLoader workers read, resumed after every fifth of their steps."""
    given = members()
    given[1]["ends"] = given[2]["ends"] = "repeat"
    options: Any = {**QUERY, "global_batch_rows": size}
    alone = read(client, mix=given, **options)
    specs = check(given, options, "mix")
    for first in range(of):
        index, start = first, MixPosition.start(list(ROWS), 0, None)
        while True:
            every = (index, of)
            turn = Mix(specs, [client] * 3, size, start, shard=(0, 1), source="source", every=every)
            own = rows(islice(turn, 5))
            assert own == alone[start.step + index :: of][:5]
            turn.close()
            if len(own) < 5:
                break
            index, start = of - 1, MixPosition.of(json.loads(json.dumps(turn.cursor)), list(ROWS), (0, 1))


# spec: mix-5
@pytest.mark.filterwarnings("ignore:.* has no step")
def test_members_with_different_columns_are_refused(client: penstock.Client) -> None:
    def refused(**fields: Any) -> str:
        given: Any = [{"dataset": "a", "weight": 1}, {"dataset": "b", "weight": 1, **fields}]
        with pytest.raises(Invalid) as error:
            mixed(client, mix=given)
        assert error.value.faults[0].field == "columns"
        assert "columns=[" in error.value.remedy
        return error.value.message

    assert "'b' has no column 'text', and 'a' has" in refused(columns=["row"])
    assert "'a' has no column 'request_id', and 'b' has" in refused(columns=["row", "text", "request_id"])
    assert "column 'row' is int64 in 'a' and int32 in 'other'" in refused(dataset="other")
    assert "column 0 is 'row' in 'a' and 'text' in 'b'" in refused(columns=["text", "row"])
    with mixed(
        client,
        mix=[
            {"dataset": "a", "weight": 1},
            {"dataset": "other", "weight": 1, "columns": [{"column": "row", "as": "long"}, "text"]},
        ],
    ) as mix:
        assert mix.schema.names == ["row", "text", "source"]


# spec: mix-5
def test_a_column_may_be_null_if_it_may_be_null_in_one_member(client: penstock.Client) -> None:
    dense: Any = {"x": {"columns": ["row"], "fill": 0}}
    with mixed(client, columns=["text"], dense=dense) as mix:
        assert not mix.schema.field("x").nullable
        assert mix.schema.field("text").nullable
        assert next(mix).schema == mix.schema


# spec: mix-6
def test_a_column_names_the_member(client: penstock.Client) -> None:
    with mixed(client, source="from") as mix:
        batch = next(mix)
        assert batch.schema == mix.schema
        assert mix.schema.names == ["row", "text", "from"]
        assert mix.schema.field("from").type == pa.dictionary(pa.int32(), pa.string())
        assert not mix.schema.field("from").nullable
        assert mix.names == tuple(batch.column("from").dictionary.to_pylist()) == tuple(ROWS)
        texts = [text[0] for text in batch.column("text").to_pylist()]
        assert texts == batch.column("from").to_pylist()
    with mixed(client, source=None) as mix:
        assert next(mix).schema.names == ["row", "text"]
    with pytest.raises(Invalid, match="already have a column 'text'"):
        mixed(client, source="text")


# spec: mix-6, mix-7
def test_one_dataset_may_be_several_members(client: penstock.Client) -> None:
    given: list[penstock.Member] = [
        {"dataset": "a", "weight": 1, "name": "low", "filter": "row < 4000"},
        {
            "dataset": "a",
            "weight": 1,
            "name": "high",
            "filter": "row >= 4000",
            "order": "stored",
            "seed": None,
        },
    ]
    with pytest.raises(Invalid, match="seed"):  # of the mix, but this member's order is stored
        mixed(client, mix=given)
    given[1]["order"] = "shuffled"
    found = read(client, 3, mix=given, global_batch_rows=200)
    assert all((row < 4000) == (source == "low") for step in found for source, row in step)
    del given[0]["name"], given[1]["name"]
    with pytest.raises(Invalid, match="two members are named 'a'"):
        mixed(client, mix=given)


# spec: mix-7
@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ([], {}, "must be a list of at least one member"),
        ([{"dataset": "a", "weight": 1}] * 65, {}, "has 65 members, and at most 64 can be mixed"),
        ("a", {}, "must be a list of at least one member"),
        (["a"], {}, r"mix\[0\]: must be a mapping, not str"),
        ([{"dataset": "a"}], {}, r"mix\[0\].weight: is missing"),
        ([{"weight": 1}], {}, r"mix\[0\].dataset: is missing"),
        ([{"dataset": "a", "weight": 0}], {}, "0 is not a weight"),
        ([{"dataset": "a", "weight": "much"}], {}, "'much' is not a weight"),
        ([{"dataset": "a", "weight": 1, "ends": "soon"}], {}, "'soon' is not what an end can mean"),
        ([{"dataset": "a", "weight": 1, "batch_rows": 4}], {}, r"mix\[0\].batch_rows: cannot be set here"),
        ([{"dataset": "a", "weight": 1, "tail": "keep"}], {}, r"mix\[0\].tail: cannot be set here"),
        ([{"dataset": "a", "weight": 1, "cursor": {}}], {}, r"mix\[0\].cursor: cannot be set here"),
        ([{"dataset": "a", "weight": 1, "wire": "indexed"}], {}, "the batches of a mix are plain"),
        ([{"dataset": "a", "weight": 1}], {"batch_requests": 4}, r"mix.batch_requests: cannot be set here"),
        ([{"dataset": "a", "weight": 1}], {"limit": 4}, r"mix.limit: cannot be set here"),
        ([{"dataset": "a", "weight": 1}], {"batch_rows": 4}, "cannot be combined with global_batch_rows"),
        ([{"dataset": "a", "weight": 1, "uri": "x:1"}], {}, "member 'a' has no client"),
        ([{"dataset": "a", "weight": 1}], {"shard": (2, 2)}, "there is no shard 2 of 2"),
        ([{"dataset": "a", "weight": 1}], {"global_batch_rows": 3}, "cannot keep the shares within 1 %"),
    ],
)
def test_mistakes_are_refused(client: penstock.Client, given: Any, options: Any, message: str) -> None:
    with pytest.raises(Invalid, match=message) as error:
        mixed(client, mix=given, **options)
    assert error.value.faults or "client" in message
    assert error.value.remedy or "shard" in message


# spec: mix-7
def test_unknown_fields_are_refused(client: penstock.Client) -> None:
    with pytest.raises(TypeError, match=r"mix\[0\] has an unknown field 'filtre'"):
        mixed(client, mix=[{"dataset": "a", "weight": 1, "filtre": "row < 4"}])


# spec: mix-12
def test_cursors_of_something_else_are_refused(client: penstock.Client) -> None:
    with mixed(client) as mix:
        next(mix)
        first = mix.cursor
        next(mix)
        second = mix.cursor
    with client.read("a", **QUERY) as stream:
        next(stream)
        single = stream.cursor
    with pytest.raises(Invalid, match="from a single stream, but this is a mix"):
        mixed(client, cursor=single)
    with pytest.raises(Invalid, match="from a mix of a, b, c, but this one is of a, b"):
        mixed(client, mix=members(a=1, b=2), cursor=first)
    with pytest.raises(Invalid, match="version 2"):
        mixed(client, cursor={**first, "v": 2})
    with pytest.raises(Invalid, match="not a mix's cursor"):
        mixed(client, cursor={**first, "at": [{}]})
    with pytest.raises(Invalid, match="from rank 0 of 2, but this is rank 1 of 2"):
        mixed(client, cursor={**first, "shard": {"index": 0, "of": 2}}, shard=(1, 2))
    other = {**second, "shard": {"index": 1, "of": 2}}
    with pytest.raises(Invalid, match="from different steps: 1, 2"):
        mixed(client, cursor=[{**first, "shard": {"index": 0, "of": 2}}, other])
    with pytest.raises(Invalid, match="filter"):
        mixed(client, cursor=first, filter="row < 40")


def test_a_mix_ends_and_closes_like_a_stream(client: penstock.Client) -> None:
    with mixed(client) as mix:
        assert sum(1 for _ in mix) == 37
        assert next(mix, None) is None
    with mixed(client) as mix:
        next(mix)
    with pytest.raises(Invalid, match="the mix is closed"):
        next(mix)
    assert mix.cursor["step"] == 1


# spec: mix-11
def test_a_step_that_failed_does_not_move_the_cursor(
    client: penstock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = read(client)
    with mixed(client) as mix:
        steps = len(mix)
        found = rows(islice(mix, 3))

        def broken(*_: Any) -> None:
            raise penstock.Unavailable("the storage does not respond")

        monkeypatch.setattr(mix._readers[1], "take", broken)
        for _ in range(2):
            with pytest.raises(penstock.Unavailable):
                next(mix)
        assert len(mix) == steps == len(alone), "it does not change while the mix is read"
    assert mix.cursor["step"] == 3
    assert found + read(client, cursor=mix.cursor) == alone


# spec: mix-15
def test_ranks_that_wait_for_each_other_share_a_server_with_few_slots(config: Path) -> None:
    """Two ranks with two streams each, and three slots: in any order of arrival, one rank has both of its own."""
    given = members(a=0.7, b=0.3)
    with (
        Server(config, "--max-streams", "3", "--max-peer-share", "100") as server,
        penstock.connect(server.address, reconnect=60) as client,
    ):
        barrier, counts = threading.Barrier(2), [0, 0]

        def rank(number: int) -> None:
            with mixed(client, mix=given, shard=(number, 2), global_batch_rows=2000) as mix:
                for _ in mix:
                    barrier.wait(60)
                    counts[number] += 1

        ranks = [threading.Thread(target=rank, args=(number,)) for number in range(2)]
        for one in ranks:
            one.start()
        for one in ranks:
            one.join()
        assert counts == [5, 5]


# spec: mix-15, wire-44
def test_a_mix_that_no_server_can_admit_fails_at_once(config: Path) -> None:
    with (
        Server(config, "--max-streams", "2", "--max-peer-share", "100") as server,
        penstock.connect(server.address) as client,
        mixed(client) as mix,
        pytest.raises(penstock.Exhausted, match="the mix has 3 streams, and one client may have 2 open"),
    ):
        next(mix)


def test_a_member_that_fails_ends_the_waits_of_the_others(fake_address: str) -> None:
    """Its failure is raised, however long the streams of other members would be opened again."""
    members: Any = [{"dataset": "moves ever", "weight": 1}, {"dataset": "other schema", "weight": 1}]
    with (
        penstock.connect(fake_address, reconnect=3600) as fake,
        penstock.mix(members, client=fake) as mix,
        pytest.raises(penstock.Corrupt, match="schema differs") as raised,
    ):
        next(mix)
    assert raised.value.__notes__ == ["This was member 'other schema'."]
