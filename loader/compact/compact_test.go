package compact_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/compact"
)

// Field ids of the tests' columns.
const (
	keyColumn = 1 + iota
	dayColumn
	userColumn
)

// bucketsAndDays returns a spec with two buckets of the key, and days.
func bucketsAndDays() catalog.Spec {
	return catalog.Spec{
		{ID: 1000, Source: keyColumn, Name: "key_bucket", Transform: catalog.Transform{Kind: catalog.Bucket, N: 2}},
		{ID: 1001, Source: dayColumn, Name: "day", Transform: catalog.Transform{Kind: catalog.Identity}},
	}
}

// layout returns the layout of a table whose current spec has buckets and, if days is true, days.
func layout(days bool, sort ...int) compact.TableLayout {
	out := compact.TableLayout{
		Specs: map[int]catalog.Spec{0: nil, 1: bucketsAndDays(), 2: bucketsAndDays()[:1]}, Spec: 2, Key: []int{keyColumn}, Sort: sort, Order: 1,
		Folder: func(partition []any) string { return fmt.Sprintf("t/data/%v", partition) },
	}
	if days {
		out.Spec = 1
	}
	return out
}

// file returns a file of 100 rows in the folder of its partition.
func file(l compact.TableLayout, name string, sequence, bytes int64, partition ...any) catalog.File {
	return catalog.File{
		Location: l.Folder(partition) + "/" + name, Rows: 100, Bytes: bytes, Sequence: sequence, Spec: l.Spec, SortOrder: l.Order, Partition: partition,
	}
}

func options(minFiles int) compact.Options {
	return compact.Options{MinFiles: minFiles, FileBytes: 100, SetBytes: 1000}
}

// sets returns, for each set, the names of its files and its sequence number.
func sets(s compact.FileSelection) []string {
	out := []string{}
	for _, set := range s.Sets {
		var names strings.Builder
		for _, f := range set.Files {
			names.WriteString(f.Location[len(f.Location)-1:])
		}
		out = append(out, fmt.Sprint(names.String(), " ", set.Sequence))
	}
	return out
}

// spec: compact-2
func TestFilesThatAreRewritten(t *testing.T) {
	t.Parallel()
	l := layout(false, keyColumn)
	small := []catalog.File{file(l, "a", 1, 10, int64(0)), file(l, "b", 2, 10, int64(0)), file(l, "c", 3, 10, int64(0))}
	require.Equal(t, []string{"abc 3"}, sets(compact.Select(l, options(3), small)))
	require.Empty(t, sets(compact.Select(l, options(4), small)), "there are too few")
	require.Equal(t, []string{"ab 2"}, sets(compact.Select(l, options(2), append([]catalog.File{file(l, "d", 3, 75, int64(0))}, small[:2]...))), "large ones stay")
	require.Empty(t, sets(compact.Select(l, options(2), []catalog.File{file(l, "a", 1, 74, int64(0)), file(l, "b", 2, 74, int64(0))})), "they would be as many files")
	require.Empty(t, sets(compact.Select(l, options(0), small[:1])))

	one := small[:1]
	deleted, unsorted, older := slices.Clone(one), slices.Clone(one), slices.Clone(one)
	deleted[0].Deletes.Positions = []*catalog.DeleteFile{{Location: "p", Sequence: 5}}
	unsorted[0].SortOrder = 0
	older[0].Spec, older[0].Partition = 0, nil
	for _, files := range [][]catalog.File{deleted, unsorted, older} {
		require.Equal(t, []string{"a 1"}, sets(compact.Select(l, options(2), files)))
	}
	require.True(t, compact.Select(l, options(2), older).Sets[0].Mixed)
	leave := options(2)
	leave.Leave = func(f catalog.File) bool { return f.Sequence == 2 }
	require.Empty(t, sets(compact.Select(l, leave, small)), "a file that stays is between")
	leave.AnyOrder = true
	require.Equal(t, []string{"ac 3"}, sets(compact.Select(l, leave, small)))

	large := options(2)
	large.SetBytes = 20
	require.Equal(t, []string{"ab 2"}, sets(compact.Select(l, large, small)))
	unsorted = slices.Clone(small)
	l.Order = 0
	for i := range unsorted {
		unsorted[i].SortOrder = i
	}
	require.Empty(t, sets(compact.Select(l, options(4), unsorted)), "files of a table without an order need none")
}

// Applied equality deletes do not apply to the new file; otherwise it would be rewritten forever.
//
// spec: compact-2
func TestDeletesThatWereAppliedApplyNoMore(t *testing.T) {
	t.Parallel()
	l := layout(false, keyColumn)
	group := &catalog.EqualityGroup{Files: []*catalog.DeleteFile{{Sequence: 2}, {Sequence: 5}}}
	first, second, third := file(l, "a", 3, 10, int64(0)), file(l, "b", 4, 10, int64(0)), file(l, "c", 6, 100, int64(0))
	first.Deletes.Equality, second.Deletes.Equality = []*catalog.EqualityGroup{group}, []*catalog.EqualityGroup{group}
	require.Equal(t, []string{"ab 5"}, sets(compact.Select(l, options(2), []catalog.File{first, second, third})))
}

// A set grows if its equality deletes also apply to later files: without these, the earlier files
// could not get the deletes' sequence number and stay before the later files.
//
// spec: compact-2, compact-6
func TestDeletesOfSeveralSets(t *testing.T) {
	t.Parallel()
	l := layout(false, keyColumn)
	group := &catalog.EqualityGroup{Files: []*catalog.DeleteFile{{Sequence: 9}}}
	var files []catalog.File
	for i := range 6 {
		f := file(l, string(rune('a'+i)), int64(i+1), 80, int64(0))
		if i < 5 {
			f.Deletes.Equality = []*catalog.EqualityGroup{group}
		}
		files = append(files, f)
	}
	files[5].Sequence = 10
	o := options(2)
	o.SetBytes = 160
	out := compact.Select(l, o, files)
	require.Equal(t, []string{"abcde 9"}, sets(out), "the last file has no deletes")
	require.Empty(t, out.Kept)

	o.SetBytes = 10
	out = compact.Select(l, o, files)
	require.Equal(t, []string{"e 9"}, sets(out), "larger sets are not made")
	require.Len(t, out.Kept, 4)
}

// spec: compact-6
func TestFilesThatStay(t *testing.T) {
	t.Parallel()
	l := layout(true, keyColumn)
	day := func(name string, sequence int64, bucket, day int) catalog.File {
		return file(l, name, sequence, 10, int64(bucket), int64(day))
	}
	files := []catalog.File{day("a", 1, 0, 1), day("b", 7, 0, 1), day("c", 3, 0, 2)}
	out := compact.Select(l, options(2), files)
	require.Empty(t, out.Sets, "rows of another day were written in between")
	require.Len(t, out.Kept, 2, "in any order, the two files of the day would become one")
	files[2].Partition = []any{int64(1), int64(2)}
	require.Equal(t, []string{"ab 7"}, sets(compact.Select(l, options(2), files)), "another bucket has other keys")
	files[2].Partition = []any{int64(0), int64(2)}
	l.Key = []int{keyColumn, dayColumn}
	require.Equal(t, []string{"ab 7"}, sets(compact.Select(l, options(2), files)), "another day has other keys")
	l.Key = []int{keyColumn}
	files[2].Spec, files[2].Partition, files[2].SortOrder = 0, nil, 1
	require.NotContains(t, sets(compact.Select(l, options(2), files)), "ab 7", "a file of an older spec may have any keys")

	// Files of one commit.
	together := []catalog.File{day("a", 1, 0, 1), day("b", 1, 0, 1), day("c", 1, 0, 2)}
	require.Equal(t, []string{"ab 1"}, sets(compact.Select(l, options(2), together)), "folders keep the order of locations")
	together[1].Location = "t/elsewhere/b"
	out = compact.Select(l, options(2), together)
	require.Empty(t, out.Sets)
	require.Len(t, out.Kept, 2)
	together[1].Location, together[2].Location = l.Folder(together[1].Partition)+"/b", l.Folder(together[1].Partition)+"/x/c"
	require.Empty(t, compact.Select(l, options(2), together).Sets, "a file of the same number is inside the folder")

	l.Sort = []int{userColumn}
	pair := []catalog.File{day("a", 1, 0, 1), day("b", 2, 0, 1)}
	out = compact.Select(l, options(2), pair)
	require.Empty(t, out.Sets, "sorting moves rows of a key apart")
	require.Len(t, out.Kept, 2)
	pair[0].Deletes.Positions = []*catalog.DeleteFile{{Location: "p", Sequence: 5}}
	require.Empty(t, compact.Select(l, options(2), pair).Sets)
	require.Equal(t, []string{"a 1"}, sets(compact.Select(l, options(2), pair[:1])), "a sorted file stays sorted")
	pair[0].SortOrder = 0
	require.Empty(t, compact.Select(l, options(2), pair[:1]).Sets)
	old := []catalog.File{{Location: "t/o", Spec: 0, Rows: 1, Bytes: 1, Sequence: 1}}
	require.Len(t, compact.Select(layout(true, keyColumn), options(2), old).Kept, 1, "its rows are of several days")
	require.Equal(t, []string{"o 1"}, sets(compact.Select(layout(false, keyColumn), options(2), old)))
	require.Empty(t, compact.Select(layout(false, userColumn), options(2), old).Sets)
	old[0].Sequence = 0
	require.Empty(t, compact.Select(layout(false, keyColumn), options(2), old).Sets)
}

// Partitions whose keys occur once are rewritten in any order.
//
// spec: compact-14
func TestKeysThatOccurOnceHaveNoOrder(t *testing.T) {
	t.Parallel()
	l := layout(true, userColumn)
	day := func(name string, sequence int64, bucket, day int) catalog.File {
		return file(l, name, sequence, 10, int64(bucket), int64(day))
	}
	files := []catalog.File{day("a", 1, 0, 1), day("b", 7, 0, 1), day("c", 3, 0, 2), day("d", 9, 0, 2), day("e", 5, 1, 1)}
	o := options(2)
	out := compact.Select(l, o, files)
	require.Empty(t, out.Sets)
	require.Len(t, out.Kept, 4)
	o.Once = func(f catalog.File) bool { return f.Partition[1] == int64(1) }
	out = compact.Select(l, o, files)
	require.Equal(t, []string{"ab 7"}, sets(out))
	require.Len(t, out.Kept, 2)
	o.Once = func(f catalog.File) bool { return f.Sequence < 7 }
	require.Empty(t, compact.Select(l, o, files).Sets, "one file of each partition may have keys of others")

	lists := compact.WithKeysOf(l, out.Kept, files)
	require.Equal(t, [][]catalog.File{files[:4]}, lists, "another bucket has other keys")
	old := catalog.File{Location: "t/o", Spec: 0, Rows: 1}
	require.Equal(t, [][]catalog.File{append(slices.Clone(files[:4]), old)}, compact.WithKeysOf(l, out.Kept, append(files, old)))
	require.Empty(t, compact.WithKeysOf(l, []catalog.File{old}, files))
}

// spec: compact-1
func TestFirstSetsHaveDifferentPartitions(t *testing.T) {
	t.Parallel()
	part := func(bytes int64, mixed bool, partition ...any) compact.RewriteSet {
		return compact.RewriteSet{Files: []catalog.File{{Bytes: bytes, Rows: 1}}, Partition: partition, Mixed: mixed}
	}
	one, two, again, old := part(10, false, int64(1)), part(10, false, int64(2)), part(5, false, int64(1)), part(1, true)
	require.Len(t, compact.FileSelection{Sets: []compact.RewriteSet{one, again, two}}.First(100), 2)
	require.Len(t, compact.FileSelection{Sets: []compact.RewriteSet{one, two}}.First(19), 1)
	require.Len(t, compact.FileSelection{Sets: []compact.RewriteSet{one, two}}.First(1), 1)
	require.Len(t, compact.FileSelection{Sets: []compact.RewriteSet{one, old}}.First(100), 1)
	require.Len(t, compact.FileSelection{Sets: []compact.RewriteSet{old, one}}.First(100), 1)
	require.Empty(t, compact.FileSelection{}.First(100))
}

// row is a row of the random table.
type row struct{ id, key, day, user int }

// stored is a file with its rows.
type stored struct {
	catalog.File
	rows []row
}

// orders returns the ids of the rows of each key, in written order.
func orders(files []stored) map[int][]int {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b stored) int { return compact.ByWritten(a.File, b.File) })
	out := map[int][]int{}
	for _, f := range files {
		for _, r := range f.rows {
			out[r.key] = append(out[r.key], r.id)
		}
	}
	return out
}

// world is a random table.
type world struct {
	*rand.Rand
	compact.TableLayout
	files []stored
	ids   int
}

// add adds a random file.
func (w *world) add(number int) {
	f := stored{File: catalog.File{Spec: w.Spec, SortOrder: w.IntN(2), Sequence: int64(w.IntN(6)), Bytes: int64(1 + w.IntN(90))}}
	bucket, day := w.IntN(2), w.IntN(2)
	if w.IntN(8) == 0 {
		f.Spec = w.IntN(3)
	}
	switch f.Spec {
	case 1:
		f.Partition = []any{int64(bucket), int64(day)}
	case 2:
		f.Partition = []any{int64(bucket)}
	}
	f.Location = fmt.Sprintf("%s/%c%d", w.Folder(f.Partition), 'a'+rune(w.IntN(26)), number)
	if w.IntN(8) == 0 {
		f.Location = fmt.Sprintf("t/%d/%d", w.IntN(100), number)
	}
	for range 1 + w.IntN(4) {
		r := row{id: w.ids, key: w.IntN(2)*2 + bucket, day: day, user: w.IntN(3)}
		if f.Spec == 0 {
			r.key = w.IntN(4)
		}
		if f.Spec != 1 {
			r.day = w.IntN(2)
		}
		w.ids++
		f.rows = append(f.rows, r)
	}
	if f.SortOrder == 1 {
		w.sort(f.rows)
	}
	f.Rows = int64(len(f.rows))
	if w.IntN(6) == 0 {
		f.Deletes.Equality = []*catalog.EqualityGroup{{Files: []*catalog.DeleteFile{{Sequence: f.Sequence + int64(w.IntN(3))}}}}
	}
	w.files = append(w.files, f)
}

// sort sorts rows by the table's sort order.
func (w *world) sort(rows []row) {
	slices.SortStableFunc(rows, func(a, b row) int {
		for _, id := range w.Sort {
			if c := map[int]int{keyColumn: cmp.Compare(a.key, b.key), dayColumn: cmp.Compare(a.day, b.day), userColumn: cmp.Compare(a.user, b.user)}[id]; c != 0 {
				return c
			}
		}
		return 0
	})
}

// once returns a function that reports whether each key of a file occurs in no other row.
func (w *world) once() func(f catalog.File) bool {
	rows, alone := map[int]int{}, map[string]bool{}
	for _, f := range w.files {
		for _, r := range f.rows {
			rows[r.key]++
		}
	}
	for _, f := range w.files {
		alone[f.Location] = !slices.ContainsFunc(f.rows, func(r row) bool { return rows[r.key] > 1 })
	}
	return func(f catalog.File) bool { return alone[f.Location] }
}

// rewrite replaces the files of a set by one file for each partition.
func (w *world) rewrite(t *testing.T, set compact.RewriteSet) {
	t.Helper()
	byPartition, values := map[string][]row{}, map[string][]any{}
	if w.ids++; set.Sequence == 0 {
		set.Sequence = 100 // the number of the new snapshot
	}
	for _, f := range set.Files {
		at := slices.IndexFunc(w.files, func(s stored) bool { return s.Location == f.Location })
		require.GreaterOrEqual(t, at, 0, "a file is in one set")
		for _, r := range w.files[at].rows {
			partition := []any{int64(r.key % 2)}
			if w.Spec == 1 {
				partition = append(partition, int64(r.day))
			}
			name := fmt.Sprint(partition)
			byPartition[name], values[name] = append(byPartition[name], r), partition
			if !set.Mixed {
				require.Equal(t, set.Partition, partition)
			}
		}
		w.files = slices.Delete(w.files, at, at+1)
	}
	for name, rows := range byPartition {
		w.sort(rows)
		f := stored{File: file(w.TableLayout, fmt.Sprintf("%c-new%d", 'a'+rune(w.IntN(26)), w.ids), set.Sequence, 100, values[name]...), rows: rows}
		f.Rows = int64(len(rows))
		w.ids++
		w.files = append(w.files, f)
	}
}

// The rows of each key stay in order for any files.
//
// spec: compact-1, compact-6, compact-9
func TestRandomTables(t *testing.T) {
	t.Parallel()
	rewritten, kept := 0, 0
	for seed := range 4000 {
		random := rand.New(rand.NewPCG(uint64(seed), 1)) //nolint:gosec // a test
		sorts := [][]int{{keyColumn}, {userColumn}, {keyColumn, userColumn}, nil}
		w := &world{Rand: random, TableLayout: layout(random.IntN(2) == 0, sorts[random.IntN(len(sorts))]...)}
		if w.Order = random.IntN(3) / 2; random.IntN(3) == 0 {
			w.Key = append(w.Key, userColumn)
			w.Key = w.Key[:1+random.IntN(2)]
		}
		for i := range 1 + random.IntN(12) {
			w.add(i)
		}
		if slices.Contains(w.Key, userColumn) { // the key determines the user
			for i := range w.files {
				for j := range w.files[i].rows {
					w.files[i].rows[j].user = w.files[i].rows[j].key % 3
				}
				if w.files[i].SortOrder == 1 {
					w.sort(w.files[i].rows)
				}
			}
		}
		before := orders(w.files)
		once := options(1 + random.IntN(3))
		for round := 0; ; round++ {
			require.Less(t, round, 20, "seed %d: it ends", seed)
			var files []catalog.File
			for _, f := range w.files {
				if round > 0 && f.Deletes.Equality != nil && f.Deletes.Equality[0].Files[0].Sequence <= f.Sequence {
					f.Deletes.Equality = nil
				}
				files = append(files, f.File)
			}
			made := once
			made.Leave = func(f catalog.File) bool { return f.Bytes == 100 }
			if seed%2 == 0 {
				made.Once = w.once()
			}
			out := compact.Select(w.TableLayout, made, files)
			first := out.First(int64(random.IntN(500)))
			if kept += len(out.Kept); len(first) == 0 {
				break
			}
			for _, set := range first {
				rewritten += len(set.Files)
				w.rewrite(t, set)
			}
			require.Equal(t, before, orders(w.files), "seed %d", seed)
		}
	}
	require.Greater(t, rewritten, 1000)
	require.Greater(t, kept, 1000)
}
