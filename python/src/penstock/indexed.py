"""Converts batches of `wire="indexed"` to batches of `wire="plain"`."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock import errors, query

# The shift that converts a number of elements to bytes, by element width in bits.
_SHIFTS = {8: 0, 16: 1, 32: 2, 64: 3}

# The maximum number of list elements in a column: offsets have 32 bits.
_MAX_ELEMENTS = 2**31 - 1


def expand(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Converts an indexed batch to a plain one: the same rows, with every column at its full length.

    Each column of type dictionary<int32, struct<...>> is replaced by the columns of its struct. The result has the
    names, types, values and order of the same query without `wire="indexed"`, except that request-level columns come
    after the other training columns. Other columns are shared, not copied. A batch without indexed columns is returned
    unchanged. Slices of batches are supported.

    Raises:
        Corrupt: an index is outside its dictionary.
        Invalid: a column is too long for Arrow's offsets; use smaller batches.
    """
    if not any(map(is_indexed, batch.schema)):
        return batch
    columns: list[pa.Array] = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        columns += _rows(field.name, column) if is_indexed(field) else [column]
    return pa.RecordBatch.from_arrays(columns, schema=plain_schema(batch.schema))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Returns the schema of batches after `expand`."""
    fields: list[pa.Field] = []
    for field in schema:
        fields += field.type.value_type.fields if is_indexed(field) else [field]
    return pa.schema(fields, schema.metadata)


def is_indexed(field: pa.Field) -> bool:
    """Reports whether a column contains the columns of a staging table or of requests. No table column has this type."""
    kind = field.type
    return (
        pa.types.is_dictionary(kind)
        and pa.types.is_int32(kind.index_type)
        and pa.types.is_struct(kind.value_type)
    )


def _rows(name: str, column: pa.DictionaryArray) -> list[pa.Array]:
    """Returns the fields of an indexed column, with one row per index."""
    indices, rows = column.indices, column.dictionary
    ends = pc.min_max(indices)
    if indices.null_count or (
        len(indices) and not 0 <= ends["min"].as_py() <= ends["max"].as_py() < len(rows)
    ):
        raise errors.Corrupt(
            f"column {name!r} refers to rows that are not among the {len(rows)} it came with"
        )
    try:
        return [_take(column, indices) for column in rows.flatten()]
    except pa.ArrowInvalid as e:
        raise query.invalid("batch_rows", f"the columns of {name!r} are too long in such batches: {e}") from e


def _take(values: pa.Array, indices: pa.Array) -> pa.Array:
    """Takes values at valid indices.

    pyarrow's take of lists computes the position of every element, which takes five times as long, and does not check
    the 32-bit limit of the total length.
    """
    kind = values.type
    if len(indices) == 0:
        return values.slice(0, 0)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return _take_lists(values, indices)
    if pa.types.is_struct(kind) and kind.num_fields:
        fields = [_take(values.field(i), indices) for i in range(kind.num_fields)]
        validity = pc.take(values.is_valid(), indices).buffers()[1] if values.null_count else None
        return pa.Array.from_buffers(kind, len(indices), [validity], children=fields)
    return pc.take(values, indices, boundscheck=False)


def _take_lists(lists: pa.ListArray, indices: pa.Array) -> pa.Array:
    elements = lists.values
    shift = _SHIFTS.get(elements.type.bit_width) if pa.types.is_primitive(elements.type) else None
    if shift is not None and not elements.null_count:
        validity, offsets, moved = _take_runs(lists, elements, shift, indices)
    else:
        ones = pa.repeat(pa.scalar(1, pa.int32()), len(elements))
        positions = pc.subtract(pc.cumulative_sum(ones), pa.scalar(1, pa.int32()))
        validity, offsets, moved = _take_runs(lists, positions, 2, indices)
        moved = _take(elements, moved)
    return pa.Array.from_buffers(lists.type, len(indices), [validity, offsets], children=[moved])


def _take_runs(
    lists: pa.ListArray, elements: pa.Array, shift: int, indices: pa.Array
) -> tuple[pa.Buffer | None, pa.Buffer, pa.Array]:
    """Takes lists of non-null elements of 1 << shift bytes each, as binary values.

    Returns:
        The validity, offsets and elements of the lists.
    """
    before, after = lists.buffers()[:2], elements.buffers()[1]
    start = elements.offset << shift
    stops = pa.Array.from_buffers(pa.int32(), lists.offset + len(lists) + 1, [None, before[1]])
    stops = pc.shift_left(stops.cast(pa.int64()), pa.scalar(shift, pa.int64()))
    content = after.slice(start) if after else pa.py_buffer(b"\0")
    binary = pa.Array.from_buffers(
        pa.large_binary(), len(lists), [before[0], stops.buffers()[1], content], offset=lists.offset
    )
    lengths, most = pc.binary_length(binary), _MAX_ELEMENTS << shift
    # The total is checked before the allocation, but only if the longest list makes an overflow possible.
    possible = (pc.max(lengths).as_py() or 0) * len(indices)
    if possible > most and pc.sum(pc.take(lengths, indices)).as_py() > most:
        raise pa.ArrowInvalid(f"lists of more than {_MAX_ELEMENTS} elements")
    taken = pc.take(binary, indices, boundscheck=False).buffers()
    stops = pa.Array.from_buffers(pa.int64(), len(indices) + 1, [None, taken[1]])
    stops = pc.shift_right(stops, pa.scalar(shift, pa.int64())).cast(pa.int32())
    moved = pa.Array.from_buffers(elements.type, stops[-1].as_py(), [None, taken[2]])
    return taken[0], stops.buffers()[1], moved
