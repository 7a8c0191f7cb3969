package scan_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/scan"
)

// TestBatchesEndWithSteps: batches end where the consumer's steps end, unless a file or a row group ends first or a batch
// has fewer rows than a step; the rows are the same.
func TestBatchesEndWithSteps(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 1))
	r := newRig(t)
	const group = 40
	for range 6 {
		r.grow(10+random.IntN(120), group, 2)
	}
	columns := r.columns("id", "tags")
	for range 40 {
		source := r.source()
		ordinal := int64(0)
		for i := range source.Files {
			f := &source.Files[i]
			f.From = random.Int64N(5)
			f.Ordinal = ordinal
			ordinal += f.To - f.From
		}
		batchRows := 1 + random.IntN(30)
		source.StepRows, source.Begun = 1+random.Int64N(30), random.Int64N(20)
		got := r.read(r.scanner(scan.Options{BatchRows: batchRows, Ahead: random.Int64N(5000) - 1}), source, columns)
		require.NoError(t, got.err)
		require.Equal(t, r.want(source, columns, nil), got.lines)
		at, file := int64(0), 0
		for _, rows := range got.batches {
			require.LessOrEqual(t, rows, int64(batchRows))
			at += rows
			f := source.Files[file]
			end := at - f.Ordinal + f.From
			ended := end == f.To || end%group == 0
			if end == f.To {
				file++
			}
			if beyond := (source.Begun + at) % source.StepRows; !ended && beyond != 0 {
				require.GreaterOrEqual(t, beyond, rows, "a step ended within the batch")
			}
		}
	}
}
