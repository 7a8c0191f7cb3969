package expr

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

// limited is a Room with a limit.
type limited struct{ limit, held, peak int64 }

func (l *limited) Grow(bytes int64) error {
	if l.held+bytes > l.limit {
		return fault.New(fault.Exhausted, "%d bytes are too much", bytes)
	}
	l.held += bytes
	l.peak = max(l.peak, l.held)
	return nil
}

func (l *limited) Shrink(bytes int64) { l.held -= bytes }

func TestFiltersTakeRoomForTheValuesThatTheyCompute(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int32}, {Name: "s", Type: arrow.BinaryTypes.String}}, nil)
	var lines []string
	for i := range 500 {
		lines = append(lines, fmt.Sprintf(`{"n": %d, "s": %q}`, i%10, strings.Repeat("a", 1000)))
	}
	rows := batchOf(t, memory.DefaultAllocator, schema, "["+strings.Join(lines, ",")+"]")
	defer rows.Release()
	room := &limited{limit: 2 * chunkBytes}

	pass, err := bind(t, "n > 5 AND s <> 'b'", schema).Evaluate(rows, nil, room)
	require.NoError(t, err)
	require.Len(t, pass, 200)
	require.Zero(t, room.peak, "nothing is computed")

	pass, err = bind(t, "n + 0 > 5 AND s || s <> 'b'", schema).Evaluate(rows, nil, room)
	require.NoError(t, err)
	require.Len(t, pass, 200)
	require.Zero(t, room.held)
	require.Greater(t, room.peak, int64(chunkBytes/4))

	_, err = bind(t, "1 / n > 0 AND n + 0 > 5", schema).Evaluate(rows, pass, room)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.Zero(t, room.held)

	one := rows.NewSlice(0, 1)
	defer one.Release()
	for _, of := range []arrow.RecordBatch{rows, one} {
		tight := &limited{limit: 100}
		_, err = bind(t, "n + 0 >= 0 AND s || s <> 'b'", schema).Evaluate(of, nil, tight)
		require.Equal(t, fault.Exhausted, fault.KindOf(err))
		require.Zero(t, tight.held)
		_, err = bind(t, "n + 0 < 0 AND n + 1 < 0", schema).Keep(of, nil, nil, tight)
		require.Equal(t, of.NumRows() > 1, err != nil)
	}
}
