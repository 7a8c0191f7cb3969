"""Random batches of all types, with rules for them, in all states that Arrow allows."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from penstock.torch import Converter, Vocabulary

Draw = Callable[[random.Random, int], pa.Array]

WORDS = ["", "a", "bb", "zürich", "日本", "it's", "a longer word than twelve bytes", "x" * 40]
STRANGE = ["nowhere", "\n", '"'] * 2
EDGES = [0.0, -0.0, 1.0, 0.1, 65504.0, 1e-8, -3.5, float("inf"), float("-inf")]
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()]
TIMES = [
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    pa.timestamp("ns"),
    pa.timestamp("us", "UTC"),
    pa.duration("ms"),
]
TEXTS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.large_binary(),
    pa.binary(3),
]


class Tagged(pa.ExtensionType):
    """A type that Go does not know."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "tests.tagged")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, _: bytes) -> Tagged:
        return cls(storage)


@dataclass
class Rules:
    """The rules of a converter, and the fields of a schema."""

    nulls: dict[str, Any] = field(default_factory=dict)
    vocab: dict[str, Any] = field(default_factory=dict)
    hash: dict[str, int] = field(default_factory=dict)
    decimals: dict[str, str] = field(default_factory=dict)
    cast: dict[str, str] = field(default_factory=dict)
    pack: dict[str, list[str]] = field(default_factory=dict)

    def given(self) -> dict[str, Any]:
        """The keyword arguments of a converter."""
        return {name: rules for name, rules in vars(self).items() if rules}


@dataclass
class Leaf:
    """Values of one type.

    Attributes:
        values: draws an array without nulls. Under a null, any of these values may be found.
        fills: rules for nulls other than words.
        strange: draws a value that the rules of the type refuse; None if there is none.
    """

    values: Draw
    fills: list[Any]
    strange: Draw | None = None


def with_nulls(rng: random.Random, array: pa.Array, share: float) -> pa.Array:
    """The same values, some of which are null, and at another offset of their memory."""
    valid = np.array([rng.random() >= share for _ in range(len(array))], bool)
    if valid.all():
        return array
    if isinstance(array, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(array.type, with_nulls(rng, array.storage, share))
    if pa.types.is_dictionary(array.type):
        indices = with_nulls(rng, array.indices, share)
        return pa.DictionaryArray.from_arrays(indices, array.dictionary)
    bits = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(array.type, len(array), [bits, *array.buffers()[1:]])


def raw(kind: pa.DataType) -> Draw:
    """Draws values of any bits, and some of all equal bits."""
    width = kind.bit_width // 8

    def draw(rng: random.Random, rows: int) -> pa.Array:
        content = b"".join(
            rng.choice([bytes(width), b"\xff" * width, b"\x01" + bytes(width - 1)])
            if rng.random() < 0.3
            else rng.randbytes(width)
            for _ in range(rows)
        )
        return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(content)])

    return draw


def floats(kind: pa.DataType) -> Draw:
    """Draws floats of any bits, which include NaNs with payloads, and special values."""
    dtype = {16: np.float16, 32: np.float32, 64: np.float64}[kind.bit_width]

    def draw(rng: random.Random, rows: int) -> pa.Array:
        drawn = np.frombuffer(rng.randbytes(rows * kind.bit_width // 8), dtype).copy()
        for at in range(rows):
            if rng.random() < 0.6:
                drawn[at] = rng.choice(EDGES) if rng.random() < 0.5 else rng.uniform(-100, 100)
        return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(drawn.tobytes())])

    return draw


def decimal(rng: random.Random) -> tuple[pa.DataType, Draw]:
    """A decimal type of any width, and a function that draws its values."""
    make, most = rng.choice([(pa.decimal32, 9), (pa.decimal64, 18), (pa.decimal128, 38), (pa.decimal256, 76)])
    precision = rng.randrange(1, most + 1)
    kind = make(precision, rng.choice([0, precision, rng.randrange(precision + 1), -2, -30]))

    def draw(rng: random.Random, rows: int) -> pa.Array:
        numbers = []
        for _ in range(rows):
            number = rng.randrange(10 ** rng.randrange(1, precision + 1))
            if rng.random() < 0.2:  # close to the middle of two float32 or float64
                number = min(
                    rng.choice([2**24, 2**53, 2**54]) * rng.randrange(1, 9) + rng.randrange(-2, 3),
                    10**precision - 1,
                )
            numbers.append(number * rng.choice([1, -1]))
        width = kind.bit_width // 8
        content = b"".join(number.to_bytes(width, "little", signed=True) for number in numbers)
        return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(content)])

    return kind, draw


def words(kind: pa.DataType, among: list[str]) -> Draw:
    """Draws texts of a type."""

    def draw(rng: random.Random, rows: int) -> pa.Array:
        drawn: list[Any] = [rng.choice(among) for _ in range(rows)]
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
            drawn = [one.encode() for one in drawn]
        if pa.types.is_fixed_size_binary(kind):
            drawn = [one.ljust(3)[:3] for one in drawn]
        return pa.array(drawn, kind)

    return draw


def leaf(rng: random.Random, name: str, rules: Rules) -> Leaf:
    """Draws a type of values, and its rules."""
    form = rng.randrange(7)
    if form == 0:
        kind = rng.choice([*INTEGERS, pa.uint64()])
        found = Leaf(raw(kind), [rng.randrange(100)])
    elif form == 1:
        found = Leaf(floats(rng.choice([pa.float16(), pa.float32(), pa.float64()])), [1.5, "nan", -0.0])
    elif form == 2:
        found = Leaf(
            lambda rng, rows: pa.array([rng.random() < 0.5 for _ in range(rows)], pa.bool_()), [True, False]
        )
    elif form == 3:
        found = Leaf(raw(rng.choice(TIMES)), [0, 3])
    elif form == 4:
        kind, draw = decimal(rng)
        forms = ["float64", "float32"] + ["unscaled"] * (kind.precision <= 18)
        rules.decimals[name] = rng.choice(forms)
        found = Leaf(draw, [0])
    else:
        found = coded(rng, name, rules)
    return wrapped(rng, found)


def coded(rng: random.Random, name: str, rules: Rules) -> Leaf:
    """Draws a type of texts or integers that is encoded."""
    text = rng.random() < 0.7
    kind = rng.choice(TEXTS if text else INTEGERS)
    if rng.random() < 0.5:
        rules.hash[name] = rng.choice([1, 7, 1000, 2**31 - 1])
        if not text:
            return Leaf(raw(kind), [{"fill": 3}])
        draw = words(kind, [*WORDS, *STRANGE])
        return Leaf(draw, [{"fill": draw(rng, 1)[0].as_py()}])
    among: Draw = (
        words(kind, WORDS)
        if text
        else lambda rng, rows: pa.array([rng.randrange(50) for _ in range(rows)], kind)
    )
    values = sorted(set(among(rng, 400).to_pylist()))
    rng.shuffle(values)
    if rng.random() < 0.2:  # a large one, for which the reference has another way
        values += [
            value
            for value in (
                f"{i:03}" if pa.types.is_fixed_size_binary(kind) else f"more {i}" for i in range(600)
            )
            if text
        ]
        if text and not isinstance(values[0], str):
            values = [value.encode() if isinstance(value, str) else value for value in values]
    unknown = rng.choice([None, None, 5, 10**12])
    codes: Any = values if rng.random() < 0.5 else {value: rng.randrange(2**40) for value in values}
    rules.vocab[name] = Vocabulary(codes, unknown=unknown)
    strange: Draw = (
        words(kind, STRANGE)
        if text
        else lambda rng, rows: pa.array([100 + rng.randrange(20) for _ in range(rows)], kind)
    )

    def mixed(rng: random.Random, rows: int) -> pa.Array:
        both = pa.concat_arrays([among(rng, rows), strange(rng, rows)])
        return pa.array([both[rng.randrange(2 * rows)].as_py() for _ in range(rows)], kind)

    if unknown is not None:
        return Leaf(mixed, [{"fill": values[0]}])
    return Leaf(among, [{"fill": values[0]}], mixed)


def wrapped(rng: random.Random, found: Leaf) -> Leaf:
    """The same values, perhaps in a dictionary or as an extension type."""
    drawn = rng.random()
    if drawn < 0.2:
        index = rng.choice([pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32()])
        holes, length = rng.choice([0, 0, 0.3]), rng.choice([1, 3, 100])

        def dictionary(draw: Draw) -> Draw:
            def of(rng: random.Random, rows: int) -> pa.Array:
                values = with_nulls(rng, draw(rng, length), holes)
                indices = pa.array([rng.randrange(length) for _ in range(rows)], index)
                return pa.DictionaryArray.from_arrays(indices, values)

            return of

        return Leaf(dictionary(found.values), found.fills, found.strange and dictionary(found.strange))
    if drawn < 0.3:

        def extension(draw: Draw) -> Draw:
            def of(rng: random.Random, rows: int) -> pa.Array:
                storage = draw(rng, rows)
                kind = storage.type
                if kind == pa.int8():
                    return pa.ExtensionArray.from_storage(pa.bool8(), storage)
                return pa.ExtensionArray.from_storage(Tagged(kind), storage)

            return of

        return Leaf(extension(found.values), found.fills, found.strange and extension(found.strange))
    return found


@dataclass
class World:
    """A batch, the rules of its converter, and the rows to convert."""

    batch: pa.RecordBatch
    rules: dict[str, Any]
    first: int
    last: int

    def slice(self) -> pa.RecordBatch:
        """The rows to convert."""
        return self.batch.slice(self.first, self.last - self.first)


def column(
    rng: random.Random, name: str, rows: int, rules: Rules, faults: float
) -> tuple[pa.Array, pa.Field]:
    """Draws a column and its rules. With a probability of `faults`, it has what its rules refuse."""
    of, share = leaf(rng, name, rules), rng.choice([0, 0.02, 0.3, 1])
    wrong = rng.random() < faults
    draw = of.strange if wrong and of.strange and rng.random() < 0.5 else of.values

    def rule(name: str, words: list[Any], share: float) -> tuple[bool, float]:
        """Sets a rule for nulls; returns whether the field is nullable, and the share of nulls."""
        how = rng.random()
        if how < 0.2:  # no nulls, by the schema or by the rule
            nullable = rng.random() < 0.5
            if nullable:
                rules.nulls[name] = "error"
            return nullable, share if wrong else 0
        rules.nulls[name] = rng.choice(words)
        return True, share

    form = rng.choice(["values", "values", "lists", "fixed"])
    if form == "values":
        nullable, share = rule(name, [*of.fills, "mask"], share)
        array = with_nulls(rng, draw(rng, rows), share)
        return array, pa.field(name, array.type, nullable)
    inner, inner_share = rule(f"{name}[]", of.fills, rng.choice([0, 0, 0.1, 0.5]))
    if form == "fixed":
        nullable, share = rule(name, [*of.fills, "mask"], share)
        width = rng.choice([1, 2, 3, 4, 8, 17])
        elements = with_nulls(rng, draw(rng, rows * width), inner_share)
        kind = pa.list_(pa.field("element", elements.type, inner), width)
        missing = [rng.random() < share for _ in range(rows)]
        bits = pa.py_buffer(np.packbits(~np.array(missing, bool), bitorder="little").tobytes())
        array = pa.Array.from_buffers(kind, rows, [bits if any(missing) else None], children=[elements])
        return array, pa.field(name, kind, nullable)
    nullable, share = rule(name, ["empty", "mask"], share)
    lengths = [rng.choice([0, 0, 1, 2, rng.randrange(40)]) for _ in range(rows)]
    start = rng.choice([0, 0, 5])
    offsets = np.cumsum([start, *lengths])
    elements = with_nulls(rng, draw(rng, int(offsets[-1]) + 3), inner_share)
    missing = [rng.random() < share for _ in range(rows)]  # these lists have elements in memory
    bits = pa.py_buffer(np.packbits(~np.array(missing, bool), bitorder="little").tobytes())
    large = rng.random() < 0.4
    kind = (pa.large_list if large else pa.list_)(pa.field("element", elements.type, inner))
    memory = pa.py_buffer(offsets.astype(np.int64 if large else np.int32).tobytes())
    array = pa.Array.from_buffers(kind, rows, [bits if any(missing) else None, memory], children=[elements])
    return array, pa.field(name, kind, nullable)


def world(seed: int, indexed_share: float = 0.25, outside: bool = True) -> World:
    """Draws a world.

    Args:
        seed: of the random numbers.
        indexed_share: the share of indexed columns.
        outside: whether indices may be outside of their dictionary.
    """
    rng = random.Random(seed)
    rules, faults = Rules(), rng.choice([0, 0, 0.3])
    rows = rng.choice([0, 1, 2, 9, 70, 70, 600, 1500])
    arrays, fields = [], []
    for at in range(rng.randrange(1, 6)):
        if rng.random() < indexed_share:
            array, made = indexed(rng, f"e{at}", rows, rules, faults, outside)
        else:
            array, made = column(rng, f"c{at}", rows, rules, faults)
        arrays.append(array)
        fields.append(made)
    first = rng.choice([0, rng.randrange(rows + 1)])
    last = rng.choice([rows, rng.randrange(first, rows + 1)])
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
    add_casts(rng, batch.schema, rules)
    return World(batch, rules.given(), first, last)


FLOATS = ["float16", "bfloat16", "float32"]


def add_casts(rng: random.Random, schema: pa.Schema, rules: Rules) -> None:
    """Draws casts and packs of the columns of a schema."""
    fills = {name.removesuffix("[]") for name, rule in rules.nulls.items() if not isinstance(rule, str)}
    levels: dict[str, list[str]] = {}
    for name, column in Converter(schema, **rules.given()).columns.items():
        if column.codes is not None or rng.random() < 0.6 or name.endswith("_mask"):
            continue
        small = column.dtype in (torch.int16, torch.int8, torch.uint8, torch.bool)
        if column.dtype.is_floating_point or small or name not in fills:
            rules.cast[name] = rng.choice(FLOATS if column.dtype.is_floating_point else [*FLOATS, "int32"])
    for name, column in Converter(schema, **rules.given()).columns.items():
        if not column.jagged and not name.endswith("_mask"):
            levels.setdefault(f"{column.indexed} {column.dtype}", []).append(name)
    for at, names in enumerate(levels.values()):
        if rng.random() < 0.5:
            rules.pack[f"pack{at}"] = rng.sample(names, rng.randrange(1, len(names) + 1))


def indexed(
    rng: random.Random, name: str, rows: int, rules: Rules, faults: float, outside: bool
) -> tuple[pa.Array, pa.Field]:
    """Draws an indexed column."""
    distinct = rng.choice([1, 5, 80])
    parts = [column(rng, f"{name}_{at}", distinct, rules, faults) for at in range(rng.randrange(1, 4))]
    share = rng.choice([0, 0, 0.2]) if all(made.nullable for _, made in parts) or faults else 0
    if share and not faults:  # rows of nulls are also in columns whose rule refuses nulls
        share = 0 if any(rules.nulls.get(made.name) == "error" for _, made in parts) else share
    bits = np.packbits([rng.random() >= share for _ in range(distinct)], bitorder="little").tobytes()
    kind = pa.struct([made for _, made in parts])
    structs = pa.Array.from_buffers(
        kind, distinct, [pa.py_buffer(bits) if share else None], children=[array for array, _ in parts]
    )
    if rng.random() < 0.3:
        structs = structs.slice(rng.randrange(distinct))
    last = len(structs) + (rng.random() < faults / 4 and outside)
    inverse = pa.array([rng.randrange(last) for _ in range(rows)], pa.int32())
    array = pa.DictionaryArray.from_arrays(inverse, structs, safe=False)
    return array, pa.field(name, array.type, nullable=False)
