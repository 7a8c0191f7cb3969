"""Blends batches of several members into one, with alternating rows and a column that names the member."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from penstock import errors, query

SOURCE_TYPE = pa.dictionary(pa.int32(), pa.string())


class Blend:
    """Creates the batches of a mix.

    Attributes:
        schema: the schema of its batches: the members' columns, then the column that names the member. A column is
            nullable if it is nullable in any member.
    """

    def __init__(self, names: Sequence[str], schemas: Sequence[pa.Schema], source: str | None) -> None:
        """Checks that the columns are equal.

        Args:
            names: the members' names.
            schemas: the schema of each member.
            source: the name of the column that names the member; None adds no column.

        Raises:
            Invalid: columns differ in name, type or order, or a column already has the name `source`.
        """
        for name, schema in zip(names[1:], schemas[1:], strict=True):
            difference = _difference(names[0], schemas[0], name, schema)
            if difference:
                raise errors.Invalid(
                    f"the columns of the mix's members differ: {difference}",
                    remedy="select equal columns in the same order: columns=[…], and rename or cast those that "
                    "differ: {'column': name, 'name': other, 'as': type}",
                    faults=(errors.Fault(field="columns", message=difference),),
                )
        fields = [
            pa.field(field.name, field.type, any(schema.field(at).nullable for schema in schemas))
            for at, field in enumerate(schemas[0])
        ]
        if source is not None and source in schemas[0].names:
            raise query.invalid(
                "source",
                f"the members already have a column {source!r}",
                'choose another name, such as source="mix_source"; source=None adds no column',
            )
        self._columns = pa.schema(fields)
        self._names = pa.array(names, pa.string())
        own = [] if source is None else [pa.field(source, SOURCE_TYPE, nullable=False)]
        self._has_source = source is not None
        self.schema = pa.schema([*fields, *own])

    def batch(self, parts: Sequence[Sequence[pa.RecordBatch]]) -> pa.RecordBatch:
        """Merges batches of each member into one batch. Rows of a member stay in order and alternate with others."""
        whole = [
            pa.RecordBatch.from_arrays(batch.columns, schema=self._columns)
            for part in parts
            for batch in part
        ]
        counts = tuple(sum(batch.num_rows for batch in part) for part in parts)
        places, members = _order(counts)
        columns = _one(whole, self._columns).columns
        if places is not None:
            columns = [_by_first_use(column.take(places)) for column in columns]
        if self._has_source:
            columns = [*columns, pa.DictionaryArray.from_arrays(members, self._names)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


@lru_cache(maxsize=256)
def _order(counts: tuple[int, ...]) -> tuple[pa.Int64Array | None, pa.Int32Array]:
    """Returns the order of a batch's rows, as indexes into the concatenated rows, and each row's member.

    Row i of a member's n rows is placed at (i + 1/2)/n of the batch, so any part of the batch has the members' shares,
    to within one row of each. The indexes are None if the rows are already in order.
    """
    through = [((2 * i + 1) / (2 * rows), member) for member, rows in enumerate(counts) for i in range(rows)]
    places = sorted(range(len(through)), key=through.__getitem__)
    members = pa.array([through[place][1] for place in places], pa.int32())
    if sum(map(bool, counts)) == 1:
        return None, members
    return pa.array(places, pa.int64()), members


def _one(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches, schema=schema).combine_chunks()
    columns = [
        column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
        for column in table.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _by_first_use(column: pa.Array) -> pa.Array:
    """Sorts a dictionary column's values by first use. Returns other columns unchanged."""
    if not pa.types.is_dictionary(column.type):
        return column
    used = pc.drop_null(pc.unique(column.indices))
    codes = pc.index_in(column.indices, value_set=used, skip_nulls=True)
    return pa.DictionaryArray.from_arrays(codes, column.dictionary.take(used))


def _difference(first: str, one: pa.Schema, second: str, other: pa.Schema) -> str:
    """Describes the first difference between the columns of two members; "" if there is none."""
    for name, theirs, whose, lacking in ((first, other, second, one), (second, one, first, other)):
        missing = [column for column in theirs.names if column not in lacking.names]
        if missing:
            listed = ", ".join(map(repr, missing))
            return f"{name!r} has no column {listed}, and {whose!r} has"
    for field in one:
        if not field.type.equals(other.field(field.name).type):
            theirs = other.field(field.name).type
            return f"column {field.name!r} is {field.type} in {first!r} and {theirs} in {second!r}"
    if one.names != other.names:
        at = next(i for i, name in enumerate(one.names) if name != other.names[i])
        return f"column {at} is {one.names[at]!r} in {first!r} and {other.names[at]!r} in {second!r}"
    return ""
