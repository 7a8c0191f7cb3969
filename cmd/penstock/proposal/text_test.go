package proposal

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
)

// Comments stay on one line for all names of tables and columns.
func TestCommentsStayOnTheirLine(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	comments(&b, "Left out:", []string{"ml.a\nserver: {insecure: true}", "b\u2028c"})
	require.Equal(t, "\n# Left out:\n#   ml.a?server: {insecure: true}\n#   b?c\n", b.String())
}

// A point-in-time join is proposed if both tables have a date or timestamp column of the same type.
func TestPointInTimeIsProposed(t *testing.T) {
	t.Parallel()
	ts, utc := &arrow.TimestampType{Unit: arrow.Microsecond}, &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	training := &catalog.Table{Fields: []catalog.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}, {Name: "day", Type: arrow.FixedWidthTypes.Date32}, {Name: "at", Type: utc}}}
	for want, fields := range map[string][]catalog.Field{
		"": {{Name: "n", Type: arrow.PrimitiveTypes.Int64}, {Name: "local", Type: ts}, {Name: "odd"}},
		"        # point_in_time: {training: at, staging: \"made at\", tolerance: 7d}  # of several rows, the latest that is not in the future\n": {
			{Name: "local", Type: ts}, {Name: "made at", Type: utc}, {Name: "day", Type: arrow.FixedWidthTypes.Date32},
		},
	} {
		require.Equal(t, want, timesText(training, &catalog.Table{Fields: fields}))
	}
}
