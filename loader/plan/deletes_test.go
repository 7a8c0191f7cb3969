package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/plan/explain"
	"github.com/penstock/penstock/loader/plan/plantest"
)

// vectorOf returns a deletion vector that deletes some rows of a file.
func vectorOf(location string, rows int64) catalog.Deletes {
	return catalog.Deletes{Vector: &catalog.DeleteFile{
		Kind: catalog.DeletionVector, Location: "d.puffin", Data: location, Bytes: 5_000, Rows: rows, Sequence: 2, Offset: 4, Length: 400,
	}}
}

// TestDeletedRowsArePlanned checks that splits and lanes count stored rows. A plan with
// deletes knows its number of rows only if they are all vectors and nothing else drops
// rows.
//
// spec: delete-6
func TestDeletedRowsArePlanned(t *testing.T) {
	t.Parallel()
	table := plantest.Training(4)
	files := func(deletes catalog.Deletes) []catalog.File {
		all := []catalog.File{plantest.File("a", int64(1), int64(0), 3_000_000, 1), plantest.File("b", int64(1), int64(1), 100, 1)}
		all[0].Deletes = deletes
		return all
	}
	whole := build(t, table, files(catalog.Deletes{}), dataset.Query{})
	rows, exact := whole.ExactRows()
	require.True(t, exact)
	require.EqualValues(t, 3_000_100, rows)

	vectors := build(t, table, files(vectorOf("a", 500)), dataset.Query{})
	require.Len(t, vectors.Splits, len(whole.Splits))
	require.Equal(t, whole.Lanes[0].Rows, vectors.Lanes[0].Rows)
	require.EqualValues(t, 3_000_100, vectors.StoredRows)
	rows, exact = vectors.ExactRows()
	require.True(t, exact)
	require.EqualValues(t, 2_999_600, rows, "the vector counts once, for all of the file's splits")
	require.Equal(t, "rows are deleted: 1 deletion vector", vectors.Inexact)
	require.Nil(t, vectors.Counts(), "it is unknown in which lane the rows are deleted")
	require.Contains(t, explain.Text(vectors, dataset.Query{}, nil), "rows 2999600 (exact; 3000100 as stored, rows are deleted: 1 deletion vector)")
	require.Contains(t, explain.Text(vectors, dataset.Query{}, nil), "  deletes: 1 deletion vector, 400 B\n")

	some := build(t, table, files(vectorOf("a", 500)), dataset.Query{Rows: dataset.Rows{Filter: datasettest.Filter("day = 1")}})
	_, exact = some.ExactRows()
	require.False(t, exact, "a filter drops rows too")

	position := &catalog.DeleteFile{Kind: catalog.PositionDeletes, Location: "p", Bytes: 100, Rows: 5, Sequence: 2}
	columns := table.Fields[:1]
	equal := &catalog.DeleteFile{Kind: catalog.EqualityDeletes, Location: "e", Bytes: 1_000, Rows: 5, Sequence: 2, Columns: columns}
	deletes := vectorOf("a", 500)
	deletes.Positions = []*catalog.DeleteFile{position}
	deletes.Equality = []*catalog.EqualityGroup{{Columns: columns, Files: []*catalog.DeleteFile{equal}}}
	mixed := build(t, table, files(deletes), dataset.Query{})
	_, exact = mixed.ExactRows()
	require.False(t, exact)
	require.Equal(t, "rows are deleted: 1 file of position deletes, 1 deletion vector, 1 file of equality deletes", mixed.Inexact)
	require.Equal(t, 3, mixed.DeleteFiles())
}

// TestSplitsAreNamedAfterTheirDeletes checks that each delete file that applies to a
// split's files changes the split's name, while an equality delete file that is not
// younger than its data file does not.
//
// spec: delete-9
func TestSplitsAreNamedAfterTheirDeletes(t *testing.T) {
	t.Parallel()
	table := plantest.Training(4)
	columns := table.Fields[:1]
	equality := func(sequences ...int64) catalog.Deletes {
		g := &catalog.EqualityGroup{Columns: columns}
		for _, s := range sequences {
			g.Files = append(g.Files, &catalog.DeleteFile{Kind: catalog.EqualityDeletes, Location: string(rune('a' + s)), Sequence: s, Columns: columns})
		}
		return catalog.Deletes{Equality: []*catalog.EqualityGroup{g}}
	}
	name := func(d catalog.Deletes) string {
		f := plantest.File("a", int64(1), int64(0), 100, 1)
		f.Deletes = d
		return build(t, table, []catalog.File{f}, dataset.Query{}).Splits[0].ID
	}
	other := vectorOf("a", 5)
	other.Vector.Offset = 90
	position := func(locations ...string) catalog.Deletes {
		var d catalog.Deletes
		for _, l := range locations {
			d.Positions = append(d.Positions, &catalog.DeleteFile{Location: l})
		}
		return d
	}
	names := map[string]bool{}
	for _, d := range []catalog.Deletes{
		{}, vectorOf("a", 5), other, position("p"), position("p", "q"), equality(2), equality(3), equality(2, 3),
	} {
		names[name(d)] = true
	}
	require.Len(t, names, 8)
	require.Equal(t, name(equality(2)), name(equality(1, 2)), "the first is not younger than the file")
	require.Equal(t, build(t, table, []catalog.File{plantest.File("a", int64(1), int64(0), 100, 1)}, dataset.Query{}).Splits[0].ID, name(catalog.Deletes{}))
}
