"""The sums of the right answer, computed from both tables without joining them.

A staging row counts as often as its key occurs among the training rows. The sums of an inner join are those of the
left join of the training rows that have a match.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from checks import STAGING_FACTOR, TRAINING_FACTOR, Integers, Summary, sums, terms
from inputs import JoinKind


def left_join(
    training: pa.Table,
    staging: pa.Table,
    repeats: Integers,
    factors: tuple[str, str] = (TRAINING_FACTOR, STAGING_FACTOR),
) -> Summary:
    """The sums of a left join, except `pairs`.

    Staging row i, without its key, is joined `repeats[i]` times. No name is in both tables.
    """
    expected = Summary(training.num_rows, factors=factors)
    for name in training.column_names:
        expected.columns[name] = sums(whole(training[name]))
    unmatched = training.num_rows - int(repeats.sum())
    for name in staging.column_names:
        expected.columns[name] = sums(whole(staging[name]), repeats)
        expected.columns[name].nulls += unmatched
    return expected


def of_tables(
    training: pa.Table,
    staging: pa.Table,
    keys: tuple[str, str],
    factors: tuple[str, str],
    join: JoinKind = "left",
) -> Summary:
    """The sums of the join on a key of integers, which is unique in the staging table and not null."""
    if join == "inner":
        known = whole(staging[keys[1]])
        training = training.filter(pc.is_in(whole(training[keys[0]]), known))
    ids = whole(training[keys[0]]).to_numpy()
    order = np.argsort(ids, kind="stable")
    known, starts, counts = np.unique(ids[order], return_index=True, return_counts=True)
    per_key = np.add.reduceat(terms(whole(training[factors[0]]))[order], starts)
    wanted = whole(staging[keys[1]]).to_numpy()
    if len(np.unique(wanted)) != len(wanted):
        raise ValueError(f"{keys[1]} is not unique")
    places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    found = known[places] == wanted
    expected = left_join(
        training, staging.drop_columns([keys[1]]), np.where(found, counts[places], 0), factors
    )
    sums_of_first = np.where(found, per_key[places], 0)
    expected.pairs = int((sums_of_first * terms(whole(staging[factors[1]]))).sum())
    return expected


def whole(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array."""
    chunks = column.combine_chunks()
    return chunks if isinstance(chunks, pa.Array) else pa.concat_arrays(chunks.chunks)
