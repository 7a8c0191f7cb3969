package joiner_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/joinertest"
	"github.com/penstock/penstock/joiner/rule"
)

// product is a join of one training key with two staging tables that have it many times.
func product(ctx context.Context, t *testing.T, mem memory.Allocator, sizes ...int) (*joiner.Reader, error) {
	training := joinertest.Table{Name: "training", Fields: joinertest.Columns(t, "request long", "word string"), Rows: joinertest.Parse("7 a, 8 b, 7 c")}
	opts := joiner.Options{Memory: mem}
	var probes []joiner.Probe
	for i, n := range sizes {
		staging := joinertest.Table{Name: "staging", Fields: joinertest.Columns(t, "req long", "n long")}
		for row := range n {
			staging.Rows = append(staging.Rows, []string{"7", strconv.Itoa(row)})
		}
		rule := joiner.Rule{Name: fmt.Sprintf("table%d", i), Duplicates: rule.DuplicatesAll}
		probes = append(probes, staging.Probe(t, 1, rule, joiner.BuildSpec{}, opts))
	}
	return joiner.Join(ctx, training.Input(t, mem, nil, []int{1}), probes, opts)
}

// spec: join-32, join-33, join-34
func TestProductsAreSplitIntoBatches(t *testing.T) {
	r, err := product(t.Context(), t, joinertest.Checked(t), 100, 1, 90)
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
		got = append(got, joinertest.Text(t, r.RecordBatch())...)
	}
	require.NoError(t, r.Err())
	require.Equal(t, want, got)
}

// A product that does not fit in memory is returned as far as it is read.
// spec: join-34
func TestHugeProductsStream(t *testing.T) {
	r, err := product(t.Context(), t, joinertest.Checked(t), 3000, 3000, 3000)
	require.NoError(t, err)
	require.True(t, r.Next())
	require.True(t, r.Next())
	require.EqualValues(t, 16_384, r.RecordBatch().NumRows())
	r.Release()
}

// spec: join-23
func TestCancellationWithinAProduct(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, err := product(ctx, t, joinertest.Checked(t), 300, 300)
	require.NoError(t, err)
	require.True(t, r.Next())
	cancel()
	require.False(t, r.Next())
	require.ErrorIs(t, r.Err(), context.Canceled)
	r.Release()
}
