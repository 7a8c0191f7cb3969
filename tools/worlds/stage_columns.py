"""Random columns in the forms that Arrow programs send, valid but unusual.

Values lie under nulls at every depth, slices begin in the middle of buffers, lists have items that no row
refers to, and dictionaries have nulls, repeated values and values that no row has.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

_NAN, _INFINITY = float("nan"), float("inf")
_FIRST = datetime.date(2026, 1, 1)
_START = datetime.datetime(1969, 12, 31, 12)
_TIMES = [
    _START + datetime.timedelta(days=d, hours=h, microseconds=h) for d in (-900, 0, 1, 400) for h in (0, 13)
]


@dataclass(frozen=True)
class Kind:
    """A type of columns.

    Attributes:
        name: as Iceberg spells it; see iceberg_types.py.
        arrow: the form in which tables have it.
    """

    name: str
    arrow: pa.DataType


_FLAT: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "int": (pa.int32(), [0, -1, 1, 2**31 - 1, -(2**31), 7, 300]),
    "long": (pa.int64(), [0, 2**63 - 1, -(2**63), 42, -7, 1]),
    "float": (pa.float32(), [_NAN, -0.0, 0.0, _INFINITY, -_INFINITY, 1.5, -2.25]),
    "double": (pa.float64(), [_NAN, -0.0, 0.0, 1e300, -1e-300, _INFINITY]),
    "decimal(9,2)": (pa.decimal128(9, 2), [decimal.Decimal(d) for d in ("-1.50", "0.00", "9999999.99")]),
    "decimal(38,4)": (pa.decimal128(38, 4), [decimal.Decimal(d) for d in ("-1e33", "0.0001", "17")]),
    "date": (pa.date32(), [_FIRST + datetime.timedelta(days=d) for d in (-30000, 0, 1, 2, 40)]),
    "time": (pa.time64("us"), [datetime.time(0), datetime.time(23, 59, 59, 999999), datetime.time(12)]),
    "timestamp": (pa.timestamp("us"), _TIMES),
    "timestamptz": (pa.timestamp("us", "UTC"), [t.replace(tzinfo=datetime.UTC) for t in _TIMES]),
    "string": (pa.string(), ["", "a", "é", "😀x", "\uffff", "\U0010ffff" * 20, "long" * 40, "\x00b", "twelve bytes"]),
    "binary": (pa.binary(), [b"", b"\xff" * 40, b"\x00", b"\xff\x00a"]),
    "uuid": (pa.uuid(), [bytes([i]) * 16 for i in (0, 1, 127, 128, 255)]),
    "fixed(4)": (pa.binary(4), [b"\x00" * 4, b"\xff" * 4, b"abcd"]),
}  # fmt: skip
FLAT = {name: Kind(name, of) for name, (of, _) in _FLAT.items()}
POOLS = dict(_FLAT.values())
NUMBERS = ("int", "long", "float", "double")
_KEYS = ("string", "int", "long", "date")  # of maps


def draw_kind(draw: np.random.Generator, depth: int = 3) -> Kind:
    """A random type, nested to a depth."""
    nested = str(draw.choice(["", "list", "map", "struct"], p=[0.64, 0.14, 0.06, 0.16])) if depth else ""
    if nested == "list":
        of = draw_kind(draw, depth - 1)
        return Kind(f"list<{of.name}>", pa.list_(of.arrow))
    if nested == "map":
        key, item = FLAT[str(draw.choice(_KEYS))], draw_kind(draw, depth - 1)
        return Kind(f"map<{key.name},{item.name}>", pa.map_(key.arrow, item.arrow))
    if nested == "struct":
        fields = [(name, draw_kind(draw, depth - 1)) for name in "abc"[: draw.integers(1, 4)]]
        text = ",".join(f"{name}:{kind.name}" for name, kind in fields)
        return Kind(f"struct<{text}>", pa.struct([(name, kind.arrow) for name, kind in fields]))
    return FLAT[str(draw.choice(list(FLAT)))]


def draw_form(draw: np.random.Generator, of: pa.DataType, *, widened: bool = False) -> pa.DataType:
    """A type whose values become those of a type of a table, also by widening them."""
    if pa.types.is_list(of):
        return _list_form(draw, of)
    if pa.types.is_map(of):
        key = of.key_type if draw.random() < 0.7 else _long(of.key_type)
        return pa.map_(key, draw_form(draw, of.item_type))
    if pa.types.is_struct(of):
        return pa.struct([(f.name, draw_form(draw, f.type)) for f in of])
    if draw.random() < 0.5:
        return of
    if isinstance(of, pa.BaseExtensionType):
        return of
    forms = [_long(of), of]
    if of in (pa.string(), pa.binary()):
        forms += [pa.string_view() if of == pa.string() else pa.binary_view()]
    if pa.types.is_timestamp(of) and of.tz:
        forms += [pa.timestamp("us", "Europe/Berlin"), pa.timestamp("us", "+05:30")]
    if of in (pa.int64(), pa.float64()) and widened:
        forms += [pa.int32() if of == pa.int64() else pa.float32()]
    form = forms[draw.integers(len(forms))]
    narrower = pa.types.is_integer(of) and form != of  # only as it is, it is widened
    if (
        draw.random() < 0.4
        and not _is_view(form)
        and not narrower
        and not (pa.types.is_floating(of) and form != of)
    ):
        index = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32()][draw.integers(6)]
        return pa.dictionary(index, form)
    return form


def _long(of: pa.DataType) -> pa.DataType:
    return {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(of, of)


def _list_form(draw: np.random.Generator, of: pa.DataType) -> pa.DataType:
    if of.value_type in [FLAT[name].arrow for name in NUMBERS] and draw.random() < 0.3:
        return pa.list_(of.value_type, 3)
    item = draw_form(draw, of.value_type)
    return pa.large_list(item) if draw.random() < 0.3 else pa.list_(item)


def build(
    draw: np.random.Generator, of: pa.DataType, count: int, few: int = 0, nulls: float | None = None
) -> pa.Array:
    """An array with values under its nulls, which is a part of a longer one.

    Args:
        draw: what is random.
        of: its type.
        count: its rows.
        few: that many distinct values at most; 0 for any number.
        nulls: the share of nulls; None for any.
    """
    before, after = (int(n) for n in draw.integers(0, 12, 2))
    rows = before + count + after
    share = float(draw.choice([0.0, 0.05, 0.5, 1.0], p=[0.3, 0.35, 0.3, 0.05])) if nulls is None else nulls
    valid = draw.random(rows) >= share
    return _masked(draw, _values(draw, of, rows, few), valid).slice(before, count)


def _values(draw: np.random.Generator, of: pa.DataType, rows: int, few: int) -> pa.Array:
    """Values without nulls, but inside them."""
    if isinstance(of, pa.DictionaryType):
        entries = build(draw, of.value_type, int(draw.integers(1, 40)), few, nulls=0.1)
        return pa.DictionaryArray.from_arrays(
            pa.array(draw.integers(0, len(entries), rows), of.index_type), entries
        )
    if isinstance(of, pa.FixedSizeListType):
        return pa.FixedSizeListArray.from_arrays(build(draw, of.value_type, rows * of.list_size), type=of)
    if pa.types.is_map(of):
        return _maps(draw, of, rows)
    if pa.types.is_list(of) or pa.types.is_large_list(of):
        offsets = _offsets(draw, rows)
        items = build(draw, of.value_type, int(offsets[-1]) + int(draw.integers(0, 3)))
        made = pa.LargeListArray if pa.types.is_large_list(of) else pa.ListArray
        return made.from_arrays(pa.array(offsets, made_offsets(of)), items, type=of)
    if pa.types.is_struct(of):
        return pa.StructArray.from_arrays([build(draw, f.type, rows) for f in of], fields=list(of))
    if isinstance(of, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(of, _pick(draw, of.storage_type, POOLS[of], rows, few))
    return _pick(draw, of, _pool(of), rows, few)


def made_offsets(of: pa.DataType) -> pa.DataType:
    """The type of a list's offsets."""
    return pa.int64() if pa.types.is_large_list(of) else pa.int32()


def _offsets(draw: np.random.Generator, rows: int) -> np.ndarray[Any, Any]:
    longest = 4 if rows < 20_000 else 2
    return np.concatenate([[draw.integers(0, 3)], draw.integers(0, longest, rows)]).cumsum()


def _maps(draw: np.random.Generator, of: pa.DataType, rows: int) -> pa.Array:
    """Maps whose keys are distinct: neighbors of a pool."""
    pool = _pool(of.key_type)
    offsets = _offsets(draw, rows)
    which = np.arange(int(offsets[-1])) % len(pool)
    keys = _stored(pool, of.key_type, which)
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()), keys, build(draw, of.item_type, len(keys)), type=of
    )


def _pool(of: pa.DataType) -> list[Any]:
    """The values of a form."""
    if pa.types.is_large_string(of) or pa.types.is_string_view(of):
        return POOLS[pa.string()]
    if pa.types.is_large_binary(of) or pa.types.is_binary_view(of):
        return POOLS[pa.binary()]
    if pa.types.is_timestamp(of) and of.tz:
        return POOLS[pa.timestamp("us", "UTC")]
    return POOLS[of]


def _pick(draw: np.random.Generator, of: pa.DataType, pool: list[Any], rows: int, few: int) -> pa.Array:
    which = draw.integers(0, min(len(pool), few or len(pool)), rows)
    return _stored(pool, of, which)


def _stored(pool: list[Any], of: pa.DataType, which: np.ndarray[Any, Any]) -> pa.Array:
    if pa.types.is_string_view(of) or pa.types.is_binary_view(of):
        plain = pa.string() if pa.types.is_string_view(of) else pa.binary()
        return pa.array(pool, plain).take(pa.array(which)).cast(of)
    return pa.array(pool, of).take(pa.array(which))


def _masked(draw: np.random.Generator, full: pa.Array, valid: np.ndarray[Any, Any]) -> pa.Array:
    """An array whose rows are null where they are not valid; their values stay beneath."""
    if valid.all() and draw.random() < 0.5:
        return full
    if isinstance(full, pa.DictionaryArray):
        return pa.DictionaryArray.from_arrays(_masked(draw, full.indices, valid), full.dictionary)
    if isinstance(full.type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(full.type, _masked(draw, full.storage, valid))
    # Bits beyond the end are set at random too.
    bits = np.concatenate([valid, draw.random(-len(valid) % 8 + 64) < 0.5])
    validity = pa.py_buffer(np.packbits(bits, bitorder="little").tobytes())
    children = None
    if pa.types.is_struct(full.type):
        children = [full.field(i) for i in range(full.type.num_fields)]
    elif pa.types.is_nested(full.type):
        children = [full.values]
    own = None if _is_view(full.type) else full.type.num_buffers
    buffers = [validity, *itertools.islice(full.buffers(), 1, own)]
    made = pa.Array.from_buffers(full.type, len(full), buffers, offset=full.offset, children=children)
    made.validate(full=True)
    return made


def _is_view(of: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(of) or pa.types.is_binary_view(of))
