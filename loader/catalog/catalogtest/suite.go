package catalogtest

import (
	"context"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// events is the table of most tests.
const events = "ml.events"

// Run tests that a catalog does what the comments of catalog.Catalog promise. It calls open once
// for each test.
func Run(t *testing.T, open func(t *testing.T) Rig) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Rig){
		"an empty table":              testEmpty,
		"a table's columns and specs": testSchema,
		"refs":                        testRefs,
		"a branch of its own":         testBranch,
		"schemas of refs":             testSchemaOfRefs,
		"a pin holds":                 testPinHolds,
		"expired snapshots":           testExpired,
		"a table made again":          testRecreated,
		"unknown names":               testUnknown,
		"files":                       testFiles,
		"ranges":                      testRanges,
		"ranks":                       testRanks,
		"changed columns":             testChanged,
		"a cancelled context":         testCancelled,
		"concurrent use":              testConcurrent,
		"appended since":              testAppended,
		"appended since, by chance":   testAppendedByChance,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func file(name string, bucket int64) File {
	return File{Location: "/warehouse/" + name + ".parquet", Rows: 10, Partition: [3]any{bucket, int64(20000), "fr"}}
}

func fields(t *testing.T, got []catalog.Field) []string {
	t.Helper()
	out := make([]string, len(got))
	for i, f := range got {
		out[i] = strconv.Itoa(f.ID) + " " + f.Name + " " + f.Type.String() + " " + strconv.FormatBool(f.Required)
	}
	return out
}

// pinned opens a table and lists its files.
func pinned(t *testing.T, r Rig, ref dataset.Ref) (*catalog.Table, []catalog.File) {
	t.Helper()
	table, err := r.Catalog.Table(t.Context(), events, ref)
	require.NoError(t, err)
	files, err := r.Catalog.Files(t.Context(), table, []int{IDColumn}, nil)
	require.NoError(t, err)
	return table, files
}

func isFault(t *testing.T, err error, kind fault.Kind, parts ...string) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, kind.String(), fault.KindOf(err).String(), "%v", err)
	for _, p := range parts {
		require.ErrorContains(t, err, p)
	}
}

func testEmpty(t *testing.T, r Rig) {
	r.Create(t, events)
	for _, ref := range []dataset.Ref{{}, {Name: "main"}} {
		table, files := pinned(t, r, ref)
		assert.Equal(t, int64(dataset.NoSnapshot), table.Pin.Snapshot)
		assert.Empty(t, files)
		again, err := r.Catalog.At(t.Context(), events, table.Pin)
		require.NoError(t, err)
		assert.Equal(t, table, again)
	}
	_, err := r.Catalog.Table(t.Context(), events, dataset.Ref{Name: "nightly"})
	isFault(t, err, fault.NotFound, events, "nightly")

	// A pin of the empty table has no files even after a commit.
	table, _ := pinned(t, r, dataset.Ref{})
	r.Commit(t, events, Commit{Add: []File{file("a", 0)}})
	files, err := r.Catalog.Files(t.Context(), table, []int{IDColumn}, nil)
	require.NoError(t, err)
	assert.Empty(t, files)
}

func testSchema(t *testing.T, r Rig) {
	r.Create(t, events)
	table, _ := pinned(t, r, dataset.Ref{})
	assert.Equal(t, events, table.Name)
	assert.NotEmpty(t, table.Pin.UUID)
	assert.Equal(t, fields(t, Fields()), fields(t, table.Fields))
	assert.Equal(t, map[int]catalog.Spec{0: Spec()}, table.Specs)
}

func testRefs(t *testing.T, r Rig) {
	r.Create(t, events)
	a, b := file("a", 0), file("b", 1)
	first := r.Commit(t, events, Commit{Add: []File{a}})
	r.SetRef(t, events, Ref{Name: "v1", Tag: true, Snapshot: first})
	r.SetRef(t, events, Ref{Name: "audit", Snapshot: first})
	second := r.Commit(t, events, Commit{Add: []File{b}})

	old := []catalog.File{a.Expect(1)}
	whole := []catalog.File{a.Expect(1), b.Expect(2)}
	for _, c := range []struct {
		name     string
		ref      dataset.Ref
		snapshot int64
		files    []catalog.File
	}{
		{"zero", dataset.Ref{}, second, whole},
		{"main", dataset.Ref{Name: "main"}, second, whole},
		{"branch", dataset.Ref{Name: "audit"}, first, old},
		{"tag", dataset.Ref{Name: "v1"}, first, old},
		{"snapshot", dataset.Ref{Snapshot: first}, first, old},
		{"newest snapshot", dataset.Ref{Snapshot: second}, second, whole},
	} {
		t.Run(c.name, func(t *testing.T) {
			table, files := pinned(t, r, c.ref)
			assert.Equal(t, c.snapshot, table.Pin.Snapshot)
			assert.Equal(t, c.files, files)
		})
	}
}

func testBranch(t *testing.T, r Rig) {
	r.Create(t, events)
	a, b, c := file("a", 0), file("b", 1), file("c", 2)
	first := r.Commit(t, events, Commit{Add: []File{a}})
	r.SetRef(t, events, Ref{Name: "audit", Snapshot: first})
	r.Commit(t, events, Commit{Branch: "audit", Add: []File{b}})
	r.Commit(t, events, Commit{Add: []File{c}})

	_, main := pinned(t, r, dataset.Ref{})
	assert.Equal(t, []catalog.File{a.Expect(1), c.Expect(3)}, main)
	_, audit := pinned(t, r, dataset.Ref{Name: "audit"})
	assert.Equal(t, []catalog.File{a.Expect(1), b.Expect(2)}, audit)
}

func testSchemaOfRefs(t *testing.T, r Rig) {
	r.Create(t, events)
	first := r.Commit(t, events, Commit{Add: []File{file("a", 0)}})
	r.SetRef(t, events, Ref{Name: "v1", Tag: true, Snapshot: first})
	r.SetRef(t, events, Ref{Name: "audit", Snapshot: first})
	wider := append(Fields(), catalog.Field{ID: 6, Name: "clicks", Type: arrow.PrimitiveTypes.Int32})
	r.Alter(t, events, wider)

	for _, c := range []struct {
		name   string
		ref    dataset.Ref
		fields []catalog.Field
		fixed  bool
	}{
		{"main has the current schema", dataset.Ref{}, wider, false},
		{"so has a branch", dataset.Ref{Name: "audit"}, wider, false},
		{"a tag has its own", dataset.Ref{Name: "v1"}, Fields(), true},
		{"so has a snapshot", dataset.Ref{Snapshot: first}, Fields(), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			table, _ := pinned(t, r, c.ref)
			assert.Equal(t, fields(t, c.fields), fields(t, table.Fields))
			assert.Equal(t, c.fixed, table.FixedSchema)
			cached, _ := pinned(t, r, c.ref)
			assert.Equal(t, table, cached)
			again, err := r.Catalog.At(t.Context(), events, table.Pin)
			require.NoError(t, err)
			opened := *table
			opened.FixedSchema = false // a pin does not tell how it was found
			assert.Equal(t, &opened, again)
		})
	}
}

func testPinHolds(t *testing.T, r Rig) {
	r.Create(t, events)
	a, b, c := file("a", 0), file("b", 1), file("c", 1)
	r.Commit(t, events, Commit{Add: []File{a, b}})
	before, files := pinned(t, r, dataset.Ref{})

	r.Commit(t, events, Commit{Add: []File{c}})
	r.Commit(t, events, Commit{Remove: []File{b}})
	r.Alter(t, events, append(Fields(), catalog.Field{ID: 6, Name: "clicks", Type: arrow.PrimitiveTypes.Int32}))
	r.SetRef(t, events, Ref{Name: "audit", Snapshot: before.Pin.Snapshot})

	_, now := pinned(t, r, dataset.Ref{})
	assert.Equal(t, []catalog.File{a.Expect(1), c.Expect(2)}, now, "what stays keeps its sequence number")

	after, err := r.Catalog.At(t.Context(), events, before.Pin)
	require.NoError(t, err)
	same := *after
	same.OtherNames = before.OtherNames // at the time when the pin was opened
	assert.Equal(t, before, &same)
	if len(after.OtherNames) > 0 { // the catalog knows other schemas
		assert.Equal(t, []catalog.OtherName{{ID: 6, Name: "clicks", Current: true}}, after.OtherNames)
	}
	again, err := r.Catalog.Files(t.Context(), after, []int{IDColumn}, nil)
	require.NoError(t, err)
	assert.Equal(t, files, again)
}

// testRanks tests that files without sequence numbers are ordered by their locations, and that
// their ranks tell in which order they were committed, as far as this is known.
func testRanks(t *testing.T, r Rig) {
	type rank struct {
		name     string
		sequence int64
		rank     int
	}
	ranks := func(ref dataset.Ref) []rank {
		_, files := pinned(t, r, ref)
		var out []rank
		for _, f := range files {
			assert.Equal(t, f.Sequence == 0, f.Snapshot != 0, f.Location)
			out = append(out, rank{f.Location[len("/warehouse/") : len("/warehouse/")+1], f.Sequence, f.Rank})
		}
		return out
	}
	r.Unsequenced(t, events)
	first := r.Commit(t, events, Commit{Add: []File{file("d", 0)}})
	second := r.Commit(t, events, Commit{Add: []File{file("c", 0), file("e", 0)}})
	third := r.Commit(t, events, Commit{Add: []File{file("a", 0)}})
	assert.Equal(t, []rank{{"a", 0, 3}, {"c", 0, 2}, {"d", 0, 1}, {"e", 0, 2}}, ranks(dataset.Ref{}))
	assert.Equal(t, []rank{{"c", 0, 2}, {"d", 0, 1}, {"e", 0, 2}}, ranks(dataset.Ref{Snapshot: second}))
	r.SetRef(t, events, Ref{Name: "third", Tag: true, Snapshot: third})

	r.Commit(t, events, Commit{Remove: []File{file("c", 0)}, Add: []File{file("b", 0)}})
	assert.Equal(t, []rank{{"a", 0, 3}, {"b", 0, 4}, {"d", 0, 1}, {"e", 0, 2}}, ranks(dataset.Ref{}))
	r.Expire(t, events, second)
	assert.Equal(t, []rank{{"a", 0, 1}, {"b", 0, 2}, {"d", 0, catalog.BeforeRanks}, {"e", 0, catalog.BeforeRanks}}, ranks(dataset.Ref{}),
		"the first snapshot is still there, and no parent of any that is known")
	assert.Equal(t, []rank{{"d", 0, 1}}, ranks(dataset.Ref{Snapshot: first}))

	r.Sequenced(t, events)
	r.Commit(t, events, Commit{Add: []File{file("0", 0)}})
	got := ranks(dataset.Ref{})
	assert.Equal(t, []rank{{"a", 0, 1}, {"b", 0, 2}, {"d", 0, catalog.BeforeRanks}, {"e", 0, catalog.BeforeRanks}}, got[:4])
	assert.Equal(t, "0", got[4].name)
	assert.Positive(t, got[4].sequence)
	assert.Zero(t, got[4].rank)
}

func testExpired(t *testing.T, r Rig) {
	r.Create(t, events)
	r.Commit(t, events, Commit{Add: []File{file("a", 0)}})
	table, _ := pinned(t, r, dataset.Ref{})
	r.Commit(t, events, Commit{Add: []File{file("b", 1)}})
	r.Expire(t, events, table.Pin.Snapshot)

	id := strconv.FormatInt(table.Pin.Snapshot, 10)
	_, err := r.Catalog.At(t.Context(), events, table.Pin)
	isFault(t, err, fault.Expired, id, events)
	assert.Equal(t, events, fault.As(err).Table)
	_, err = r.Catalog.Files(t.Context(), table, []int{IDColumn}, nil)
	isFault(t, err, fault.Expired, id, events)
	_, err = r.Catalog.Table(t.Context(), events, dataset.Ref{Snapshot: table.Pin.Snapshot})
	isFault(t, err, fault.NotFound, id, events)

	table, _ = pinned(t, r, dataset.Ref{})
	table.Pin.Schema = 99
	_, err = r.Catalog.At(t.Context(), events, table.Pin)
	isFault(t, err, fault.Expired, "99", events)
}

func testRecreated(t *testing.T, r Rig) {
	r.Create(t, events)
	r.Commit(t, events, Commit{Add: []File{file("a", 0)}})
	table, _ := pinned(t, r, dataset.Ref{})
	r.Drop(t, events)

	_, err := r.Catalog.At(t.Context(), events, table.Pin)
	isFault(t, err, fault.NotFound, events)
	_, err = r.Catalog.Files(t.Context(), table, []int{IDColumn}, nil)
	isFault(t, err, fault.NotFound, events)

	r.Create(t, events)
	for _, pin := range []dataset.TablePin{table.Pin, {UUID: table.Pin.UUID, Snapshot: dataset.NoSnapshot}} {
		_, err = r.Catalog.At(t.Context(), events, pin)
		isFault(t, err, fault.Expired, events, table.Pin.UUID)
	}
	_, err = r.Catalog.Files(t.Context(), table, []int{IDColumn}, nil)
	isFault(t, err, fault.Expired, events, table.Pin.UUID)
}

func testUnknown(t *testing.T, r Rig) {
	r.Create(t, events)
	r.Create(t, "ml.users")
	id := r.Commit(t, events, Commit{Add: []File{file("a", 0)}})
	r.SetRef(t, events, Ref{Name: "nightly", Tag: true, Snapshot: id})

	for _, c := range []struct {
		name, table string
		ref         dataset.Ref
		nearest     string
	}{
		{"table", "ml.event", dataset.Ref{}, events},
		{"namespace", "mk.events", dataset.Ref{}, events},
		{"nothing near", "warehouse.orders", dataset.Ref{}, ""},
		{"ref", events, dataset.Ref{Name: "nihgtly"}, "nightly"},
		{"snapshot", events, dataset.Ref{Snapshot: id ^ 2}, strconv.FormatInt(id, 10)},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := r.Catalog.Table(t.Context(), c.table, c.ref)
			isFault(t, err, fault.NotFound, c.table)
			e := fault.As(err)
			require.Len(t, e.Faults, 1)
			assert.Equal(t, c.nearest, e.Faults[0].Nearest)
			assert.Equal(t, c.table, e.Table)
		})
	}
	for _, name := range []string{"events", "", "ml.", ".events", "ml..events"} {
		_, err := r.Catalog.Table(t.Context(), name, dataset.Ref{})
		isFault(t, err, fault.Invalid)
	}
	table, _ := pinned(t, r, dataset.Ref{})
	_, err := r.Catalog.Files(t.Context(), table, []int{77}, nil)
	isFault(t, err, fault.Invalid, "77", events)
}

func testFiles(t *testing.T, r Rig) {
	r.Create(t, events)
	b, a := file("b", 3), file("a", 0)
	b.Partition = [3]any{int64(3), int64(-1), ""}
	a.Partition = [3]any{nil, nil, nil}
	z := file("Z", 2)
	r.Commit(t, events, Commit{Add: []File{b, a}})
	r.Commit(t, events, Commit{Add: []File{z}})

	table, files := pinned(t, r, dataset.Ref{})
	assert.Equal(t, []catalog.File{a.Expect(1), b.Expect(1), z.Expect(2)}, files, "by sequence number, then location")
	none, err := r.Catalog.Files(t.Context(), table, nil, nil)
	require.NoError(t, err)
	assert.Equal(t, files, none, "columns change nothing but what is refused")
}

func testRanges(t *testing.T, r Rig) {
	r.Create(t, events)
	a := file("a", 0)
	a.Lower = map[int]any{IDColumn: int64(-5), ScoreColumn: -0.5, NoteColumn: "a"}
	a.Upper = map[int]any{IDColumn: int64(1) << 40, ScoreColumn: 1e9, NoteColumn: "zé"}
	a.Nulls = map[int]int64{IDColumn: 0, ScoreColumn: 10}
	b := file("b", 1)
	r.Commit(t, events, Commit{Add: []File{a, b}})
	table, _ := pinned(t, r, dataset.Ref{})

	for _, bounds := range [][]int{nil, {IDColumn}, {ScoreColumn}, {NoteColumn, IDColumn}} {
		files, err := r.Catalog.Files(t.Context(), table, []int{IDColumn}, bounds)
		require.NoError(t, err)
		assert.Equal(t, []catalog.File{a.Expect(1, bounds...), b.Expect(1, bounds...)}, files)
	}
}

func testChanged(t *testing.T, r Rig) {
	r.Create(t, events)
	a, b := file("a", 0), file("b", 1)
	r.Commit(t, events, Commit{Add: []File{a}})
	changed := append(Fields(), catalog.Field{ID: 6, Name: "clicks", Type: arrow.PrimitiveTypes.Int32})
	changed[NoteColumn-1].Name = "remark"
	r.Alter(t, events, changed)
	r.Commit(t, events, Commit{Add: []File{b}})
	changed[5].Type = arrow.PrimitiveTypes.Int64
	r.Alter(t, events, changed)

	table, files := pinned(t, r, dataset.Ref{})
	assert.Equal(t, []catalog.File{a.Expect(1), b.Expect(2)}, files)
	files, err := r.Catalog.Files(t.Context(), table, []int{IDColumn, NoteColumn, 6}, nil)
	require.NoError(t, err)
	assert.Equal(t, []catalog.File{a.Expect(1), b.Expect(2)}, files, "columns that were renamed or promoted are read by their ids")
}

func testCancelled(t *testing.T, r Rig) {
	r.Create(t, events)
	r.Commit(t, events, Commit{Add: []File{file("a", 0)}})
	table, _ := pinned(t, r, dataset.Ref{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Catalog.Table(ctx, events, dataset.Ref{})
	require.ErrorIs(t, err, context.Canceled)
	_, err = r.Catalog.At(ctx, events, table.Pin)
	require.ErrorIs(t, err, context.Canceled)
	_, err = r.Catalog.Files(ctx, table, []int{IDColumn}, nil)
	require.ErrorIs(t, err, context.Canceled)

	// A call that was canceled does not affect later calls.
	_, files := pinned(t, r, dataset.Ref{})
	assert.Len(t, files, 1)
}

func testConcurrent(t *testing.T, r Rig) {
	r.Create(t, events)
	r.Commit(t, events, Commit{Add: []File{file("a", 0)}})
	table, files := pinned(t, r, dataset.Ref{})
	var readers errgroup.Group
	for range 4 {
		readers.Go(func() error {
			for range 3 {
				again, err := r.Catalog.At(t.Context(), events, table.Pin)
				if err != nil {
					return err
				}
				got, err := r.Catalog.Files(t.Context(), again, []int{IDColumn}, nil)
				if err != nil {
					return err
				}
				assert.Equal(t, files, got)
			}
			return nil
		})
	}
	for _, name := range []string{"b", "c", "d"} {
		r.Commit(t, events, Commit{Add: []File{file(name, 1)}})
	}
	require.NoError(t, readers.Wait())
}
