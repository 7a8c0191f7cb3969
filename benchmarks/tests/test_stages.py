"""Samples of a profile come to the stage that they belong to, and none is lost."""

from __future__ import annotations

import unittest

import stages
from stage_patterns import GOROUTINES, GROUPS, STAGES, UNKNOWN, goroutine_of, stage_of

PENSTOCK = "github.com/penstock/penstock/"
ARROW = "github.com/apache/arrow-go/v18/"

TRACES = f"""\
File: penstock
Type: cpu
Duration: 12s, Total samples = 11.55s (96.25%)
-----------+-------------------------------------------------------
     1.20s   runtime.memmove
             {PENSTOCK}internal/parquet.(*byteArrayBuilder).add (inline)
             {PENSTOCK}internal/parquet.(*byteArrayColumn).takeIndexed
-----------+-------------------------------------------------------
      key:  a label
      30ms   internal/runtime/syscall/linux.Syscall6
             syscall.Syscall
             syscall.write
             internal/poll.(*FD).Write
             google.golang.org/grpc/internal/transport.(*bufWriter).flushKeepBuffer
-----------+-------------------------------------------------------
      10ms   elsewhere.Do[go.shape.struct {{ A int }}]
"""


class Stages(unittest.TestCase):
    def test_traces(self) -> None:
        found = list(stages.traces(TRACES))
        assert [value for value, _ in found] == [1_200_000_000, 30_000_000, 10_000_000]
        assert [len(frames) for _, frames in found] == [3, 5, 1]
        assert [stage_of(frames) for _, frames in found] == ["texts", "gRPC and sockets", UNKNOWN]

    def test_stages(self) -> None:
        parquet, batch = PENSTOCK + "internal/parquet.", PENSTOCK + "internal/batch."
        zstd = "github.com/klauspost/compress/zstd.(*Decoder).DecodeAll"
        pread = ["internal/runtime/syscall/linux.Syscall6", "syscall.pread", "internal/poll.(*FD).Pread"]
        for stage, frames in {
            "garbage collection": ["runtime.scanObject", "runtime.gcDrain", "runtime.gcBgMarkWorker.func2"],
            "clearing": ["runtime.memclrNoHeapPointers", "runtime.mallocgc", batch + "aligned"],
            "allocation": ["runtime.nextFreeFast", "runtime.mallocgc", parquet + "(*flatColumn).read"],
            "decompression": [zstd, parquet + "(*pages).decompress", parquet + "(*flatColumn).nextPage"],
            "reading storage": [*pread, "os.(*File).ReadAt", PENSTOCK + "internal/store.(*local).ReadAt"],
            "numbers": ["runtime.asyncPreempt", parquet + "gatherPacked[go.shape.uint32]"],
            "texts": [parquet + "gather[go.shape.uint64]", parquet + "(*byteArrayColumn).takeIndexed"],
            "lists and structs": [parquet + "(*valueDecoder).take", parquet + "(*listColumn).readWindow"],
            "other types, by the library": [ARROW + "parquet/pqarrow.transferDecimalIntegerValues"],
            "decimals and fixed bytes": [
                parquet + "gatherPacked[go.shape.uint64]",
                parquet + "(*valueDecoder).lookUpDecimals",
            ],
            "build sides": [PENSTOCK + "joiner.findInt", PENSTOCK + "joiner.(*hashIndex).add"],
            "probing": [PENSTOCK + "joiner.findInt", PENSTOCK + "joiner.(*hashIndex).lookupInts"],
            "gathering texts": ["runtime.memmove", batch + "texts[go.shape.int32]"],
            "gathering numbers": [batch + "values[go.shape.uint64]", batch + "(*gathering).fixed"],
            "encoding of batches": [
                ARROW + "arrow/ipc.(*Writer).Write",
                PENSTOCK + "flight.(*outgoing).batch",
            ],
            "Go's scheduler": ["runtime.futex", "runtime.findRunnable", "runtime.mcall"],
            UNKNOWN: ["runtime.memmove", PENSTOCK + "loader/new.Do"],
        }.items():
            assert stage_of(frames) == stage, (stage, stage_of(frames))

    def test_goroutine_of_a_sample(self) -> None:
        division = PENSTOCK + "internal/cores.(*division).run"
        for goroutine, frames in {
            "the collector": ["runtime.scanobject", "runtime.gcBgMarkWorker"],
            "decoding, divided": [PENSTOCK + "internal/parquet.(*rowGroup).decodeColumn", division],
            "decoding": [PENSTOCK + "loader/scan.(*checker).check", PENSTOCK + "loader/scan.(*walk).run"],
            "assembly, divided": [PENSTOCK + "internal/batch.copyFixed", division],
            "assembly": [PENSTOCK + "joiner.(*Reader).Next", PENSTOCK + "flight.(*streamSender).all"],
            "writing": ["syscall.write", "google.golang.org/grpc/internal/transport.(*loopyWriter).run"],
            "other goroutines": ["runtime.futex", "runtime.findRunnable"],
        }.items():
            assert goroutine_of(frames) == goroutine, (goroutine, goroutine_of(frames))
        assert set(GOROUTINES) > {"assembly", "decoding", "writing"}

    def test_page(self) -> None:
        profile = stages.Profile(
            "t, plain",
            100,
            {"texts": 300.0, "numbers": 600.0, UNKNOWN: 100.0},
            {"decoding": 700.0, "assembly": 300.0},
            [("a", 100.0)],
        )
        page = stages.markdown([profile])
        for row in (
            "**Decoding** | 9.0 (90.0%)",
            "— texts | 3.0 (30.0%)",
            "not matched by a pattern | 1.0 (10.0%)",
            "| decoding | 7.0 (70.0%)",
            "| writing | 0.0 (0.0%)",
        ):
            assert row in page
        assert "all | 10.0 (100.0%)" in page
        assert "lists" not in page
        assert stages.report_unknown([profile]) == 1
        profile.nanoseconds[UNKNOWN] = 40.0
        assert stages.report_unknown([profile]) == 0

    def test_every_stage_is_on_the_page(self) -> None:
        named = [stage for group in GROUPS.values() for stage in group]
        assert len(set(named)) == len(named)
        assert set(named) == STAGES
