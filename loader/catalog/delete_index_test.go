package catalog_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// tableOf has a spec of a day, one of a bucket, and one without fields.
func tableOf() *catalog.Table {
	return &catalog.Table{Name: "ml.t", Specs: map[int]catalog.Spec{
		0: nil,
		1: {{ID: 1000, Source: 1, Name: "day", Transform: catalog.Transform{Kind: catalog.Identity}}},
		2: {{ID: 1001, Source: 2, Name: "b", Transform: catalog.Transform{Kind: catalog.Bucket, N: 4}}},
	}}
}

// applies is the specification's "Scan Planning" for one data file and one delete file,
// word for word; vectors say whether a vector is for the data file.
func applies(t *catalog.Table, f catalog.File, d *catalog.DeleteFile, vector bool) bool {
	same := f.Spec == d.Spec && fmt.Sprintf("%#v", f.Partition) == fmt.Sprintf("%#v", d.Partition)
	switch d.Kind {
	case catalog.DeletionVector:
		return d.Data == f.Location && f.Sequence <= d.Sequence
	case catalog.PositionDeletes:
		if vector || f.Sequence > d.Sequence {
			return false
		}
		if d.Data != "" {
			return d.Data == f.Location
		}
		return same
	case catalog.EqualityDeletes:
		return f.Sequence < d.Sequence && (same || len(t.Specs[d.Spec]) == 0)
	}
	panic(d.Kind)
}

// TestWhichDeletesApply compares the deletes of random tables with the rules, file by file.
//
// spec: delete-2, delete-3
func TestWhichDeletesApply(t *testing.T) {
	t.Parallel()
	table := tableOf()
	seen := map[string]int{}
	for seed := range uint64(2_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		partition := func(spec int) []any {
			switch spec {
			case 1:
				return []any{[]any{nil, int64(1), int64(2)}[r.IntN(3)]}
			case 2:
				return []any{int64(r.IntN(2))}
			}
			return nil
		}
		var files []catalog.File
		for i := range 1 + r.IntN(5) {
			spec := r.IntN(3)
			files = append(files, catalog.File{Location: fmt.Sprintf("f%d", i), Sequence: int64(r.IntN(4)), Spec: spec, Partition: partition(spec)})
		}
		var deletes []*catalog.DeleteFile
		vectors := map[string]bool{}
		for i := range r.IntN(8) {
			d := &catalog.DeleteFile{Location: fmt.Sprintf("d%d", i), Sequence: int64(r.IntN(5)), Spec: r.IntN(3)}
			d.Partition = partition(d.Spec)
			of := files[r.IntN(len(files))]
			switch d.Kind = catalog.DeleteKind(r.IntN(3)); d.Kind {
			case catalog.DeletionVector:
				if vectors[of.Location] {
					continue
				}
				vectors[of.Location], d.Data, d.Sequence = true, of.Location, of.Sequence+int64(r.IntN(2))
			case catalog.PositionDeletes:
				if r.IntN(2) == 0 {
					d.Data, d.Spec, d.Partition = of.Location, of.Spec, of.Partition
				}
			case catalog.EqualityDeletes:
				for _, id := range [][]int{{1}, {2}, {1, 2}}[r.IntN(3)] {
					d.Columns = append(d.Columns, catalog.Field{ID: id, Type: arrow.PrimitiveTypes.Int64})
				}
			}
			deletes = append(deletes, d)
		}
		require.NoError(t, catalog.Delete(table, files, deletes))
		for _, f := range files {
			var want, got []string
			for _, d := range deletes {
				if applies(table, f, d, vectors[f.Location]) {
					want = append(want, d.Location)
					seen[d.Kind.String()]++
				}
			}
			for _, d := range f.Deletes.All(f.Sequence) {
				got = append(got, d.Location)
			}
			slices.Sort(want)
			slices.Sort(got)
			require.Equal(t, want, got, "seed %d, file %s", seed, f.Location)
			require.Equal(t, len(want) == 0, f.Deletes.None())
			for _, g := range f.Deletes.Equality {
				require.True(t, slices.IsSortedFunc(g.Files, func(a, b *catalog.DeleteFile) int { return int(a.Sequence - b.Sequence) }))
				for _, d := range g.Files {
					require.Equal(t, g.Columns, d.Columns, "a group is of the same columns")
				}
			}
		}
	}
	for _, kind := range []catalog.DeleteKind{catalog.PositionDeletes, catalog.DeletionVector, catalog.EqualityDeletes} {
		require.Greater(t, seen[kind.String()], 100)
	}
}

// TestUnneededEqualityDeletesAreNotRead checks that equality deletes older than all files of
// their group are not read.
func TestUnneededEqualityDeletesAreNotRead(t *testing.T) {
	t.Parallel()
	columns := []catalog.Field{{ID: 1}}
	var deletes []*catalog.DeleteFile
	for sequence := range int64(6) {
		deletes = append(deletes, &catalog.DeleteFile{Kind: catalog.EqualityDeletes, Location: strconv.FormatInt(sequence, 10), Sequence: sequence, Columns: columns})
	}
	files := []catalog.File{{Location: "a", Sequence: 3}, {Location: "b", Sequence: 4}}
	require.NoError(t, catalog.Delete(tableOf(), files, deletes))
	require.Len(t, files[0].Deletes.Equality[0].Files, 2)
	require.Same(t, files[0].Deletes.Equality[0], files[1].Deletes.Equality[0], "one group is loaded once")
}

// spec: delete-5
func TestContradictoryVectorsAreCorrupt(t *testing.T) {
	t.Parallel()
	for name, deletes := range map[string][]*catalog.DeleteFile{
		"data file a has two deletion vectors, in v and in w": {
			{Kind: catalog.DeletionVector, Location: "v", Data: "a", Sequence: 5}, {Kind: catalog.DeletionVector, Location: "w", Data: "a", Sequence: 6},
		},
		"the deletion vector of data file a has sequence number 2, the file 3": {
			{Kind: catalog.DeletionVector, Location: "v", Data: "a", Sequence: 2},
		},
	} {
		err := catalog.Delete(tableOf(), []catalog.File{{Location: "a", Sequence: 3}}, deletes)
		require.Equal(t, fault.Corrupt, fault.KindOf(err))
		require.ErrorContains(t, err, name)
	}
}
