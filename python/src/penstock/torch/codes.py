"""Encodes strings as whole numbers that mean the same in every batch, run and process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.torch.arrays import is_valid

# A 31-bit hash cannot fill more buckets.
MAX_BUCKETS = 2**31 - 1

# For every batch, Arrow's lookup takes the time to hash the whole vocabulary. If the vocabulary has more than
# this many values per value to look up, the batch's distinct values are looked up in a dict instead.
_LARGE = 2


class Vocabulary:
    """The values that a column can have, and their codes.

    Args:
        values: the values, encoded as their index; or a mapping from value to code.
        unknown: the code of all other values. Without it, other values are an error.

    Attributes:
        codes: the codes by value.
        unknown: the code of all other values, None if there is none.
        size: one more than the largest code: the number of rows for an embedding table.

    Raises:
        ValueError: a value is duplicated, or a code is negative.
    """

    def __init__(self, values: Iterable[Any] | Mapping[Any, int], *, unknown: int | None = None) -> None:
        if isinstance(values, Mapping):
            self.codes = dict(values)
        else:
            listed = list(values)
            self.codes = {value: code for code, value in enumerate(listed)}
            if len(self.codes) != len(listed):
                raise ValueError("a vocabulary contains a value twice")
        given = [*self.codes.values(), *([] if unknown is None else [unknown])]
        for code in given:
            if isinstance(code, bool) or not isinstance(code, int) or not 0 <= code < 2**63:
                raise ValueError(
                    f"a vocabulary contains the code {code!r}, which is not a whole number of at least 0"
                )
        self.unknown = unknown
        self.size = max(given, default=-1) + 1

    def __repr__(self) -> str:
        unknown = "" if self.unknown is None else f", unknown={self.unknown}"
        return f"Vocabulary({len(self.codes)} values{unknown})"


class Lookup:
    """Codes by a vocabulary, for values of one type.

    Attributes:
        unknown: the code of values that are not in the vocabulary; None if there is none.

    Raises:
        pa.ArrowException: a value of the vocabulary is not of the type.
    """

    def __init__(self, vocabulary: Vocabulary, kind: pa.DataType) -> None:
        self._vocabulary = vocabulary
        # Arrow's lookup does not support views.
        self._kind = pa.large_string() if pa.types.is_string_view(kind) else kind
        self._values = pa.array(list(vocabulary.codes), self._kind)
        self._codes = pa.array(list(vocabulary.codes.values()), pa.int64())
        self.unknown = vocabulary.unknown

    def table(self) -> pa.RecordBatch:
        """The values of the vocabulary and their codes."""
        return pa.RecordBatch.from_arrays([self._values, self._codes], ["value", "code"])

    def __call__(self, array: pa.Array) -> pa.Array:
        """Returns the codes as int64; nulls stay null.

        Raises:
            LookupError: a value is not in the vocabulary, and there is no code for unknown values.
        """
        array = array.cast(self._kind)
        if len(self._values) > _LARGE * len(array):
            encoded = array.dictionary_encode()
            return self._known(array, self._of_few(encoded.dictionary).take(encoded.indices))
        places = pc.index_in(array, value_set=self._values, skip_nulls=True)
        return self._known(array, self._codes.take(places))

    def _of_few(self, values: pa.Array) -> pa.Array:
        """The codes of distinct values, for few values compared to the vocabulary."""
        return pa.array(map(self._vocabulary.codes.get, values.to_pylist()), pa.int64())

    def _known(self, array: pa.Array, codes: pa.Array) -> pa.Array:
        """Fills in the code for unknown values."""
        if codes.null_count == array.null_count:
            return codes
        strange = pc.and_(array.is_valid(), codes.is_null())
        if self.unknown is None:
            some = pc.unique(array.filter(strange))[:3].to_pylist()
            raise LookupError(", ".join(map(repr, some)))
        return pc.if_else(strange, pa.scalar(self.unknown, pa.int64()), codes)


class Buckets:
    """Codes by hashing, as `bucket` computes them.

    Attributes:
        count: the number of buckets.
    """

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, array: pa.Array) -> pa.Array:
        """Returns the codes as int64; nulls stay null."""
        # The value under a null is hashed too, but masked.
        return pa.array(bucket(array, self.count), mask=~is_valid(array) if array.null_count else None)


def bucket(values: pa.Array, count: int) -> npt.NDArray[np.int64]:
    """Hashes integers, strings or bytes, without nulls, into `count` buckets.

    The result is that of Iceberg's transform `bucket[count]`, and so of Spark and PyIceberg: the 32-bit Murmur3
    hash of the bytes of a string, or of the eight bytes of an integer, without its sign bit, modulo the count.

    The time is proportional to the length of the longest value.
    """
    kind = values.type
    if pa.types.is_integer(kind):
        hashed = _hash_integers(values.cast(pa.int64()))
    else:
        if pa.types.is_string_view(kind) or pa.types.is_fixed_size_binary(kind):
            values = values.cast(pa.large_string() if pa.types.is_string_view(kind) else pa.large_binary())
        hashed = _hash_bytes(values)
    return ((hashed & np.uint32(0x7FFFFFFF)) % np.uint32(count)).astype(np.int64)


Words = npt.NDArray[np.uint32]


def _hash_integers(values: pa.Array) -> Words:
    """Murmur3 of the eight bytes of each int64, in little-endian order."""
    if len(values) == 0:
        return np.empty(0, np.uint32)
    words = np.frombuffer(values.buffers()[1], "<u4")[2 * values.offset :][: 2 * len(values)]
    hashed = np.zeros(len(values), np.uint32)
    for half in (words[0::2], words[1::2]):
        hashed = _mix(hashed, half)
    return _finish(hashed, np.uint32(8))


def _hash_bytes(values: pa.Array) -> Words:
    """Murmur3 of each string or byte string, four bytes of all values at a time."""
    if len(values) == 0:
        return np.empty(0, np.uint32)
    _, offsets, content = values.buffers()
    large = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    wide: npt.NDArray[Any] = np.frombuffer(offsets, np.int64 if large else np.int32)
    ends = wide[values.offset :][: len(values) + 1]
    # Padded by four bytes, so that a word can be read at any byte.
    first, last = int(ends[0]), int(ends[-1])
    padded = np.zeros(last - first + 4, np.uint8)
    if content is not None:
        padded[:-4] = np.frombuffer(content, np.uint8)[first:last]
    lengths = np.diff(ends)
    starts, blocks = ends[:-1] - first, lengths >> 2
    words = np.ndarray((len(padded) - 3,), np.dtype("<u4"), padded, strides=(1,))
    hashed = np.zeros(len(values), np.uint32)
    least, most = int(blocks.min()), int(blocks.max())
    for block in range(least):
        hashed = _mix(hashed, _at(words, starts + 4 * block))
    going = np.arange(len(values)) if least < most else starts[:0]
    for block in range(least, most):
        going = going[blocks[going] > block]  # only the longer values
        hashed[going] = _mix(hashed[going], _at(words, starts[going] + 4 * block))
    rest = (lengths & 3).astype(np.uint32) << np.uint32(3)
    tail = _at(words, starts + (blocks << 2)) & ((np.uint32(1) << rest) - np.uint32(1))
    hashed = hashed ^ _scramble(tail)  # 0 without a tail, which changes nothing
    return _finish(hashed, lengths.astype(np.uint32))


def _at(words: Words, places: npt.NDArray[Any]) -> Words:
    """The words at these positions. numpy's take first copies the whole unaligned array, so it suits short ones."""
    found: Words = words.take(places) if len(words) <= 8 * len(places) else words[places]
    return found


def _mix(hashed: Words, words: Words) -> Words:
    """One round of Murmur3 (x86, 32 bits)."""
    hashed = _rotated(hashed ^ _scramble(words), 13)
    return hashed * np.uint32(5) + np.uint32(0xE6546B64)


def _scramble(words: Words) -> Words:
    return _rotated(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)


def _rotated(words: Words, by: int) -> Words:
    return (words << np.uint32(by)) | (words >> np.uint32(32 - by))


def _finish(hashed: Words, lengths: Words | np.uint32) -> Words:
    hashed = hashed ^ lengths
    hashed = (hashed ^ (hashed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashed = (hashed ^ (hashed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return hashed ^ (hashed >> np.uint32(16))
