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

// Deletes do not change the ids of splits, so the rows that stay keep their order.
//
// spec: order-2, delete-9
func TestDeletesDoNotChangeSplits(t *testing.T) {
	t.Parallel()
	table := plantest.Training(4)
	columns := table.Fields[:1]
	equal := &catalog.DeleteFile{Kind: catalog.EqualityDeletes, Location: "e", Sequence: 2, Columns: columns}
	ids := map[string]bool{}
	for _, d := range []catalog.Deletes{
		{},
		vectorOf("a", 5),
		{Positions: []*catalog.DeleteFile{{Location: "p"}}},
		{Equality: []*catalog.EqualityGroup{{Columns: columns, Files: []*catalog.DeleteFile{equal}}}},
	} {
		f := plantest.File("a", int64(1), int64(0), 100, 1)
		f.Deletes = d
		ids[build(t, table, []catalog.File{f}, dataset.Query{}).Splits[0].ID] = true
	}
	require.Len(t, ids, 1)
}
