"""The cases over the benchmark's own tables, T and T-scattered."""

from __future__ import annotations

import polars as pl
from tables import DATASETS, KEY

from agreement.case import Case, Frames, dataset


def cases() -> list[Case]:
    """All of them."""
    return [case for training in DATASETS for case in _cases(training)]


def _cases(training: str) -> list[Case]:
    def asked(**rules: object) -> dict[str, object]:
        return dataset(f"bench.{training}", {"table": "bench.staging", **rules}, key=[KEY])

    def joined(frames: Frames, how: str) -> pl.LazyFrame:
        return frames(training).join(frames("staging"), on=KEY, how=how)

    def sql(how: str, columns: str) -> str:
        return f"SELECT t.*, {columns} FROM {training} t {how} JOIN staging s USING ({KEY})"

    features = "s.user_id, " + ", ".join(f"s.u{index}" for index in range(8)) + ", s.history, s.country"
    shaped = [
        {"column": "history", "last": 10},
        {"column": "history", "name": "beginning", "first": 3},
        {"column": "u0", "as": "double"},
    ]
    return [
        Case(
            f"{training}: left",
            {"dataset": asked()},
            sql("LEFT", features),
            lambda frames: joined(frames, "left"),
        ),
        Case(
            f"{training}: inner, with filters of both sides",
            {
                "dataset": asked(join="inner", filter="country LIKE 'A%' OR u1 < 0.25"),
                "filter": "f0 >= 0.5 AND user_id > 1000",
            },
            sql("INNER", features)
            + " WHERE (country LIKE 'A%' OR u1 < 0.25::FLOAT) AND f0 >= 0.5::FLOAT AND s.user_id > 1000",
            lambda frames: joined(frames, "inner").filter(
                (pl.col("country").str.starts_with("A") | (pl.col("u1") < 0.25))
                & (pl.col("f0") >= 0.5)
                & (pl.col("user_id") > 1000)
            ),
        ),
        Case(
            f"{training}: anti",
            {"dataset": asked(join="anti")},
            f"SELECT t.* FROM {training} t ANTI JOIN staging s USING ({KEY})",
            lambda frames: joined(frames, "anti"),
        ),
        Case(
            f"{training}: lists cut, a float widened",
            {"dataset": asked(columns=shaped)},
            sql("LEFT", "s.history[-10:] AS history, s.history[:3] AS beginning, s.u0::DOUBLE AS u0"),
            lambda frames: joined(frames, "left").with_columns(
                pl.col("history").list.tail(10),
                pl.col("history").list.head(3).alias("beginning"),
                pl.col("u0").cast(pl.Float64),
            ),
        ),
    ]
