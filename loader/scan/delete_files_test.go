package scan_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/scan"
)

// TestDamagedDeletes checks that incomplete or contradictory delete files end the scan.
//
// spec: delete-5
func TestDamagedDeletes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		deletes func(r *rig) catalog.Deletes
		kind    fault.Kind
		text    string
	}{
		"missing": {func(r *rig) catalog.Deletes {
			d := r.positions("d", map[string][]int64{locationOf(0): {1}})
			d.Location = "file:///gone"
			return catalog.Deletes{Positions: []*catalog.DeleteFile{d}}
		}, fault.Corrupt, "file:///gone"},
		"a vector, missing": {func(r *rig) catalog.Deletes {
			d := r.vector("d", locationOf(0), 1)
			d.Location = "file:///gone"
			return catalog.Deletes{Vector: d}
		}, fault.Corrupt, "file:///gone"},
		"fewer rows than the manifest says": {func(r *rig) catalog.Deletes {
			d := r.positions("d", map[string][]int64{locationOf(0): {1}})
			d.Rows = 2
			return catalog.Deletes{Positions: []*catalog.DeleteFile{d}}
		}, fault.Corrupt, "the file's footer counts 1 rows, the manifest 2"},
		"a position behind the file": {func(r *rig) catalog.Deletes {
			return catalog.Deletes{Positions: []*catalog.DeleteFile{r.positions("d", map[string][]int64{locationOf(0): {1, 20}})}}
		}, fault.Corrupt, "position deletes in d deletes row 20 of a file of 20 rows"},
		"a position before the file": {func(r *rig) catalog.Deletes {
			return catalog.Deletes{Positions: []*catalog.DeleteFile{r.positions("d", map[string][]int64{locationOf(0): {-1}})}}
		}, fault.Corrupt, "it deletes row -1 of file:///t/0.parquet"},
		"a position that is null": {func(r *rig) catalog.Deletes {
			d := r.put("d", batchOf([]string{"file_path", "pos"}, columnOf(arrow.BinaryTypes.String, "a"), columnOf(arrow.PrimitiveTypes.Int64, "-")), 2147483546, 2147483545)
			return catalog.Deletes{Positions: []*catalog.DeleteFile{d}}
		}, fault.Corrupt, "pos"},
		"position deletes without positions": {func(r *rig) catalog.Deletes {
			d := r.put("d", batchOf([]string{"file_path"}, columnOf(arrow.BinaryTypes.String, "a")), 2147483546)
			return catalog.Deletes{Positions: []*catalog.DeleteFile{d}}
		}, fault.Corrupt, "the file has no column pos (field id 2147483545)"},
		"equality deletes without a column": {func(r *rig) catalog.Deletes {
			d := r.equality("d", 5, r.columns("id"), columnOf(arrow.PrimitiveTypes.Int64, "1"))
			d.Columns = r.columns("id", "key")
			return catalog.Deletes{Equality: []*catalog.EqualityGroup{group(d)}}
		}, fault.Corrupt, "the file has no column key (field id 2)"},
		"a vector of another number of rows": {func(r *rig) catalog.Deletes {
			d := r.vector("d", locationOf(0), 1, 2, 3)
			d.Rows = 2
			return catalog.Deletes{Vector: d}
		}, fault.Corrupt, "it has 3 positions, the manifest says 2"},
		"a vector behind the file": {func(r *rig) catalog.Deletes {
			return catalog.Deletes{Vector: r.vector("d", locationOf(0), 1, 1<<33)}
		}, fault.Corrupt, "a deletion vector in d deletes row 8589934592 of a file of 20 rows"},
		"a vector that does not lie there": {func(r *rig) catalog.Deletes {
			d := r.vector("d", locationOf(0), 1, 2, 3)
			d.Offset++
			return catalog.Deletes{Vector: d}
		}, fault.Corrupt, "the deletion vector at byte 5 of d cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.grow(20, 5, 1)
			r.list[0].Deletes = c.deletes(r)
			got := r.read(r.scanner(scan.Options{}), r.source(), r.columns("id"))
			require.Empty(t, got.lines)
			require.Equal(t, c.kind, fault.KindOf(got.err), "%v", got.err)
			require.ErrorContains(t, got.err, c.text)
			require.Equal(t, strings.HasSuffix(name, "missing"), errors.Is(got.err, fs.ErrNotExist), "the catalog checks whether the table still has the file")
			require.ErrorContains(t, got.err, "ml.impressions@8812")
			require.Equal(t, "ml.impressions", fault.As(got.err).Table)
		})
	}
}

// TestEveryBitOfAVector checks that every flipped bit of a vector is detected.
//
// spec: delete-5
func TestEveryBitOfAVector(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(20, 5, 1)
	d := r.vector("d", locationOf(0), 1, 2, 3, 9)
	r.list[0].Deletes.Vector = d
	for at := range d.Length {
		for bit := range 8 {
			r.store.Set(errstore.Rule{Location: "d", Call: errstore.Read, Action: errstore.Flip(d.Offset+at, 1<<bit)})
			got := r.read(r.scanner(scan.Options{}), r.source(), r.columns("id"))
			require.Equal(t, fault.Corrupt, fault.KindOf(got.err), "byte %d, bit %d: %v", at, bit, got.err)
		}
	}
	r.store.Set()
	got := r.read(r.scanner(scan.Options{}), r.source(), r.columns("id"))
	require.NoError(t, got.err)
	require.Len(t, got.lines, 16)
}

// TestVectorsOfOneBlob checks that entries of several data files may name the same blob, and
// that the vector loaded for one is not used for the other.
//
// spec: delete-2
func TestVectorsOfOneBlob(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.grow(4, 4, 1)
	r.grow(4, 4, 1)
	first := r.vector("d", locationOf(0), 1, 2)
	second := *first
	second.Data = locationOf(1)
	r.list[0].Deletes.Vector, r.list[1].Deletes.Vector = first, &second
	s := r.scanner(scan.Options{})
	kept := s.Keep(r.table, r.list)
	defer kept.Release()
	got := r.read(s, r.source(), r.columns("id"))
	require.NoError(t, got.err)
	require.Equal(t, r.want(r.source(), r.columns("id"), allBut(1, 2, 5, 6)), got.lines)
}
