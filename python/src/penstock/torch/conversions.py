"""How an Arrow array becomes a tensor, for each form that a column can have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from penstock import errors
from penstock.torch import arrays
from penstock.torch.jagged import Jagged
from penstock.torch.rules import NullRule

# Makes an array of a type that a tensor can view, with the nulls of the one it is given.
Numeric = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True)
class Flat:
    """How an array, one value for each row or element, becomes numbers without nulls.

    Attributes:
        name: of the column in errors; "tags[]" for elements.
        numeric: makes an array of a type that a tensor can view, with the nulls of the given one.
        rule: of nulls; None if there must be none.
        blank: what stands in the place of a null.
    """

    name: str
    numeric: Numeric
    rule: NullRule | None
    blank: pa.Scalar

    def numbers(self, array: pa.Array) -> pa.Array:
        """An array of numbers or booleans without nulls."""
        array = self.coded(array)
        if array.null_count == 0:
            return array
        refuse_null(self.name, self.rule)
        return pc.fill_null(array, self.blank)

    def coded(self, array: pa.Array) -> pa.Array:
        """An array of numbers or booleans, with the nulls of the given one."""
        if self.numeric is same:
            return array
        try:
            return self.numeric(array)
        except LookupError as e:
            raise errors.Invalid(
                f"column {self.name!r} holds values that its vocabulary does not: {e}",
                remedy="add them, or give the others a code: Vocabulary(values, unknown=code)",
            ) from e


@dataclass(frozen=True)
class Values:
    """Converts a column of one value in each row to a tensor [rows]."""

    flat: Flat

    @property
    def views(self) -> bool:
        """Whether values are numbers already, which a tensor can view where none is null."""
        return self.flat.numeric is same and not pa.types.is_boolean(self.flat.blank.type)

    def __call__(self, array: pa.Array) -> torch.Tensor:
        """The tensor of an array."""
        return arrays.view(self.flat.numbers(array))


@dataclass(frozen=True)
class FixedLists:
    """Converts a column of lists of one length to a tensor [rows, width].

    Attributes:
        flat: of the elements.
        rule: of rows that are null; None if there must be none.
        blank: the elements of such rows.
    """

    flat: Flat
    width: int
    rule: NullRule | None
    blank: pa.Scalar

    def __call__(self, array: pa.FixedSizeListArray) -> torch.Tensor:
        """The tensor of an array."""
        elements = array.values.slice(array.offset * self.width, len(array) * self.width)
        if array.null_count:
            refuse_null(self.flat.name.removesuffix("[]"), self.rule)
            there = pa.array(np.repeat(arrays.is_valid(array), self.width))
            # What lies under a null row means nothing: it is neither looked up nor refused.
            hidden = pc.if_else(there, elements, pa.scalar(None, elements.type))
            known = pc.if_else(there, self.flat.coded(hidden), self.blank)
            elements = replace(self.flat, numeric=same).numbers(known)
        else:
            elements = self.flat.numbers(elements)
        return arrays.view(elements).reshape(len(array), self.width)


@dataclass(frozen=True)
class Lists:
    """Converts a column of lists to a `Jagged`.

    Attributes:
        flat: of the elements.
        rule: of lists that are null, which have no elements; None if there must be none.
    """

    flat: Flat
    rule: NullRule | None

    def __call__(self, array: pa.ListArray | pa.LargeListArray) -> Jagged:
        """The lists of an array."""
        first, last = arrays.ends(array)
        if array.null_count:
            refuse_null(self.flat.name.removesuffix("[]"), self.rule)
        if array.null_count and _held(array) != last - first:
            # Null lists have elements in memory: flatten leaves them out.
            elements, offsets = array.flatten(), _offsets(array)
        else:
            elements, offsets = array.values.slice(first, last - first), arrays.view(array.offsets)
            offsets = offsets - first if first else offsets  # of a slice, they begin anywhere
        return Jagged(arrays.view(self.flat.numbers(elements)), offsets)


def refuse_null(name: str, rule: NullRule | None) -> None:
    """Raises if a null that was met must not be there.

    Raises:
        Corrupt: the schema says that there is none.
        Invalid: the rule says so.
    """
    if rule is None:
        raise errors.Corrupt(f"column {name!r} holds a null, which its schema excludes")
    if rule.word == "error":
        raise errors.Invalid(
            f"column {name!r} holds a null",
            remedy=f"say what it becomes: nulls={{{name!r}: value}}, or give it a default on the server",
        )


def _held(array: pa.Array) -> int:
    """How many elements the lists have that are not null."""
    return int(pc.sum(pc.list_value_length(array), min_count=0).as_py())


def _offsets(array: pa.Array) -> torch.Tensor:
    """The offsets of lists of which some are null: these have no elements."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
    out = np.zeros(len(array) + 1, lengths.dtype)
    np.cumsum(lengths, out=out[1:])
    return torch.from_numpy(out)


Conversion = Values | FixedLists | Lists


def same(array: pa.Array) -> pa.Array:
    """Numbers as they are."""
    return array


def decoded(numeric: Numeric, array: pa.Array) -> pa.Array:
    """The numbers of what a dictionary stands for."""
    return numeric(array.dictionary_decode() if pa.types.is_dictionary(array.type) else array)


def ticks(array: pa.Array) -> pa.Array:
    """What times count, as int64; of those of 64 bits, a view."""
    return array.view(pa.int64()) if array.type.bit_width == 64 else array.view(pa.int32()).cast(pa.int64())


def unscaled(array: pa.Array) -> pa.Array:
    """The digits of decimals of at most 18 digits as one int64."""
    kind = array.type
    wide = array.cast(pa.decimal128(38, kind.scale))
    if len(wide) == 0:
        return pa.array([], pa.int64())
    halves = np.frombuffer(wide.buffers()[1], "<i8")[2 * wide.offset :][: 2 * len(wide)]
    # The lower half of sixteen bytes is all of a number of that size.
    return pa.array(np.ascontiguousarray(halves[0::2]), mask=~arrays.is_valid(wide))
