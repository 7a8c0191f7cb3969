package joiner

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/joiner/rule"
)

// product is a join of one training key with two staging tables that have it
// many times.
func product(t *testing.T, mem memory.Allocator, sizes ...int) (*Reader, error) {
	training := table{name: "training", fields: columns(t, "request long", "word string"), rows: parse("7 a, 8 b, 7 c")}
	opts := Options{Memory: mem}
	var probes []Probe
	for i, n := range sizes {
		staging := table{name: "staging", fields: columns(t, "req long", "n long")}
		for row := range n {
			staging.rows = append(staging.rows, []string{"7", strconv.Itoa(row)})
		}
		rule := Rule{Name: fmt.Sprintf("level%d", i), Duplicates: rule.DuplicatesAll}
		probes = append(probes, staging.probe(t, 1, rule, BuildSpec{}, opts))
	}
	return Join(t.Context(), training.input(t, mem, nil, []int{1}), probes, opts)
}

// spec: join-32, join-33, join-34
func TestProductsAreCut(t *testing.T) {
	r, err := product(t, checked(t), 100, 1, 90)
	require.NoError(t, err)
	defer r.Release()
	var want, got []string
	for _, word := range []string{"a", "b", "c"} {
		if word == "b" {
			want = append(want, "b (null) (null) (null)")
			continue
		}
		for i := range 100 {
			for k := range 90 {
				want = append(want, fmt.Sprintf("%s %d 0 %d", word, i, k))
			}
		}
	}
	for r.Next() {
		require.LessOrEqual(t, r.RecordBatch().NumRows(), int64(16_384))
		got = append(got, text(t, r.RecordBatch())...)
	}
	require.NoError(t, r.Err())
	require.Equal(t, want, got)
}

// A product that nobody could hold is given as far as somebody asks for it.
// spec: join-34
func TestHugeProductsStream(t *testing.T) {
	r, err := product(t, checked(t), 3000, 3000, 3000)
	require.NoError(t, err)
	require.True(t, r.Next())
	require.True(t, r.Next())
	require.EqualValues(t, 16_384, r.RecordBatch().NumRows())
	r.Release()
}

// spec: join-23
func TestCancellationWithinAProduct(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, err := product(t, checked(t), 300, 300)
	require.NoError(t, err)
	r.join.ctx = ctx
	require.True(t, r.Next())
	cancel()
	require.False(t, r.Next())
	require.ErrorIs(t, r.Err(), context.Canceled)
	r.Release()
}
