package scan_test

import (
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/scan"
)

// lineage is a table of format version 3 with three files: of five rows in groups of
// two, without ids of their own; of three that store some; and of two from before.
func lineage(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.table.Lineage = catalog.LineageFields()
	first := r.grow(5, 2, 1)
	first.FirstRow, first.Sequence = new(int64(1000)), 7
	r.table.Fields, r.table.Specs[0] = r.table.Fields[:1], nil
	long := arrow.PrimitiveTypes.Int64
	r.addFile(nil, `[{"id":5,"_row_id":3,"_last_updated_sequence_number":null},{"id":6,"_row_id":null,"_last_updated_sequence_number":2},
		{"id":7,"_row_id":null,"_last_updated_sequence_number":null}]`,
		withID(1, "id", long), withID(2147483540, "_row_id", long), withID(2147483539, "_last_updated_sequence_number", long))
	second := &r.list[1]
	second.FirstRow, second.Sequence = new(int64(0)), 9
	r.next = 8
	r.grow(2, 2, 1).Sequence = 4
	return r
}

// TestLineage checks that ids count the stored rows, whichever rows are read, and that
// values stored in the file take precedence.
//
// spec: resolve-78
func TestLineage(t *testing.T) {
	t.Parallel()
	r := lineage(t)
	columns := append(r.columns("id"), r.table.Lineage...)
	want := []string{
		"0 | 1000 | 7", "1 | 1001 | 7", "2 | 1002 | 7", "3 | 1003 | 7", "4 | 1004 | 7",
		"5 | 3 | 9", "6 | 1 | 2", "7 | 2 | 9",
		"8 | (null) | (null)", "9 | (null) | (null)",
	}
	for _, opts := range []scan.Options{{}, {BatchRows: 1}, {BatchRows: 3}} {
		source := r.source()
		source.Checked, source.Planned = nil, []int{1, 2147483539, 2147483540}
		got := r.read(r.scanner(opts), source, columns)
		require.NoError(t, got.err)
		require.Equal(t, want, got.lines)

		// A range of the rows, and groups that statistics leave out.
		source.Files[0].From, source.Files[0].To = 1, 4
		got = r.read(r.scanner(opts), source, columns)
		require.NoError(t, got.err)
		require.Equal(t, append(append([]string{}, want[1:4]...), want[5:]...), got.lines)
		source.Files[0].From, source.Files[0].To = 0, 5
		source.Filter = r.filter("id IN (3, 4, 6)")
		got = r.read(r.scanner(opts), source, columns)
		require.NoError(t, got.err)
		require.Equal(t, []string{want[3], want[4], want[6]}, got.lines)

		got = r.read(r.scanner(opts), source, r.table.Lineage[:1])
		require.NoError(t, got.err)
		require.Len(t, got.lines, 3)
		for i, id := range []int{1003, 1004, 1} {
			require.Equal(t, strconv.Itoa(id), got.lines[i])
		}
	}
}
