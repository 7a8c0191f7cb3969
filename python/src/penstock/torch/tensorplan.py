"""Describes the conversions of a converter, so that a server fills blocks with the same tensors."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import torch

from penstock.torch import arrays, conversions, decimals
from penstock.torch.codes import Buckets, Lookup
from penstock.torch.conversions import Conversion, FixedLists, Lists, Numeric
from penstock.torch.packs import Pack
from penstock.torch.rules import NullRule

# The words for source types that differ from pyarrow's names.
_SOURCES = {"halffloat": "float16", "float": "float32", "double": "float64"}


@dataclass(frozen=True)
class PlannedColumn:
    """The conversion of one column of a schema.

    Attributes:
        entry: the indexed column that contains it; "" for a plain column.
        field: the column.
        conversion: makes the tensor from an array.
        dtype: the type of the tensor's elements.
        mask: the name of its mask; "" if there is none.
    """

    entry: str
    field: pa.Field
    conversion: Conversion
    dtype: torch.dtype
    mask: str


@dataclass
class TensorPlan:
    """A plan in the form that servers read.

    Attributes:
        columns: the columns, as JSON values.
        packs: the packs, as JSON values.
        vocabularies: the values and codes of each vocabulary.
    """

    columns: list[dict[str, Any]] = field(default_factory=list)
    packs: list[dict[str, Any]] = field(default_factory=list)
    vocabularies: list[pa.RecordBatch] = field(default_factory=list)

    @classmethod
    def of(cls, columns: Iterable[PlannedColumn], packs: Iterable[Pack]) -> TensorPlan:
        """Describes columns and packs."""
        plan = cls()
        for pack in packs:
            described = {"name": pack.column.name, "entry": pack.column.indexed, "columns": list(pack.parts)}
            plan.packs.append(described)
        for column in columns:
            plan._add(column)
        return plan

    def text(self) -> str:
        """The plan with its vocabularies, as a client passes it to a server (docs/spec/local.md)."""
        vocabularies = [_vocabulary(*table.columns) for table in self.vocabularies]
        plan = {"columns": self.columns, "packs": self.packs}
        return json.dumps({"plan": plan, "vocabularies": vocabularies})

    def _add(self, column: PlannedColumn) -> None:
        conversion, kind = column.conversion, column.field.type
        lists = isinstance(conversion, (FixedLists, Lists))
        described: dict[str, Any] = {
            "entry": column.entry,
            "name": column.field.name,
            "form": _form(column),
            **_source(kind.value_type if lists else kind),
            **self._numeric(conversion.flat.numeric),
            "dtype": str(column.dtype).removeprefix("torch."),
            "mask": bool(column.mask),
        }
        elements = _nulls(conversion.flat.rule, conversion.flat.blank, column.dtype)
        if lists:
            described |= {f"element_{key}": value for key, value in elements.items()}
        else:
            described |= elements
        if isinstance(conversion, FixedLists):
            described["width"] = conversion.width
            described |= _nulls(conversion.rule, conversion.blank, column.dtype)
        elif isinstance(conversion, Lists):
            word = _word(conversion.rule)
            described["nulls"] = "empty" if word == "fill" else word
        self.columns.append(described)

    def _numeric(self, numeric: Numeric) -> dict[str, Any]:
        """The conversion of values; dictionaries and extension types are part of the source."""
        while isinstance(numeric, partial) and numeric.func in (conversions.decoded, conversions.stored):
            numeric = numeric.args[0]
        if isinstance(numeric, Buckets):
            return {"conversion": "hash", "buckets": numeric.count}
        if isinstance(numeric, Lookup):
            self.vocabularies.append(numeric.table())
            found: dict[str, Any] = {"conversion": "lookup", "vocabulary": len(self.vocabularies) - 1}
            return found if numeric.unknown is None else found | {"unknown": numeric.unknown}
        if isinstance(numeric, partial) and numeric.func is decimals.nearest:
            return {"conversion": f"nearest{numeric.args[0].bit_width}"}
        words: dict[Numeric, str] = {
            conversions.same: "same",
            conversions.ticks: "ticks",
            conversions.unscaled: "unscaled",
        }
        return {"conversion": words[numeric]}


def _form(column: PlannedColumn) -> str:
    if isinstance(column.conversion, FixedLists):
        return "fixed_lists"
    if isinstance(column.conversion, Lists):
        return "large_lists" if pa.types.is_large_list(column.field.type) else "lists"
    return "values"


def _source(kind: pa.DataType) -> dict[str, Any]:
    """The type of values, and whether they are in a dictionary."""
    dictionary = False
    while True:
        if pa.types.is_dictionary(kind):
            kind, dictionary = kind.value_type, True
        elif isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        else:
            break
    # A type's name ends where its parameters begin.
    word = str(kind).partition("[")[0].partition("(")[0]
    if pa.types.is_fixed_size_binary(kind):
        word = "fixed_size_binary"
    return {"source": _SOURCES.get(word, word), "dictionary": dictionary}


def _word(rule: NullRule | None) -> str:
    if rule is None:
        return "corrupt"
    return "error" if rule.word == "error" else "fill"


def _nulls(rule: NullRule | None, blank: pa.Scalar, dtype: torch.dtype) -> dict[str, Any]:
    """What a null becomes."""
    word = _word(rule)
    if word != "fill":
        return {"nulls": word}
    tensor = arrays.view(pa.array([blank.as_py()], blank.type)).to(dtype)
    content = tensor.view(torch.uint8).numpy().tobytes()
    return {"nulls": word, "fill": base64.b64encode(content).decode()}


def _vocabulary(values: pa.Array, codes: pa.Array) -> dict[str, Any]:
    """A vocabulary as a JSON value."""
    kind = values.type
    if pa.types.is_integer(kind):
        named: dict[str, Any] = {"integers": values.to_pylist()}
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        named = {"strings": values.to_pylist()}
    else:
        named = {"bytes": [base64.b64encode(value).decode() for value in values.to_pylist()]}
    return {**named, "codes": codes.to_pylist()}
