package tablediff_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage/stagetest"
	"github.com/penstock/penstock/loader/tablediff"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a catalog, a Stager and a Comparer.
type rig struct{ *stagetest.Rig }

func newRig(t *testing.T, limit int64, rules ...errstore.Rule) rig {
	t.Helper()
	return rig{stagetest.New(t, limit, nil, rules...)}
}

// compare compares snapshots of the table.
func (r rig) compare(t *testing.T, request tablediff.Request) (*tablediff.Result, error) {
	t.Helper()
	held, err := r.Budget.Reserve("history", 0)
	require.NoError(t, err)
	defer held.Release()
	request.History, err = r.Tables.History(t.Context(), stagetest.History, held)
	require.NoError(t, err)
	return tablediff.New(tablediff.Options{Tables: &r.Tables, Read: r.Tables.Read(r.Budget), Rows: r.Rows}).Compare(t.Context(), request)
}

// changes compares snapshots, and requires success.
func (r rig) changes(t *testing.T, request tablediff.Request) *tablediff.Result {
	t.Helper()
	out, err := r.compare(t, request)
	require.NoError(t, err)
	return out
}

func id(n int64) string { return strconv.FormatInt(n, 10) }

// Keys that were added, gone and changed are counted, with their columns; equal rows in other files
// did not change. Files of both snapshots are not read.
//
// spec: history-18, history-19, history-20, history-21
func TestKeysAreCompared(t *testing.T) {
	r := newRig(t, stagetest.Unlimited)
	r.Daily(t)
	first := r.Stage(t, dataset.TableWrite{Table: stagetest.History, Key: []string{"id"}}, stagetest.Schema(), `[
		{"id": 1, "day": "2026-10-01", "items": [1, 2], "country": "CH"},
		{"id": 2, "day": "2026-10-01", "items": [3, null], "country": "DE"},
		{"id": 3, "day": "2026-10-01", "items": null, "country": null},
		{"id": 4, "day": "2026-10-01", "items": [], "country": "FR"},
		{"id": 9, "day": "2026-10-02", "items": [9], "country": "IT"}
	]`)
	second := r.Stage(t, dataset.TableWrite{Table: stagetest.History, Key: []string{"id"}, Mode: dataset.WriteReplace}, stagetest.Schema(), `[
		{"id": 1, "day": "2026-10-01", "items": [1, 2], "country": "CH"},
		{"id": 2, "day": "2026-10-01", "items": [3, 4], "country": "DE"},
		{"id": 3, "day": "2026-10-01", "items": [], "country": ""},
		{"id": 5, "day": "2026-10-01", "items": null, "country": "ES"}
	]`)
	got := r.changes(t, tablediff.Request{})
	require.Equal(t, []int64{first.Snapshot, second.Snapshot, 5, 5}, []int64{got.From.Snapshot, got.To.Snapshot, got.From.Rows, got.To.Rows})
	require.Equal(t, &tablediff.KeyChanges{
		Columns: []string{"id"}, RowsBefore: 4, RowsAfter: 4, Added: 1, Gone: 1, Changed: 2, Same: 1,
		ByColumn:  []tablediff.ColumnCount{{Column: "country", Keys: 1}, {Column: "items", Keys: 2}},
		AddedKeys: []string{"5"}, GoneKeys: []string{"4"},
		ChangedKeys: []tablediff.ChangedKey{{Key: "2", Columns: []string{"items"}}, {Key: "3", Columns: []string{"country", "items"}}},
	}, got.Keys)
	require.True(t, got.Columns.IsZero())
	require.Equal(t, int64(1), got.Files.Same.Rows, "the other day is in both")
	require.Zero(t, got.Files.Deletes)
	rows := [2]int64{}
	for _, p := range got.Partitions {
		require.Contains(t, p.Partition, "day=2026-10-01")
		rows[0], rows[1] = rows[0]+p.Removed.Rows, rows[1]+p.Added.Rows
	}
	require.Equal(t, [2]int64{4, 4}, rows)
	require.Equal(t, [2]int64{got.Files.Removed.Rows, got.Files.Added.Rows}, rows)

	back := r.changes(t, tablediff.Request{From: id(second.Snapshot), To: id(first.Snapshot)})
	require.Equal(t, []string{"4"}, back.Keys.AddedKeys)
	require.Equal(t, []string{"5"}, back.Keys.GoneKeys)
	require.Equal(t, got.Keys.ByColumn, back.Keys.ByColumn)
	same := r.changes(t, tablediff.Request{From: "main"})
	require.Zero(t, same.Keys.RowsBefore+same.Keys.RowsAfter)
	require.Empty(t, same.Partitions)
	all := r.changes(t, tablediff.Request{From: tablediff.None})
	require.Equal(t, []int64{0, 5, 5}, []int64{all.From.Snapshot, all.Keys.Added, all.Keys.RowsAfter})
	require.Nil(t, all.Columns)
	begin := r.changes(t, tablediff.Request{To: id(first.Snapshot)})
	require.Equal(t, []int64{0, 5}, []int64{begin.From.Snapshot, begin.Keys.Added})
	cheap := r.changes(t, tablediff.Request{OnlyFiles: true})
	require.Nil(t, cheap.Keys)
	require.Equal(t, got.Files, cheap.Files)
}

// No file is opened if only files are compared, and otherwise none that both snapshots have and whose
// partition shows that it has no key of the files that differ.
//
// spec: history-19
func TestFilesOfBothAreNotOpened(t *testing.T) {
	r := newRig(t, stagetest.Unlimited)
	r.Daily(t)
	r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), stagetest.Few)
	r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), `[{"id": 1, "day": "2026-10-03"}]`)
	broken := rig{r.Broken(t,
		errstore.Rule{Location: "day=2026-10-01", Call: errstore.Open, Action: errstore.Fail(nil)},
		errstore.Rule{Location: "day=2026-10-02", Call: errstore.Open, Action: errstore.Fail(nil)})}
	got := broken.changes(t, tablediff.Request{Key: []string{"day", "id"}})
	require.Equal(t, []int64{1, 4}, []int64{got.Keys.Added, got.Files.Same.Rows})
	_, err := broken.compare(t, tablediff.Request{From: tablediff.None})
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	require.Equal(t, int64(5), broken.changes(t, tablediff.Request{From: tablediff.None, OnlyFiles: true}).Files.Added.Rows)
}

// A key of a file that both snapshots have is neither added nor gone if another file has it, too.
//
// spec: history-26
func TestKeysOfFilesOfBothAreNotAdded(t *testing.T) {
	r := newRig(t, stagetest.Unlimited)
	r.Daily(t)
	var rows, more strings.Builder
	for i := range 40 {
		fmt.Fprintf(&rows, `,{"id": %d, "day": "2026-10-01", "items": [%d], "country": "CH"}`, i, i)
		fmt.Fprintf(&more, `,{"id": %d, "day": "2026-10-02", "items": [%d], "country": "DE"}`, i+30, i)
	}
	first := r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), "["+rows.String()[1:]+"]")
	second := r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), "["+more.String()[1:]+"]")
	counts := func(k *tablediff.KeyChanges) []int64 {
		return []int64{k.Added, k.Gone, k.Changed, k.Same, k.Repeated, k.RowsBefore, k.RowsAfter}
	}
	require.Equal(t, []int64{30, 0, 0, 0, 10, 0, 40}, counts(r.changes(t, tablediff.Request{Key: []string{"id"}}).Keys))
	back := r.changes(t, tablediff.Request{From: id(second.Snapshot), To: id(first.Snapshot), Key: []string{"id"}}).Keys
	require.Equal(t, []int64{0, 30, 0, 0, 10, 40, 0}, counts(back))
	require.Equal(t, []string{"40", "41", "42"}, back.GoneKeys)
	require.Equal(t, []int64{40, 0, 0, 0, 0, 0, 40}, counts(r.changes(t, tablediff.Request{Key: []string{"id", "day"}}).Keys))
}

// Keys of several rows are counted, and their values are not compared. With further columns of the
// key, they are.
//
// spec: history-22
func TestRepeatedKeysAreNotCompared(t *testing.T) {
	r := newRig(t, stagetest.Unlimited)
	r.Daily(t)
	r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), `[
		{"id": 1, "day": "2026-10-01", "country": "a"}, {"id": 1, "day": "2026-10-01", "country": "b"},
		{"id": 2, "day": "2026-10-01", "country": "a"}, {"id": null, "day": "2026-10-01", "country": "c"}
	]`)
	r.Stage(t, dataset.TableWrite{Table: stagetest.History, Mode: dataset.WriteReplace}, stagetest.Schema(), `[
		{"id": 1, "day": "2026-10-01", "country": "b"}, {"id": 2, "day": "2026-10-01", "country": "b"},
		{"id": null, "day": "2026-10-01", "country": "c"}, {"id": 3, "day": "2026-10-01"}, {"id": 3, "day": "2026-10-01"}
	]`)
	got := r.changes(t, tablediff.Request{}).Keys
	require.Equal(t, []int64{1, 0, 1, 1, 1, 4, 5}, []int64{got.Added, got.Gone, got.Changed, got.Same, got.Repeated, got.RowsBefore, got.RowsAfter})
	got = r.changes(t, tablediff.Request{Key: []string{"id", "country"}, UsualKey: []string{"day"}}).Keys
	require.Equal(t, []string{"id", "country"}, got.Columns)
	require.Equal(t, []int64{2, 2, 0, 2, 0}, []int64{got.Added, got.Gone, got.Changed, got.Same, got.Repeated})
	got = r.changes(t, tablediff.Request{UsualKey: []string{"day", "id"}}).Keys
	require.Equal(t, []string{"day", "id"}, got.Columns)
	got = r.changes(t, tablediff.Request{UsualKey: []string{"nothing"}}).Keys
	require.Equal(t, []string{"id"}, got.Columns)
	for name, says := range map[string]string{"nothing": `there is no column "nothing"`, "items": "cannot be a key"} {
		_, err := r.compare(t, tablediff.Request{Key: []string{name}})
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		require.ErrorContains(t, err, says)
	}
}

// The key that a table records precedes that of a dataset and the columns of the buckets, unless the table lacks one of its columns.
//
// spec: history-22
func TestRecordedKeyIsUsed(t *testing.T) {
	for name, c := range map[string]struct {
		recorded string
		sort     []commit.SortBy
		want     []string
	}{
		"recorded":           {`["id", "country"]`, nil, []string{"id", "country"}},
		"with the order":     {`["country"]`, []commit.SortBy{{Column: 2, Transform: "identity"}, {Column: 4, Transform: "identity"}}, []string{"country", "day"}},
		"of a column gone":   {`["id", "gone"]`, nil, []string{"day"}},
		"empty":              {`[]`, nil, []string{"day"}},
		"of another program": {`id`, nil, []string{"day"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, stagetest.Unlimited)
			r.DailyWith(t, map[string]string{commit.PropertyKey: c.recorded}, c.sort)
			for _, day := range []string{"2026-10-01", "2026-10-02"} {
				r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), `[{"id": 1, "day": "`+day+`", "country": "a"}]`)
			}
			got := r.changes(t, tablediff.Request{UsualKey: []string{"day"}}).Keys
			require.Equal(t, c.want, got.Columns)
		})
	}
}

// Columns that were added, and rows of files that lack them, are no changes of values.
//
// spec: history-18
func TestColumnsAreCompared(t *testing.T) {
	r := newRig(t, stagetest.Unlimited)
	r.Daily(t)
	r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), stagetest.Few)
	more := arrow.NewSchema(append(stagetest.Schema().Fields(), arrow.Field{Name: "rank", Type: arrow.PrimitiveTypes.Int32, Nullable: true}), nil)
	r.Stage(t, dataset.TableWrite{Table: stagetest.History, Mode: dataset.WriteReplace, Evolve: true}, more, `[
		{"id": 3, "day": "2026-10-01", "items": [1, 2], "country": "CH", "rank": 1}, {"id": 1, "day": "2026-10-01", "items": [], "country": "XX", "rank": 2}
	]`)
	got := r.changes(t, tablediff.Request{})
	require.Equal(t, &tablediff.ColumnChanges{Added: []string{"rank"}, Dropped: []string{}, Renamed: []tablediff.TextChange{}, Retyped: []tablediff.TypeChanges{}}, got.Columns)
	require.Equal(t, []int64{1, 1}, []int64{got.Keys.Changed, got.Keys.Same})
	require.Equal(t, []tablediff.ColumnCount{{Column: "country", Keys: 1}}, got.Keys.ByColumn)
	_, err := r.compare(t, tablediff.Request{Key: []string{"rank"}})
	require.ErrorContains(t, err, "was added after the earlier snapshot")
	all := r.changes(t, tablediff.Request{From: tablediff.None, Key: []string{"rank"}})
	require.Equal(t, int64(3), all.Keys.Added, "rows without the column have a null")
}

// Rows that do not fit in memory are sorted on local disk, with the same result.
//
// spec: history-21
func TestRowsAreComparedInBoundedMemory(t *testing.T) {
	const rows = 20000
	text := func(skip, changed int) string {
		var b strings.Builder
		for i := 1; i <= rows; i++ {
			if i%skip == 0 {
				continue
			}
			country := "same"
			if i%changed == 0 {
				country = "changed"
			}
			fmt.Fprintf(&b, `,{"id": %d, "day": "2026-10-01", "country": %q, "items": [%d]}`, i, country+strings.Repeat("x", 200), i)
		}
		return "[" + b.String()[1:] + "]"
	}
	r := newRig(t, 48<<20)
	r.Daily(t)
	r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), text(rows+1, rows+1))
	r.Stage(t, dataset.TableWrite{Table: stagetest.History, Mode: dataset.WriteReplace}, stagetest.Schema(), text(10, 7))
	read := int64(0)
	got := r.changes(t, tablediff.Request{Progress: func(now, all int64) { read = now; require.LessOrEqual(t, now, all) }})
	gone := rows / 10
	changed := 0
	for i := 1; i <= rows; i++ {
		if i%10 != 0 && i%7 == 0 {
			changed++
		}
	}
	require.Equal(t, []int64{0, int64(gone), int64(changed), int64(rows - gone - changed)}, []int64{got.Keys.Added, got.Keys.Gone, got.Keys.Changed, got.Keys.Same})
	require.Equal(t, int64(rows+rows-gone), read)
}

// A snapshot, a branch or a tag that the table does not have is an error that lists those it has.
//
// spec: history-18
func TestUnknownSnapshotsToCompare(t *testing.T) {
	r := newRig(t, stagetest.Unlimited)
	r.Daily(t)
	empty := r.changes(t, tablediff.Request{})
	require.Zero(t, empty.To.Snapshot)
	first := r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), stagetest.Few)
	for _, request := range []tablediff.Request{{From: "7"}, {From: "mian"}, {To: "7"}} {
		_, err := r.compare(t, request)
		require.Equal(t, fault.NotFound, fault.KindOf(err), "%v", err)
	}
	r.Stage(t, dataset.TableWrite{Table: stagetest.History, Branch: "7"}, stagetest.Schema(), `[{"id": 8, "day": "2026-10-01"}]`)
	require.Equal(t, int64(1), r.changes(t, tablediff.Request{From: id(first.Snapshot), To: "7"}).Keys.Added, "a branch of this name is meant")
	require.NoError(t, r.Tables.Move(t.Context(), commit.Move{Table: stagetest.History, Ref: "seven", To: first.Snapshot}))
	require.Equal(t, int64(1), r.changes(t, tablediff.Request{From: "seven", To: "7"}).Keys.Added)
}
