package parquet

import (
	"encoding/binary"
	"os"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/internal/store/storetest"
)

// fileOf opens a file with a footer changed by change.
func fileOf(t *testing.T, content []byte, rules []errstore.Rule, change func(*metadata.FileMetaData)) *File {
	t.Helper()
	const location = "file:///t/a.parquet"
	end := len(content) - trailer
	length := int(binary.LittleEndian.Uint32(content[end:]))
	meta, err := metadata.NewFileMetaData(slices.Clone(content[end-length:end]), nil)
	require.NoError(t, err)
	change(meta)
	footer, err := newFooter(location, meta, unknownTypes{}, int64(length), int64(len(content)))
	require.NoError(t, err)
	files := storetest.NewMemory()
	files.Put(location, content)
	object, err := errstore.New(files, rules...).Open(t.Context(), location, int64(len(content)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, object.Close()) })
	f, err := Open(t.Context(), object, Options{Footer: footer})
	require.NoError(t, err)
	return f
}

// bare removes the statistics from a footer.
func bare(meta *metadata.FileMetaData) {
	for _, g := range meta.RowGroups {
		for _, c := range g.Columns {
			c.MetaData.Statistics = nil
		}
	}
}

// TestPageStatistics compares the statistics of pages with those of the footer, for every
// type.
//
// spec: resolve-65
func TestPageStatistics(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/index-2.parquet")
	require.NoError(t, err)
	whole := fileOf(t, content, nil, func(*metadata.FileMetaData) {})
	without := fileOf(t, content, nil, bare)
	bounded := 0
	for group := range whole.RowGroups() {
		for id := 1; id <= 17; id++ {
			as := whole.fields[id-1].Type
			want, ok := whole.Statistics(group, id, as)
			require.True(t, ok)
			_, ok = without.Statistics(group, id, as)
			require.False(t, ok)
			bytes, ok := without.HasPageStatistics(group, id)
			require.True(t, ok)
			require.Positive(t, bytes)
			got, err := without.PageStatistics(t.Context(), group, id, as, nil)
			require.NoError(t, err)
			require.Equal(t, want, got, "%s", whole.fields[id-1].Name)
			if got.Lower != nil && got.Upper != nil {
				bounded++
			}
		}
	}
	require.Equal(t, 2*16, bounded, "all but the column of nulls")
	promoted, err := without.PageStatistics(t.Context(), 0, 11, &arrow.TimestampType{Unit: arrow.Microsecond}, nil)
	require.NoError(t, err)
	days, ok := whole.Statistics(0, 11, arrow.FixedWidthTypes.Date32)
	require.True(t, ok)
	require.Equal(t, days.Lower.(int64)*86_400_000_000, promoted.Lower)
}

// TestUnusablePageStatistics reads damaged indexes, and those at a wrong offset: they
// give no bounds, or the original ones. A failing read is an error.
func TestUnusablePageStatistics(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/index-2.parquet")
	require.NoError(t, err)
	const id = 2 // ints
	kind := arrow.PrimitiveTypes.Int32
	f := fileOf(t, content, nil, bare)
	at, length, ok := f.columnIndex(0, id-1)
	require.True(t, ok)
	good, err := f.PageStatistics(t.Context(), 0, id, kind, nil)
	require.NoError(t, err)
	unknown := 0
	for from := range length { // a list shorter or longer than the others, and bytes left over
		cut := slices.Clone(content)
		copy(cut[at+from:at+length], content[at+from+1:at+length])
		got, err := fileOf(t, cut, nil, bare).PageStatistics(t.Context(), 0, id, kind, nil)
		require.NoError(t, err)
		if got.Lower == nil && got.Upper == nil {
			unknown++
			continue
		}
		require.Equal(t, []any{good.Lower, good.Upper}, []any{got.Lower, got.Upper}, "without byte %d", from)
	}
	require.Greater(t, unknown*2, int(length))
	for name, change := range map[string]func(*metadata.FileMetaData){
		"past the end":     func(m *metadata.FileMetaData) { *m.RowGroups[0].Columns[id-1].ColumnIndexOffset = int64(len(content)) },
		"before the start": func(m *metadata.FileMetaData) { *m.RowGroups[0].Columns[id-1].ColumnIndexOffset = -1 },
		"empty":            func(m *metadata.FileMetaData) { *m.RowGroups[0].Columns[id-1].ColumnIndexLength = 0 },
		"far too long":     func(m *metadata.FileMetaData) { *m.RowGroups[0].Columns[id-1].ColumnIndexLength = 1 << 30 },
		"without an order": func(m *metadata.FileMetaData) { m.Schema.UpdateColumnOrders(make([]parquet.ColumnOrder, 17)) }, //nolint:errcheck // as many as there are
		"none":             func(m *metadata.FileMetaData) { m.RowGroups[0].Columns[id-1].ColumnIndexOffset = nil },
	} {
		f := fileOf(t, content, nil, func(m *metadata.FileMetaData) { bare(m); change(m) })
		_, ok := f.HasPageStatistics(0, id)
		require.False(t, ok, name)
		got, err := f.PageStatistics(t.Context(), 0, id, kind, nil)
		require.NoError(t, err)
		require.Equal(t, Statistics{Rows: -1, Nulls: -1, MayHaveNaN: true}, got, name)
	}
	broken := fileOf(t, content, []errstore.Rule{{Call: errstore.Read, Action: errstore.Fail(nil)}}, bare)
	_, err = broken.PageStatistics(t.Context(), 0, id, kind, nil)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "read the page index of file:///t/a.parquet")
}

// TestBoundsAcrossPages expects an unknown bound where a page with values has none.
func TestBoundsAcrossPages(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/index-2.parquet")
	require.NoError(t, err)
	f := fileOf(t, content, nil, bare)
	c, ok := f.bounder(0, 6, arrow.BinaryTypes.String)
	require.True(t, ok)
	texts := func(values ...string) (out [][]byte) {
		for _, v := range values {
			if out = append(out, []byte(v)); v == "-" {
				out[len(out)-1] = nil
			}
		}
		return out
	}
	for name, x := range map[string]struct {
		index        columnIndex
		lower, upper any
	}{
		"several":       {columnIndex{null: []bool{false, false, false}, min: texts("b", "a", "c"), max: texts("d", "f", "e")}, "a", "f"},
		"null pages":    {columnIndex{null: []bool{true, false, true}, min: texts("", "b", ""), max: texts("", "c", "z")}, "b", "c"},
		"all null":      {columnIndex{null: []bool{true}, min: texts(""), max: texts("")}, nil, nil},
		"no lower":      {columnIndex{null: []bool{false, false}, min: texts("b", "-"), max: texts("c", "d")}, nil, "d"},
		"no upper":      {columnIndex{null: []bool{false, false}, min: texts("b", "a"), max: texts("-", "d")}, "a", nil},
		"empty strings": {columnIndex{null: []bool{false, false}, min: texts("", "a"), max: texts("", "b")}, "", "b"},
	} {
		lower, upper := c.across(x.index)
		require.Equal(t, []any{x.lower, x.upper}, []any{lower, upper}, name)
	}
	require.Equal(t, int64(-1), (&columnIndex{nulls: []int64{1, -1}}).nullCount())
	require.Equal(t, int64(3), (&columnIndex{nulls: []int64{1, 2}}).nullCount())
	require.Equal(t, []int{-1, 0, 1}, []int{compareBounds(false, true), compareBounds(true, true), compareBounds(true, false)})
}
