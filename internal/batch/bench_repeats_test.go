package batch_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
)

// BenchmarkRepeats compares rows of lists of 2 KB with the row before, of which nine in
// ten are the same, with Repeats and with SameRow.
func BenchmarkRepeats(b *testing.B) {
	const rows, each, length = 8192, 10, 256
	build := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64)
	defer build.Release()
	for i := range rows {
		build.Append(true)
		for k := range length {
			build.ValueBuilder().(*array.Int64Builder).Append(int64(i / each * k))
		}
	}
	lists := build.NewArray()
	defer lists.Release()
	same := make([]bool, rows)
	reset := func() {
		for i := range same {
			same[i] = true
		}
	}
	b.Run("Repeats", func(b *testing.B) {
		b.SetBytes(rows * length * 8)
		for b.Loop() {
			reset()
			batch.Repeats(lists, same)
		}
	})
	b.Run("SameRow", func(b *testing.B) {
		b.SetBytes(rows * length * 8)
		for b.Loop() {
			for i := 1; i < rows; i++ {
				same[i] = batch.SameRow(lists, i-1, lists, i)
			}
		}
	})
}
