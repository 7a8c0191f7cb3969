package deletes

import (
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
)

// TestFormsDistinguishRows checks that two rows have the same form exactly if they are
// equal, even if text continues from one column into the next, and with nulls.
//
// spec: delete-3
func TestFormsDistinguishRows(t *testing.T) {
	t.Parallel()
	text := func(values ...any) arrow.Array {
		b := array.NewStringBuilder(memory.DefaultAllocator)
		for _, v := range values {
			if v == nil {
				b.AppendNull()
			} else {
				b.Append(v.(string))
			}
		}
		return b.NewArray()
	}
	columns := []arrow.Array{text("a", "ab", "", nil, nil, "", "a"), text("bc", "c", "", "", nil, nil, "bc")}
	rows := map[string]int{}
	for row := range 7 {
		key, err := appendKey(nil, columns, row)
		require.NoError(t, err)
		if row == 6 {
			require.Equal(t, 0, rows[string(key)], "rows 0 and 6 are equal")
			continue
		}
		_, known := rows[string(key)]
		require.False(t, known, "row %d", row)
		rows[string(key)] = row
	}
}

// TestFloatsAreEqualByTheirBits checks that floats are compared by their bits, except that
// all NaNs are equal.
func TestFloatsAreEqualByTheirBits(t *testing.T) {
	t.Parallel()
	b := array.NewFloat64Builder(memory.DefaultAllocator)
	b.AppendValues([]float64{0, math.Copysign(0, -1), math.NaN(), math.Float64frombits(0x7ff8000000000123), 1}, nil)
	columns := []arrow.Array{b.NewArray()}
	key := func(row int) string {
		f, err := appendKey(nil, columns, row)
		require.NoError(t, err)
		return string(f)
	}
	require.NotEqual(t, key(0), key(1))
	require.Equal(t, key(2), key(3))
	require.NotEqual(t, key(3), key(4))
}
