"""Conversions of Arrow arrays to tensors, one for each form of column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from penstock import errors
from penstock.torch import arrays, casts
from penstock.torch.jagged import Jagged
from penstock.torch.rules import NullRule

# Converts an array to a type that a tensor can view; nulls stay null.
Numeric = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True)
class Flat:
    """Converts an array, with one value per row or element, to numbers without nulls.

    Attributes:
        name: the column's name in errors; "tags[]" for elements.
        numeric: converts the array to a type that a tensor can view; nulls stay null.
        rule: the rule for nulls; None if there must be none.
        blank: replaces nulls.
        cast: the type to which the numbers are cast; None if they are not.
    """

    name: str
    numeric: Numeric
    rule: NullRule | None
    blank: pa.Scalar
    cast: torch.dtype | None = None

    def tensor(self, numbers: pa.Array) -> torch.Tensor:
        """A tensor of numbers without nulls."""
        tensor = arrays.view(numbers)
        if self.cast is None:
            return tensor
        try:
            return casts.cast(tensor, self.cast)
        except ValueError as e:
            word = str(self.cast).removeprefix("torch.")
            raise errors.Invalid(
                f"column {self.name!r} contains a number that {word} cannot hold",
                remedy="leave the column out of `cast`, or cast it to another dtype",
            ) from e

    def numbers(self, array: pa.Array) -> pa.Array:
        """Converts an array to numbers or booleans without nulls."""
        if array.null_count:  # before values are looked up, as in blocks
            refuse_null(self.name, self.rule)
        array = self.coded(array)
        if array.null_count == 0:
            return array
        refuse_null(self.name, self.rule)
        return pc.fill_null(array, self.blank)

    def coded(self, array: pa.Array) -> pa.Array:
        """Converts an array to numbers or booleans; nulls stay null."""
        if self.numeric is same:
            return array
        try:
            return self.numeric(array)
        except LookupError as e:
            raise errors.Invalid(
                f"column {self.name!r} contains values that are not in its vocabulary: {e}",
                remedy="add them, or set a code for unknown values: Vocabulary(values, unknown=code)",
            ) from e


@dataclass(frozen=True)
class Values:
    """Converts a column with one value per row to a tensor [rows]."""

    flat: Flat

    @property
    def views(self) -> bool:
        """Whether values are already numbers, which a tensor can view if there are no nulls."""
        if self.flat.cast is not None or pa.types.is_boolean(self.flat.blank.type):
            return False
        return self.flat.numeric is same

    def __call__(self, array: pa.Array) -> torch.Tensor:
        """Converts an array to a tensor."""
        return self.flat.tensor(self.flat.numbers(array))


@dataclass(frozen=True)
class FixedLists:
    """Converts a column of lists of one length to a tensor [rows, width].

    Attributes:
        flat: the conversion of the elements.
        rule: of rows that are null; None if there must be none.
        blank: the elements of such rows.
    """

    flat: Flat
    width: int
    rule: NullRule | None
    blank: pa.Scalar

    def __call__(self, array: pa.FixedSizeListArray) -> torch.Tensor:
        """Converts an array to a tensor."""
        elements = array.values.slice(array.offset * self.width, len(array) * self.width)
        if array.null_count:
            refuse_null(self.flat.name.removesuffix("[]"), self.rule)
            there = np.repeat(arrays.is_valid(array), self.width)
            # Values under a null row are undefined: they are neither encoded nor refused.
            hidden = arrays.masked(elements, there)
            known = pc.if_else(pa.array(there), self.flat.coded(hidden), self.blank)
            elements = replace(self.flat, numeric=same).numbers(known)
        else:
            elements = self.flat.numbers(elements)
        return self.flat.tensor(elements).reshape(len(array), self.width)


@dataclass(frozen=True)
class Lists:
    """Converts a column of lists to a `Jagged`.

    Attributes:
        flat: the conversion of the elements.
        rule: the rule for null lists, which have no elements; None if there must be none.
    """

    flat: Flat
    rule: NullRule | None

    def __call__(self, array: pa.ListArray | pa.LargeListArray) -> Jagged:
        """Converts an array of lists."""
        first, last = arrays.ends(array)
        if array.null_count:
            refuse_null(self.flat.name.removesuffix("[]"), self.rule)
        if array.null_count and _held(array) != last - first:
            # Null lists have elements in memory: flatten skips them.
            elements, offsets = _flattened(array), _offsets(array)
        else:
            elements, offsets = array.values.slice(first, last - first), arrays.view(array.offsets)
            offsets = offsets - first if first else offsets  # the offsets of a slice may start anywhere
        return Jagged(self.flat.tensor(self.flat.numbers(elements)), offsets)


def refuse_null(name: str, rule: NullRule | None) -> None:
    """Raises if a null that was found is not allowed.

    Raises:
        Corrupt: the schema excludes nulls.
        Invalid: the rule is "error".
    """
    if rule is None:
        raise errors.Corrupt(f"column {name!r} contains a null, which its schema excludes")
    if rule.word == "error":
        raise errors.Invalid(
            f"column {name!r} contains a null",
            remedy=f"say what it becomes: nulls={{{name!r}: value}}, or {{'fill': value}} for text; or set a"
            " default for rows without a match on the server",
        )


def _held(array: pa.Array) -> int:
    """The total number of elements in lists that are not null."""
    return int(pc.sum(pc.list_value_length(array), min_count=0).as_py())


def _flattened(array: pa.Array) -> pa.Array:
    """The elements of lists that are not null."""
    values = array.values
    while isinstance(values, pa.ExtensionArray):  # Arrow concatenates views in them to wrong values
        values = values.storage
    dictionary = None
    if pa.types.is_dictionary(
        values.type
    ):  # Arrow would concatenate dictionaries, which it cannot do for all types
        values, dictionary = values.indices, values.dictionary
    kind = pa.large_list if pa.types.is_large_list(array.type) else pa.list_
    lists = pa.Array.from_buffers(
        kind(values.type), len(array), array.buffers()[:2], offset=array.offset, children=[values]
    )
    flat = lists.flatten()
    return flat if dictionary is None else pa.DictionaryArray.from_arrays(flat, dictionary)


def _offsets(array: pa.Array) -> torch.Tensor:
    """The offsets of lists if some are null: null lists have no elements."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
    out = np.zeros(len(array) + 1, lengths.dtype)
    np.cumsum(lengths, out=out[1:])
    return torch.from_numpy(out)


Conversion = Values | FixedLists | Lists


def same(array: pa.Array) -> pa.Array:
    """Returns numbers unchanged."""
    return array


def decoded(numeric: Numeric, array: pa.Array) -> pa.Array:
    """Converts a dictionary array: each dictionary value once, if the dictionary is not longer than the array."""
    if not pa.types.is_dictionary(array.type):
        return numeric(array)
    if len(array.dictionary) <= len(array):
        try:
            return numeric(array.dictionary).take(array.indices)
        except LookupError:
            pass  # the value that is not in the vocabulary may be one that no row has
    values = array.dictionary
    if pa.types.is_string_view(values.type):  # Arrow cannot take views
        values = values.cast(pa.large_string())
    return numeric(values.take(array.indices))


def stored(numeric: Numeric, array: pa.Array) -> pa.Array:
    """Converts an array of an extension type by the values that it stores."""
    return numeric(array.storage if isinstance(array, pa.ExtensionArray) else array)


def ticks(array: pa.Array) -> pa.Array:
    """Converts times to int64 in their own unit; a view for 64-bit types."""
    return array.view(pa.int64()) if array.type.bit_width == 64 else array.view(pa.int32()).cast(pa.int64())


def unscaled(array: pa.Array) -> pa.Array:
    """Converts decimals of at most 18 digits to their unscaled int64."""
    kind = array.type
    wide = array.cast(pa.decimal128(38, kind.scale))
    if len(wide) == 0:
        return pa.array([], pa.int64())
    halves = np.frombuffer(wide.buffers()[1], "<i8")[2 * wide.offset :][: 2 * len(wide)]
    # A number of that size fits in the lower half of the sixteen bytes.
    return pa.array(np.ascontiguousarray(halves[0::2]), mask=~arrays.is_valid(wide))
