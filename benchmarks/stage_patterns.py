"""Which function belongs to which stage: patterns of their names, for `stages.py`.

Code moves, and then functions match no pattern. `make stages` fails if their share of the time is
more than a twentieth.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

UNKNOWN = "unknown"

# Stages that take a sample if any of its functions matches, in this order.
_ANYWHERE = (
    ("garbage collection", r"runtime\.(gc(?!o)|bg(sweep|scavenge)|_GC|wbBufFlush|freeOSMemory|\(\*gcWork\)|sweepone|markroot)|runtime/debug\.freeOSMemory|^gcWriteBarrier"),
    ("clearing", r"runtime\.(memclr|\(\*mspan\)\.initHeapBits)|parquet\.zero"),
    ("allocation", r"runtime\.(mallocgc|newobject|makeslice|growslice|\(\*mheap\)\.|\(\*mcache\)\.|\(\*mcentral\)\.|madvise|sysUnused)|batch\.\(\*Pool\)\.|arrow/memory\.\(\*(Buffer|GoAllocator)\)\.(Reserve|Resize|resize|Allocate|Reallocate)|google\.golang\.org/grpc/mem\.\(\*\w*[bB]ufferPool"),
)  # fmt: skip

# Stages of the innermost function that matches, in this order.
_INNERMOST = (
    ("profiling", r"runtime/pprof\.|runtime\.(sigprof|profilealloc)|net/http/pprof\.|promhttp\."),
    ("reading storage", r"internal/poll\.\(\*FD\)\.(Read|Pread)|os\.\(\*File\)\.Read|penstock/internal/store[./]|parquet\.\(\*(fetch|source|window)"),
    ("decompression", r"klauspost/compress|golang/snappy|andybalholm/brotli|pierrec/lz4|parquet/compress\.|parquet\.bounded(Codec|Zstd)|parquet\.\(\*pages\)\.decompress|compress/(flate|gzip)\.|hash/crc32"),
    ("texts", r"penstock/internal/parquet\.(\(\*byteArray|byteArray)"),
    ("decimals and fixed bytes", r"penstock/internal/parquet\.\S*([dD]ecimal|[fF]ixed|signExtend|bigEndian)"),
    ("other types, by the library", r"arrow-go/v18/parquet"),
    ("lists and structs", r"penstock/internal/parquet\.(\(\*(list|nested|struct)|list|nested)"),
    ("levels", r"penstock/internal/parquet\.(\(\*levels|\(\*levelDecoder|checkLevels)"),
    ("page headers", r"penstock/internal/parquet\.\(\*thrift\)"),
    ("numbers", r"penstock/internal/parquet\.(\(\*(flatColumn|valueDecoder|rleDecoder|dictionary|delta)|gather|pageByPage|flatColumn)"),
    ("other decoding", r"penstock/internal/parquet\."),
    ("checks of buckets", r"penstock/internal/bucket\.|scan\.\(\*checker\)"),
    ("build sides", r"joiner\.\(\*hashIndex\)\.(add|grow|insert)|penstock/loader/buildside|joiner\.(\(\*keyVector\)\.append|newIndex|build)"),
    ("probing", r"penstock/joiner\.|penstock/loader/joined\."),
    ("gathering texts", r"batch\.(texts|textBytes|offsets|itemCount|\(\*textGather)"),
    ("gathering numbers", r"batch\.(values|followIndices|bits|validity)"),
    ("other gathering", r"penstock/internal/batch\.|loader/lane\.\(\*Reader\)\.gather"),
    ("filters, deletes, samples", r"penstock/internal/expr|penstock/loader/deletes|arrow/compute"),
    ("order and cut", r"penstock/loader/(lane|shuffle|fanout|stream)[./]"),
    ("scanning", r"penstock/loader/scan\."),
    ("mapped memory", r"penstock/internal/segment|penstock/flight/local"),
    ("encoding of batches", r"arrow-go/v18/arrow/ipc\.|google/flatbuffers|arrow/flight\.(?!gen)|penstock/flight\.|google\.golang\.org/protobuf"),
    ("gRPC and sockets", r"google\.golang\.org/grpc|golang\.org/x/net/|^net\.|internal/poll\.\(\*FD\)|internal/poll\.|arrow/flight/gen|syscall\.(write|read|sendmsg|Write|Read|writev)|net/http\."),
    ("planning", r"penstock/loader/(plan|resolve|catalog|dataset|verify)|penstock/loader\.|penstock/cache|apache/iceberg-go|modernc\.org|database/sql|encoding/json|hamba/avro"),
    ("budget", r"penstock/internal/budget"),
    ("arrays", r"arrow-go/v18/arrow/"),
    ("the program itself", r"^main\.|^time\.|^context\.|log/slog|prometheus"),
)  # fmt: skip

# The stages as the page groups them, in the order in which a row passes them.
GROUPS = {
    "Reading storage": ["reading storage"],
    "Decompression": ["decompression"],
    "Decoding": [
        "texts",
        "numbers",
        "decimals and fixed bytes",
        "lists and structs",
        "levels",
        "page headers",
        "other types, by the library",
        "other decoding",
    ],
    "Scanning": ["checks of buckets", "filters, deletes, samples", "scanning"],
    "Joining": ["build sides", "probing"],
    "Gathering": ["gathering texts", "gathering numbers", "other gathering", "order and cut"],
    "Sending": ["encoding of batches", "gRPC and sockets", "mapped memory"],
    "Memory": ["allocation", "clearing", "garbage collection", "budget"],
    "Other": ["arrays", "planning", "the program itself", "Go's scheduler", "profiling"],
}

# Samples of the first stage belong to the second, if this matches any of their functions.
_REFINED = (
    ("numbers", "texts", r"penstock/internal/parquet\.\(\*byteArrayColumn\)"),
    (
        "numbers",
        "decimals and fixed bytes",
        r"decimal128|penstock/internal/parquet\.\(\*valueDecoder\)\.(lookUpDecimals|takeFixed)",
    ),
    ("numbers", "lists and structs", r"penstock/internal/parquet\.\(\*list"),
    ("probing", "build sides", r"joiner\.(\(\*builder\)|\(\*hashIndex\)\.(add|fill)|Input\.ReadAll)"),
)

# Functions for which their callers account, if these have a stage.
_BELOW = re.compile(
    r"^(runtime\.|internal/runtime|syscall\.|sync\.|sync/atomic\.|internal/sync|internal/bytealg|golang\.org/x/sync"
    r"|github\.com/apache/arrow-go/v18/arrow/memory\.)"
)

_SCHEDULER = "Go's scheduler"


def _compiled(stages: tuple[tuple[str, str], ...]) -> list[tuple[str, re.Pattern[str]]]:
    return [(stage, re.compile(pattern)) for stage, pattern in stages]


_COMPILED_ANYWHERE = _compiled(_ANYWHERE)
_COMPILED_INNERMOST = _compiled(_INNERMOST)
_COMPILED_REFINED = [(first, second, re.compile(pattern)) for first, second, pattern in _REFINED]

# All stages that a sample can come to, except that of none.
STAGES = (
    {stage for stage, _ in (*_ANYWHERE, *_INNERMOST)} | {second for _, second, _ in _REFINED} | {_SCHEDULER}
)


def stage_of(frames: Sequence[str]) -> str:
    """The stage of a sample with these functions, the innermost one first."""
    for stage, pattern in _COMPILED_ANYWHERE:
        if any(pattern.search(frame) for frame in frames):
            return stage
    above = [frame for frame in frames if not _BELOW.match(frame)]
    for frame in above:
        for stage, pattern in _COMPILED_INNERMOST:
            if pattern.search(frame):
                return _refined(stage, frames)
    return UNKNOWN if above else _SCHEDULER


def _refined(stage: str, frames: Sequence[str]) -> str:
    for first, second, pattern in _COMPILED_REFINED:
        if stage == first and any(pattern.search(frame) for frame in frames):
            return second
    return stage


# The goroutines of a stream, as `make stages` shows them: the first pattern that any function matches.
_GOROUTINES = (
    ("the collector", r"runtime\.(gcBgMarkWorker|bgsweep|bgscavenge)"),
    ("decoding, divided", r"parquet\.\(\*rowGroup\)\.(eachColumn|decode)"),
    ("assembly, divided", r"cores\.\(\*division\)|cores\.\(\*Cores\)\.Each"),
    ("assembly", r"flight\.\(\*streamSender\)"),
    ("decoding", r"scan\.\(\*walk\)|parquet\.\(\*(Reader|fetch|source)\)|buildside\.|penstock/joiner\."),
    ("writing", r"transport\.\(\*loopyWriter\)|transport\.\(\*bufWriter\)"),
)  # fmt: skip

_OTHER = "other goroutines"

_COMPILED_GOROUTINES = _compiled(_GOROUTINES)

GOROUTINES = [name for name, _ in _GOROUTINES] + [_OTHER]


def goroutine_of(frames: Sequence[str]) -> str:
    """The goroutine of a sample with these functions, the innermost one first."""
    for name, pattern in _COMPILED_GOROUTINES:
        if any(pattern.search(frame) for frame in frames):
            return name
    return _OTHER
