package fault_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

func TestLinesReportsFaultsByLine(t *testing.T) {
	var got [][]string
	faults := fault.Lines([]byte("# a b\n\n  one two \r\nthree\n"), func(words []string) string {
		got = append(got, words)
		return strings.Repeat("too few", len(words)%2)
	})
	require.Equal(t, [][]string{{"one", "two"}, {"three"}}, got)
	require.Equal(t, []fault.Field{{Field: "line 4", Message: "too few"}}, faults)

	faults = fault.Lines(make([]byte, 1<<17), func([]string) string { return "" })
	require.Len(t, faults, 1, "a line that is too long is a fault")
}
