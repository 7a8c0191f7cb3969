package parquet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSurplusValuesAreAnError: a page that held more values than its rows took
// held something else, such as levels.
func TestSurplusValuesAreAnError(t *testing.T) {
	l := &leaf{pages: &pages{}, width: 8, values: make([]byte, 16)}
	out := make([]byte, 8)
	require.NoError(t, l.take(out, 1))
	_, err := l.next()
	require.ErrorContains(t, err, "more values than rows")
	require.NoError(t, l.take(out, 1))
	require.Error(t, l.take(out, 1), "nor are there fewer")
}
