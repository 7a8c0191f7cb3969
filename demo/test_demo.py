"""Tests that features never look ahead, and that the comparison finds differences."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import compare
import explained
import lakehouse
import model
import movielens
import numpy as np
import pyarrow as pa
import pytest
from failure import DemoError
from movielens import Events

MINUTE = 60


def events(*rows: tuple[int, int, int, float, list[int]]) -> Events:
    """Events of (user, minute, movie, rating, genres), in order."""
    user, minute, movie, rating, genres = zip(*rows, strict=True)
    return Events(
        user=np.array(user),
        movie=np.array(movie),
        rating=np.array(rating, np.float64),
        second=np.array(minute) * MINUTE,
        genres=list(genres),
    )


def drawn(seed: int, size: int = 300) -> Events:
    """Random events of four users, about two to a sitting."""
    rng = np.random.default_rng(seed)
    user = np.sort(rng.integers(1, 5, size))
    second = np.cumsum(rng.integers(0, 60 * MINUTE, size))
    return Events(
        user=user,
        movie=rng.integers(1, 40, size),
        rating=rng.integers(1, 11, size) / 2,
        second=second,
        genres=[sorted({int(g) for g in rng.integers(0, 6, rng.integers(0, 4))}) for _ in user],
    )


def features(given: Events) -> dict[int, dict[str, Any]]:
    """Both feature rows of each request that has them."""
    found = movielens.sittings(given)
    history = movielens.user_history(given, found).to_pylist()
    affinity = movielens.genre_affinity(given, found).to_pylist()
    assert [row["request_id"] for row in history] == [row["request_id"] for row in affinity]
    return {first["request_id"]: first | second for first, second in zip(history, affinity, strict=True)}


def test_a_sitting_ends_after_thirty_minutes_and_with_its_user() -> None:
    """29 minutes keep a sitting together however long it lasts; 30 end it."""
    given = events(
        (1, 0, 10, 4, []),
        (1, 29, 11, 4, []),  # 29 minutes on: the same
        (1, 58, 12, 4, []),  # 29 minutes after the last, 58 after the first: the same
        (1, 88, 13, 4, []),  # 30 minutes: another
        (2, 89, 14, 4, []),  # another user
    )
    found = movielens.sittings(given)
    assert found.of_event.tolist() == [0, 0, 0, 1, 2]
    assert found.request.tolist() == [1_000_000, 1_000_001, 2_000_000]
    assert found.later.tolist() == [False, True, False]


def test_features_match_a_hand_computed_case() -> None:
    """A case worked out by hand."""
    given = events(
        (1, 0, 10, 5, [0]),
        (1, 1, 11, 2, [0, 1]),
        (1, 100, 12, 1, []),
        (1, 200, 13, 4, [2]),
        (2, 300, 14, 3, [3]),
    )
    assert set(features(given)) == {1_000_001, 1_000_002}, "first sittings have no features"
    second = features(given)[1_000_001]
    assert (second["ratings_before"], second["mean_rating"]) == (2, 3.5)
    assert second["last_movies"] == [10, 11]
    assert second["affinity"] == [0.0, -1.5] + [None] * (len(movielens.GENRES) - 2)
    third = features(given)[1_000_002]
    assert (third["ratings_before"], third["last_movies"]) == (3, [10, 11, 12])


def test_features_agree_with_a_plain_loop() -> None:
    """Random events against the definition, spelled out."""
    given = drawn(1)
    found = movielens.sittings(given)
    wanted = {}
    for sitting in np.flatnonzero(found.later):
        now = found.start[sitting]
        before = [
            row
            for row in range(len(given.user))
            if given.user[row] == given.user[now]
            and found.request[found.of_event[row]] < found.request[sitting]
        ]
        mean = sum(given.rating[row] for row in before) / len(before)
        affinity: list[float | None] = []
        for genre in range(len(movielens.GENRES)):
            liked = [given.rating[row] for row in before if genre in given.genres[row]]
            affinity.append(float(np.float32(sum(liked) / len(liked) - mean)) if liked else None)
        wanted[int(found.request[sitting])] = {
            "request_id": int(found.request[sitting]),
            "ratings_before": len(before),
            "mean_rating": mean,
            "last_movies": [int(given.movie[row]) for row in before[-movielens.LAST_MOVIES :]],
            "affinity": affinity,
        }
    assert any(len(row["last_movies"]) == movielens.LAST_MOVIES for row in wanted.values())
    assert features(given) == wanted


@pytest.mark.parametrize("seed", range(3))
def test_a_later_event_changes_no_earlier_feature(seed: int) -> None:
    """Alter one event after the other: only later sittings of its user may notice."""
    given = drawn(seed)
    found = movielens.sittings(given)
    original = features(given)
    reached = 0
    for row in range(0, len(given.user), 3):
        rating, movie, genres = given.rating.copy(), given.movie.copy(), list(given.genres)
        rating[row] = 0.5 if rating[row] > 3 else 5.0
        movie[row] += 1000
        genres[row] = [7]
        changed = features(dataclasses.replace(given, rating=rating, movie=movie, genres=genres))
        assert set(changed) == set(original)
        own = int(found.request[found.of_event[row]])
        for request, features_then in original.items():
            same_user = request // 1_000_000 == given.user[row]
            if same_user and request > own:
                reached += changed[request] != features_then
            else:
                assert changed[request] == features_then
    assert reached > 0, "no event had any effect: this test would see nothing"


def test_features_do_not_depend_on_later_events() -> None:
    """Cut the log at a sitting: the features up to there stay as they were."""
    given = drawn(4)
    original = features(given)
    found = movielens.sittings(given)
    for sitting in range(0, len(found.start), 7):
        size = int(found.start[sitting]) + 1
        cut = Events(
            given.user[:size],
            given.movie[:size],
            given.rating[:size],
            given.second[:size],
            given.genres[:size],
        )
        for request, row in features(cut).items():
            assert row == original[request]


def sample() -> pa.Table:
    """Rows of every type that the demo streams, with nulls at every level."""
    return pa.table(
        {
            "request_id": pa.array([1, 1, 2, 3], pa.int64()),
            "movie_id": pa.array([7, 8, 7, 9], pa.int64()),
            "rating": pa.array([4.5, 3.0, 0.1, 5.0], pa.float32()),
            "ts": pa.array([1, 2, 3, 4], pa.timestamp("us", "UTC")),
            "title": pa.array(["a", None, "", "d"]),
            "last_movies": pa.array([[1, 2], [], None, [3]], pa.list_(pa.int64())),
            "affinity": pa.array([[0.5, None], [0.25], None, []], pa.list_(pa.float32())),
        }
    )


KEY = ["request_id", "movie_id"]


def with_value(column: str, row: int, value: Any) -> pa.Table:
    """The sample with another value in one place."""
    table = sample()
    values = table[column].to_pylist()
    values[row] = value
    place = table.column_names.index(column)
    return table.set_column(place, column, pa.array(values, table.schema.field(column).type))


def test_equal_rows_in_any_order_and_any_batches_are_identical() -> None:
    """Order and batches are not differences."""
    table = sample()
    moved = pa.concat_tables([table.slice(2), table.slice(0, 1), table.slice(1, 1)])
    verdict = compare.tables(table, moved, KEY)
    assert verdict.identical
    assert (verdict.rows, verdict.columns) == (4, 7)


@pytest.mark.parametrize(
    ("column", "row", "value"),
    [
        ("rating", 2, float(np.nextafter(np.float32(0.1), np.float32(1)))),
        ("rating", 0, None),
        ("ts", 3, 5),
        ("title", 1, ""),
        ("title", 2, None),
        ("last_movies", 0, [1, 3]),
        ("last_movies", 0, [2, 1]),
        ("last_movies", 1, None),
        ("last_movies", 2, []),
        ("last_movies", 3, [None]),
        ("affinity", 0, [0.5, 0.0]),
        ("affinity", 1, [0.25, None]),
    ],
)
def test_one_altered_value_is_found(column: str, row: int, value: Any) -> None:
    """One value in one row, down to the last bit and to kinds of nothing."""
    verdict = compare.tables(sample(), with_value(column, row, value), KEY)
    assert not verdict.identical
    key = tuple(sample()[name][row].as_py() for name in KEY)
    assert verdict.keys == [key]
    assert verdict.differing_rows == 1
    assert f"column {column}" in verdict.differences[0]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (sample().slice(1), "second table has no row request_id 1, movie_id 7"),
        (pa.concat_tables([sample(), sample().slice(2, 1)]), "second table has 2 rows"),
        (with_value("movie_id", 0, 70), "first table has no row request_id 1, movie_id 70"),
        (sample().slice(0, 0), "second table has no row"),
        (sample().drop_columns("title"), "columns:"),
        (sample().cast(sample().schema.set(2, pa.field("rating", pa.float64()))), "type"),
    ],
)
def test_extra_rows_and_columns_are_detected(other: pa.Table, said: str) -> None:
    """Missing, repeated and foreign rows, and other schemas."""
    verdict = compare.tables(sample(), other, KEY)
    assert not verdict.identical
    assert any(said in line for line in verdict.differences)


def made(monkeypatch: pytest.MonkeyPatch, folder: Path) -> lakehouse.Facts:
    """Tables of drawn events, without the package that holds the real ones."""
    given = drawn(5)
    # In the real data a user rates a movie once, and titles may be unknown.
    given = dataclasses.replace(given, movie=np.arange(len(given.movie)))
    movies = pa.table(
        {
            "title": pa.array([None, *["x"] * (len(given.movie) - 1)], pa.string()),
            "year": pa.array([1990] * len(given.movie), pa.int32()),
        }
    )
    monkeypatch.setattr(movielens, "PACKAGE", "numpy")
    monkeypatch.setattr(movielens, "load", lambda: (given, movies))
    return lakehouse.make(lakehouse.disk(folder))


def test_finished_tables_are_used_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What was finished is found, with the same facts."""
    assert lakehouse.ready(lakehouse.disk(tmp_path)) is None
    facts = made(monkeypatch, tmp_path)
    assert lakehouse.ready(lakehouse.disk(tmp_path)) == facts
    assert facts.train_rows + facts.test_rows == facts.tables[0].rows == 300
    assert [table.buckets for table in facts.tables] == [16, 12, 8]


def test_init_writes_a_config_file_from_the_catalog(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`penstock init` finds the demo's dataset, and `penstock datasets` reads what it wrote."""
    made(monkeypatch, tmp_path)
    binary = os.environ.get("PENSTOCK_BIN", str(Path(__file__).parents[1] / "bin" / "penstock"))

    def penstock(*command: str) -> str:
        done = subprocess.run([binary, *command], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    config = tmp_path / "penstock.yaml"
    penstock("init", f"sqlite:///{tmp_path}/tables/catalog.db", "--output", str(config))
    found = json.loads(penstock("datasets", "--config", str(config), "--json"))
    assert [(one["name"], sorted(one["staging"]), one["rows"]) for one in found] == [
        ("ratings", ["genre_affinity", "user_history"], 300)
    ]


def test_damaged_tables_are_created_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever is missing or cut short, the tables do not count as finished."""
    facts = made(monkeypatch, tmp_path)
    home = tmp_path / "tables"
    parts = [home / "finished.json", home / "catalog.db"]
    for part in [*parts, *(Path(next(iter(table.files))) for table in facts.tables)]:
        content = part.read_bytes()
        part.unlink()
        assert lakehouse.ready(lakehouse.disk(tmp_path)) is None, f"{part} is missing"
        if part.suffix in {".json", ".parquet"}:
            part.write_bytes(content[:-10])
            assert lakehouse.ready(lakehouse.disk(tmp_path)) is None, f"{part} is cut"
        if part.suffix == ".parquet":
            part.write_bytes(content[:50] + bytes([content[50] ^ 1]) + content[51:])
            assert lakehouse.ready(lakehouse.disk(tmp_path)) is None, f"{part} has another bit"
        part.write_bytes(content)
        assert lakehouse.ready(lakehouse.disk(tmp_path)) == facts
    Path(next(iter(facts.tables[1].files))).unlink()
    again = made(monkeypatch, tmp_path)
    assert lakehouse.ready(lakehouse.disk(tmp_path)) == again
    assert [table.rows for table in again.tables] == [table.rows for table in facts.tables]


def test_a_second_run_is_refused_while_the_first_holds_the_folder(tmp_path: Path) -> None:
    """Two runs at once would write over each other."""
    with (
        lakehouse.held(tmp_path),
        pytest.raises(lakehouse.BusyError, match="another run"),
        lakehouse.held(tmp_path),
    ):
        pass
    with lakehouse.held(tmp_path):
        pass


def test_the_model_reads_a_slice_as_it_reads_the_whole() -> None:
    """Arrow slices share buffers: offsets must be heeded."""
    batch = pa.record_batch(
        {
            "user_id": pa.array([1, 2, 3, 4]),
            "movie_id": pa.array([5, 6, 5, 7]),
            "rating": pa.array([1, 2, 3, 4], pa.float32()),
            "year": pa.array([1990, None, 2000, 2010], pa.int32()),
            "genres": pa.array([[0], [], [1, 2], [18]]),
            "ratings_before": pa.array([3, None, 4, None], pa.int32()),
            "mean_rating": pa.array([3.5, None, 2.0, None]),
            "last_movies": pa.array([[5, 6], None, [7], None], pa.list_(pa.int64())),
            "affinity": pa.array([[0.5] * 18 + [None], None, [-0.5] * 19, None], pa.list_(pa.float32())),
        }
    )
    learner = model.Model(staging=True)
    first = learner.learn(batch)
    assert learner.learn(batch) < first
    whole = learner.predict(batch)
    assert np.isfinite(whole).all()
    assert learner.predict(batch.slice(1, 2)).tolist() == whole[1:3].tolist()


def test_an_explain_text_that_differs_is_an_error(tmp_path: Path) -> None:
    """Ids and sizes may differ; what is read, and how, may not."""
    golden = tmp_path / "explain.txt"
    text = (
        "plan " + "0" * 32 + " (algorithm 1)\ntraining ml.ratings@12, schema 0\n  reads 2 splits, 1.5 MiB\n"
    )
    explained.check(text, golden)
    explained.check(text.replace("@12", "@13").replace("1.5 MiB", "980.1 KiB"), golden)
    with pytest.raises(DemoError, match="reads 3 splits"):
        explained.check(text.replace("2 splits", "3 splits"), golden)
