package lane_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
)

// BenchmarkRequests cuts batches of rows with 2 KB of values, ten rows per request: those of a
// request are adjacent, and each refers to itself, so that all of them are compared.
func BenchmarkRequests(b *testing.B) {
	const rows, each = 8192, 10
	v := visits{ranges: 1, keep: 1, cut: rows}
	for i := range rows {
		v.keys = append(v.keys, strconv.Itoa(i/each))
		v.values = append(v.values, strings.Repeat(strconv.Itoa(i/each%10), 2048))
	}
	whole := v.batch(memory.DefaultAllocator, 0, rows)
	defer whole.Release()
	v.made = whole
	b.SetBytes(rows * 2048)
	for b.Loop() {
		r := v.stream(memory.DefaultAllocator, nil, rows)
		require.True(b, r.Next())
		require.Equal(b, []int64{(rows + each - 1) / each}, r.Progress().Distinct)
		r.Release()
	}
}
