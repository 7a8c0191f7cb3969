"""From a schema and rules to a function of batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Unpack

import pyarrow as pa
from torch.utils.dlpack import from_dlpack

from penstock import errors
from penstock.fields import Cursor
from penstock.indexed import expand, is_indexed, plain_schema
from penstock.torch import arrays
from penstock.torch.batch import Batch
from penstock.torch.columns import Planned
from penstock.torch.conversions import Conversion, Values
from penstock.torch.deduplicated import Deduplicated
from penstock.torch.numbers import Column
from penstock.torch.rules import Rules, Stated


class Converter:
    """Makes batches of tensors of record batches of one schema.

    What every column becomes is decided here, from the schema and the rules, so
    that names, types and dimensions are the same in every batch:

    - numbers are views of Arrow's memory, booleans are unpacked;
    - dates, times and timestamps are int64;
    - strings and bytes are codes, by `vocab` or `hash`;
    - lists are a `Jagged`, lists of one length a tensor of two dimensions;
    - the column of an indexed batch is a `Deduplicated`, each distinct row once.

    A converter may be pickled, and be used by several threads.

    Args:
        schema: of the batches; of a stream, `stream.schema`. If it is that of plain
            batches, indexed ones are taken too, and expanded.
        rules: see `Rules`.

    Raises:
        Invalid: a column has no tensor, or a rule is missing or wrong. All of them are named.
    """

    def __init__(self, schema: pa.Schema, **rules: Unpack[Rules]) -> None:
        stated = Stated(rules)
        self._schema = schema
        self._columns: dict[str, Column] = {}
        self._entries: list[_Own | _Indexed] = []
        for field in schema:
            if is_indexed(field):
                parts = self._planned(field.type.value_type.fields, stated, field.name)
                self._entries.append(_Indexed(field.name, parts))
            else:
                self._entries += self._planned([field], stated, "")
        stated.end(plain_schema(schema))

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self._schema

    @property
    def columns(self) -> Mapping[str, Column]:
        """What each column becomes, by its name; masks and the columns of indexed ones too."""
        return MappingProxyType(self._columns)

    def __call__(
        self, batch: pa.RecordBatch, *, cursor: Cursor | list[Cursor] | None = None, step: int | None = None
    ) -> Batch:
        """Converts a batch. Its memory lives as long as a tensor of it does.

        Args:
            batch: of the converter's schema; slices are welcome.
            cursor: where the stream stands after it, kept as the batch's attribute.
            step: the number of its step, kept likewise.

        Raises:
            Invalid: a null where the rule is "error", or a value that is not in a vocabulary, or
                a batch of another schema.
            Corrupt: a null where the schema has none, or a row that refers to nothing.
        """
        if not batch.schema.equals(self._schema):
            batch = self._expanded(batch)
        found: dict[str, Any] = {}
        for entry, array in zip(self._entries, batch.columns, strict=True):
            entry.add(array, found)
        return Batch(found, rows=batch.num_rows, cursor=cursor, step=step)

    def _expanded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The plain batch of an indexed one, if that is what the converter is for."""
        if not any(map(is_indexed, self._schema)):
            plain = expand(batch)  # the batch itself, if there is nothing to expand
            if plain is not batch and set(self._schema.names) == set(plain.schema.names):
                batch = plain.select(self._schema.names)
        if not batch.schema.equals(self._schema):
            raise errors.Invalid(
                "the batch is of another schema than its converter",
                remedy="make a converter of the schema of each stream",
            )
        return batch

    def _planned(self, fields: Iterable[pa.Field], stated: Stated, indexed: str) -> list[_Own]:
        """Decides what columns become, and notes it."""
        made = []
        for field in fields:
            plan = Planned.of(field, stated)
            if plan is None:
                continue
            for column in (plan.column, *([plan.mask] if plan.mask else [])):
                if column.name in self._columns:
                    remedy = "rename one: columns=[{'column': name, 'name': other}]"
                    stated.refuse("columns", column.name, "two columns, or a mask, are called so", remedy)
                self._columns[column.name] = replace(column, indexed=indexed)
            views = isinstance(plan.conversion, Values) and plan.conversion.views
            made.append(_Own(field.name, plan.conversion, plan.mask.name if plan.mask else "", views))
        return made

    def __repr__(self) -> str:
        return f"<penstock.torch.Converter of {', '.join(self._columns)}>"


@dataclass(frozen=True)
class _Own:
    """An entry of the batch that is a column, and perhaps its mask."""

    name: str
    conversion: Conversion
    mask: str
    views: bool

    def add(self, array: pa.Array, found: dict[str, Any]) -> None:
        """Adds the tensors of an array to what was found."""
        if self.views and len(array) and not array.null_count:
            found[self.name] = from_dlpack(array)  # what most columns are: the conversion, in one step
        else:
            found[self.name] = self.conversion(array)
        if self.mask:
            found[self.mask] = arrays.validity(array)


@dataclass(frozen=True)
class _Indexed:
    """An entry of the batch that holds the columns of a staging table, or of requests."""

    name: str
    parts: list[_Own]

    def add(self, array: pa.DictionaryArray, found: dict[str, Any]) -> None:
        """Adds the distinct rows of an array to what was found."""
        rows, indices = array.dictionary, array.indices
        if indices.null_count or not _inside(indices, len(rows)):
            raise errors.Corrupt(
                f"column {self.name!r} refers to rows that are not among the {len(rows)} it came with"
            )
        columns: dict[str, Any] = {}
        for part, column in zip(self.parts, rows.flatten(), strict=True):
            part.add(column, columns)
        found[self.name] = Deduplicated(columns, arrays.view(indices), len(rows))


def _inside(indices: pa.Int32Array, length: int) -> bool:
    """Whether all indices are from 0 up to a length."""
    at = indices.to_numpy()
    return not len(at) or bool(at.min() >= 0 and at.max() < length)
