package plan_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/plan/explain"
	"github.com/penstock/penstock/loader/plan/plantest"
	"github.com/penstock/penstock/loader/resolve"
)

const wide = 4096 // buckets of the training table, and files of every table

// wideJoin returns a training table of 4096 buckets with four staging tables of 4096
// files, which have the given bucket counts.
func wideJoin(tb testing.TB, counts ...int) (*resolve.Relation, plan.Files) {
	tb.Helper()
	d := dataset.Dataset{Name: "wide", Key: []string{"request_id"}, Training: dataset.Training{Table: "ml.train"}}
	table := plantest.Training(wide)
	var files plan.Files
	for b := range wide {
		files.Training.Files = append(files.Training.Files, plantest.File(fmt.Sprintf("s3://bucket/train/bucket=%d/00000-%08d.parquet", b, b), int64(1), int64(b), 100_000, 1))
	}
	var tables []*catalog.Table
	for i, n := range counts {
		name := fmt.Sprintf("features.f%d", i)
		d.Staging = append(d.Staging, dataset.Staging{Table: name, Prefix: fmt.Sprintf("f%d_", i)})
		tables = append(tables, &catalog.Table{
			Name: name, Pin: dataset.TablePin{UUID: name, Snapshot: 1},
			Fields: []catalog.Field{{ID: 1, Name: "request_id", Type: arrow.PrimitiveTypes.Int64}, {ID: 2, Name: "v", Type: arrow.PrimitiveTypes.Int64}},
			Specs:  map[int]catalog.Spec{0: {{ID: 1000, Source: 1, Name: "b", Transform: catalog.Transform{Kind: catalog.Bucket, N: n}}}},
		})
		var staging []catalog.File
		for f := range wide {
			staging = append(staging, catalog.File{
				Location: fmt.Sprintf("s3://bucket/%s/%08d.parquet", name, f), Bytes: 1 << 20, Rows: 50_000, Sequence: 1,
				Partition: []any{int64(f % n)},
			})
		}
		files.Staging = append(files.Staging, plan.Listing{Files: staging})
	}
	r, err := resolve.Bind(d.Defaults(), table, tables)
	require.NoError(tb, err)
	return r, files
}

func wideQuery() dataset.Query { return dataset.Query{Rows: dataset.Rows{Lanes: 64}}.Defaults() }

// BenchmarkBuild plans 4096 training buckets with four tables of 4096 files.
func BenchmarkBuild(b *testing.B) {
	for name, counts := range map[string][]int{
		"same":  {wide, wide, wide, wide},
		"mixed": {wide, 1024, 3072, 4095},
	} {
		b.Run(name, func(b *testing.B) {
			r, files := wideJoin(b, counts...)
			b.ReportAllocs()
			for b.Loop() {
				_, err := plantest.BindAndBuild(r, files, wideQuery())
				require.NoError(b, err)
			}
		})
	}
}

// BenchmarkMillionSplits plans 1,000,000 splits of 100,000 files in 4096 buckets, with one staging file for each bucket. It reports the
// bytes that a plan holds for each split, besides the listed files.
func BenchmarkMillionSplits(b *testing.B) {
	const files, perFile = 100_000, 10
	r, listed := wideJoin(b, wide)
	listed.Training.Files = nil
	for i := range files {
		listed.Training.Files = append(listed.Training.Files,
			plantest.File(fmt.Sprintf("s3://bucket/train/bucket=%d/00000-%08d.parquet", i%wide, i), int64(1), int64(i%wide), perFile*plan.SplitRows, int64(1+i)))
	}
	for name, rows := range map[string]dataset.Rows{"stored": {Lanes: 64}, "shuffled": {Lanes: 64, Order: dataset.Shuffled}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				p, err := plantest.BindAndBuild(r, listed, dataset.Query{Rows: rows}.Defaults())
				require.NoError(b, err)
				require.Len(b, p.Splits, files*perFile)
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/files/perFile, "B/split")
				runtime.KeepAlive(p)
			}
		})
	}
}

// BenchmarkMixing measures how well a shard of eight is mixed: of 4096 buckets in 64 lanes, with the deviation of larger parts and windows.
func BenchmarkMixing(b *testing.B) {
	r, files := wideJoin(b, wide)
	q := dataset.Query{Rows: dataset.Rows{Lanes: 64, Order: dataset.Shuffled, ShuffleWindow: 2048, ShuffleParts: 1}, Reading: dataset.Reading{BatchRows: 8192}}.Defaults()
	p, err := plantest.BindAndBuild(r, files, q)
	require.NoError(b, err)
	for b.Loop() {
		require.Positive(b, explain.MixesOf(p, q, dataset.Shard{Index: 1, Of: 8}).Deviation)
	}
}

// BenchmarkRanges plans 4096 training files with 4096 staging files that are sorted by
// the key but not bucketed.
func BenchmarkRanges(b *testing.B) {
	r, files := wideJoin(b, wide)
	sorted := func(files []catalog.File) {
		for i := range files {
			files[i].Spec, files[i].Partition = 1, nil
			files[i].Ranges = map[int]expr.Range{1: {Lower: expr.Int(int64(100 * i)), Upper: expr.Int(int64(100*i + 120)), HasLower: true, HasUpper: true, Rows: 50_000}}
		}
	}
	r.Training.Specs[1], r.Staging[0].Pinned.Specs[1] = nil, nil
	sorted(files.Staging[0].Files)
	for i := range files.Training.Files {
		files.Training.Files[i].Rows = plan.SplitRows
	}
	sorted(files.Training.Files)
	b.ReportAllocs()
	for b.Loop() {
		_, err := plantest.BindAndBuild(r, files, wideQuery())
		require.NoError(b, err)
	}
}

// TestPlansOfManyBucketsAreSmall checks that planning 4096 buckets with four tables of
// 4096 files allocates less than 100 MB.
func TestPlansOfManyBucketsAreSmall(t *testing.T) {
	for _, counts := range [][]int{{wide, wide, wide, wide}, {wide, 1024, 3072, 4095}} {
		r, files := wideJoin(t, counts...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p, err := plantest.BindAndBuild(r, files, wideQuery())
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.Len(t, p.Splits, wide)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100<<20))
	}
}
