"""Converts record batches to tensors, by a schema and rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Unpack

import pyarrow as pa
import torch
from torch.utils.dlpack import from_dlpack

from penstock import errors
from penstock.fields import Cursor
from penstock.indexed import expand, is_indexed, plain_schema
from penstock.signatures import lists
from penstock.torch import arrays, packs
from penstock.torch.batch import Batch
from penstock.torch.columns import ColumnPlan
from penstock.torch.conversions import Conversion, Values
from penstock.torch.deduplicated import Deduplicated
from penstock.torch.numbers import Column
from penstock.torch.packs import Pack
from penstock.torch.rules import Rules, RuleSet
from penstock.torch.tensorplan import PlannedColumn, TensorPlan


class Converter:
    """Converts record batches of one schema to batches of tensors.

    The conversion of each column is decided once, from the schema and the rules, so that names, types and
    dimensions are the same in every batch:

    - numbers are views of Arrow's memory, booleans are unpacked;
    - dates, times and timestamps are int64;
    - strings and bytes are codes, from `vocab` or `hash`;
    - columns are cast by `cast`, and packed into matrices by `pack`;
    - lists are a `Jagged`, fixed-size lists a two-dimensional tensor;
    - an indexed column is a `Deduplicated`, with each distinct row once.

    A converter can be pickled, and is safe for threads.

    Args:
        schema: the schema of the batches; for a stream, `stream.schema`. With the schema of plain batches, indexed
            batches are accepted too, and expanded.
        rules: see `Rules`.

    Raises:
        Invalid: a column cannot be converted, or a rule is missing or wrong. The error lists all mistakes.
    """

    @lists(Rules)
    def __init__(self, schema: pa.Schema, **rules: Unpack[Rules]) -> None:
        rule_set = RuleSet(rules)
        self._schema = schema
        self._columns: dict[str, Column] = {}
        self._entries: list[_PlainEntry | _IndexedEntry] = []
        for field in schema:
            if is_indexed(field):
                parts = self._plan_columns(field.type.value_type.fields, rule_set, field.name)
                self._entries.append(_IndexedEntry(field.name, parts, []))
            else:
                self._entries += self._plan_columns([field], rule_set, "")
        self._packs = self._plan_packs(rule_set, plain_schema(schema).names)
        rule_set.end(plain_schema(schema))

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self._schema

    @property
    def columns(self) -> Mapping[str, Column]:
        """The tensor of each column, by name, including masks and the columns of indexed entries."""
        return MappingProxyType(self._columns)

    def __call__(
        self,
        batch: pa.RecordBatch,
        *,
        cursor: Cursor | list[Cursor] | bytes | None = None,
        step: int | None = None,
    ) -> Batch:
        """Converts a batch. Its memory stays alive while any of its tensors does.

        Args:
            batch: a batch of the converter's schema; slices are supported.
            cursor: the stream's position after it, possibly as text, to be set as the batch's attribute.
            step: the number of its step, likewise.

        Raises:
            Invalid: a null with the rule "error", a value that is not in a vocabulary, or a batch of a different
                schema.
            Corrupt: a null in a column whose schema excludes nulls, or an index outside of its dictionary.
        """
        if not batch.schema.equals(self._schema):
            batch = self._expanded(batch)
        found: dict[str, Any] = {}
        for entry, array in zip(self._entries, batch.columns, strict=True):
            entry.add(array, found)
        for pack in self._packs:
            pack.replace(found)
        return Batch(found, rows=batch.num_rows, cursor=cursor, step=step)

    def tensor_plan(self) -> TensorPlan:
        """The conversions in the form in which servers read them."""
        planned = []
        for entry, field in zip(self._entries, self._schema, strict=True):
            indexed = isinstance(entry, _IndexedEntry)
            parts = entry.parts if isinstance(entry, _IndexedEntry) else [entry]
            fields = field.type.value_type.fields if indexed else [field]
            for part, part_field in zip(parts, fields, strict=True):
                planned.append(
                    PlannedColumn(
                        field.name if indexed else "", part_field, part.conversion, part.dtype, part.mask
                    )
                )
        every = [*self._packs]
        for entry in self._entries:
            every += entry.packs if isinstance(entry, _IndexedEntry) else []
        return TensorPlan.of(planned, every)

    def _expanded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Expands an indexed batch, if the converter is for plain batches."""
        if not any(map(is_indexed, self._schema)):
            plain = expand(batch)  # the batch itself, if there is nothing to expand
            if plain is not batch and set(self._schema.names) == set(plain.schema.names):
                batch = plain.select(self._schema.names)
        if not batch.schema.equals(self._schema):
            raise errors.Invalid(
                "the batch has a different schema than its converter",
                remedy="create a converter for the schema of each stream",
            )
        return batch

    def _plan_packs(self, rule_set: RuleSet, known: list[str]) -> list[Pack]:
        """Plans packs, records their columns, and returns the packs of plain columns."""
        plain = [entry for entry in self._entries if isinstance(entry, _PlainEntry)]
        indexed = {entry.name: entry for entry in self._entries if isinstance(entry, _IndexedEntry)}
        parts = [*plain, *(part for entry in indexed.values() for part in entry.parts)]
        found = packs.planned(rule_set, self._columns, [part.mask for part in parts if part.mask], known)
        for pack in found:
            for name in pack.parts:
                del self._columns[name]
        for pack in found:
            self._columns[pack.column.name] = pack.column
            if pack.column.indexed:
                indexed[pack.column.indexed].packs.append(pack)
        return [pack for pack in found if not pack.column.indexed]

    def _plan_columns(self, fields: Iterable[pa.Field], rule_set: RuleSet, indexed: str) -> list[_PlainEntry]:
        """Plans the conversion of columns, and records it."""
        made = []
        for field in fields:
            plan = ColumnPlan.of(field, rule_set)
            if plan is None:
                continue
            for column in (plan.column, *([plan.mask] if plan.mask else [])):
                if column.name in self._columns:
                    remedy = "rename one: columns=[{'column': name, 'name': other}]"
                    rule_set.refuse(
                        "columns", column.name, "two columns, or a column and a mask, have this name", remedy
                    )
                self._columns[column.name] = replace(column, indexed=indexed)
            views = isinstance(plan.conversion, Values) and plan.conversion.views
            mask = plan.mask.name if plan.mask else ""
            made.append(_PlainEntry(field.name, plan.conversion, plan.column.dtype, mask, views))
        return made

    def __repr__(self) -> str:
        return f"<penstock.torch.Converter of {', '.join(self._columns)}>"


@dataclass(frozen=True)
class _PlainEntry:
    """An entry of the batch that is a column, possibly with a mask."""

    name: str
    conversion: Conversion
    dtype: torch.dtype
    mask: str
    views: bool

    def add(self, array: pa.Array, found: dict[str, Any]) -> None:
        """Adds the tensors of an array to `found`."""
        if self.views and len(array) and not array.null_count:
            found[self.name] = from_dlpack(array)  # the most common case, in one step
        else:
            found[self.name] = self.conversion(array)
        if self.mask:
            found[self.mask] = arrays.validity(array)


@dataclass(frozen=True)
class _IndexedEntry:
    """An entry of the batch that contains the columns of a staging table, or of requests."""

    name: str
    parts: list[_PlainEntry]
    packs: list[Pack]

    def add(self, array: pa.DictionaryArray, found: dict[str, Any]) -> None:
        """Adds the distinct rows of an array to `found`."""
        rows, indices = array.dictionary, array.indices
        if indices.null_count or not _inside(indices, len(rows)):
            raise errors.Corrupt(
                f"column {self.name!r} refers to rows that are not among the {len(rows)} it came with"
            )
        columns: dict[str, Any] = {}
        for part, column in zip(self.parts, rows.flatten(), strict=True):
            part.add(column, columns)
        for pack in self.packs:
            pack.replace(columns)
        found[self.name] = Deduplicated(columns, arrays.view(indices), len(rows))


def _inside(indices: pa.Int32Array, length: int) -> bool:
    """Whether all indices are at least 0 and less than a length."""
    at = indices.to_numpy()
    return not len(at) or bool(at.min() >= 0 and at.max() < length)
