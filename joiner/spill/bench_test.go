package spill_test

import (
	"context"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/spool"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/joinertest"
	"github.com/penstock/penstock/joiner/spill"
)

// BenchmarkSpilled joins a build side from disk, and the same in memory: ten training rows per
// staging row of 128 bytes. Writing the build side to disk is a separate benchmark, since
// several ranges share that.
func BenchmarkSpilled(b *testing.B) {
	for _, order := range []string{"grouped", "random"} {
		keys, wanted := joinertest.BenchKeys(order == "grouped")
		field, key := joinertest.BenchColumn(keys, false)
		wide := array.NewFixedSizeBinaryBuilder(memory.DefaultAllocator, &arrow.FixedSizeBinaryType{ByteWidth: 128})
		for range keys {
			wide.Append(make([]byte, 128))
		}
		shown := arrow.Field{Name: "wide", Type: wide.Type(), Nullable: true}
		staging := joinertest.BenchInput(b, arrow.NewSchema([]arrow.Field{field, shown}, nil), key, wide.NewArray())
		staging.Columns = []int{1}
		_, column := joinertest.BenchColumn(wanted, false)
		training := joinertest.BenchInput(b, arrow.NewSchema([]arrow.Field{field}, nil), column)
		opts := joiner.Options{Memory: &batch.Pool{}}
		place, err := spool.Open(spool.Options{Folder: b.TempDir(), Memory: opts.Memory})
		require.NoError(b, err)
		disk := spill.Options{
			Options: opts, WorkingMemory: 16 << 20,
			Disk: func(what string) (spill.Store, error) { return place.Create(what) },
		}
		report := func(b *testing.B) {
			b.Helper()
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(wanted)), "ns/row")
		}
		joined := func(b *testing.B, built func(context.Context) (joiner.Probeable, error)) {
			b.Helper()
			b.ReportAllocs()
			for b.Loop() {
				r, err := joiner.Join(b.Context(), training, []joiner.Probe{{Rule: joiner.Rule{Name: "s"}, Key: []int{0}, Columns: []arrow.Field{shown}, BuildSide: built}}, opts)
				require.NoError(b, err)
				for r.Next() {
				}
				require.NoError(b, r.Err())
				r.Release()
			}
			report(b)
		}
		b.Run(order+"/memory", func(b *testing.B) {
			joined(b, func(ctx context.Context) (joiner.Probeable, error) {
				return joiner.Build(ctx, staging, joiner.BuildSpec{Name: "s"}, opts)
			})
		})
		b.Run(order+"/write", func(b *testing.B) {
			for b.Loop() {
				built, err := spill.Slice(b.Context(), staging, joiner.BuildSpec{Name: "s"}, disk)
				require.NoError(b, err)
				built.Release()
			}
			report(b)
		})
		b.Run(order+"/disk", func(b *testing.B) {
			built, err := spill.Slice(b.Context(), staging, joiner.BuildSpec{Name: "s"}, disk)
			require.NoError(b, err)
			defer built.Release()
			joined(b, func(context.Context) (joiner.Probeable, error) { return built.ProbedBy(training, func(int64) {}), nil })
		})
	}
}
