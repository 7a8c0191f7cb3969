package catalogtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// appended returns the locations of the files that were appended to a ref since a snapshot.
func appended(t *testing.T, r Rig, ref dataset.Ref, since int64) ([]string, error) {
	t.Helper()
	table, err := r.Catalog.Table(t.Context(), events, ref)
	require.NoError(t, err)
	files, err := r.Catalog.Appended(t.Context(), table, since, []int{IDColumn}, nil)
	var out []string
	for _, f := range files {
		out = append(out, f.Location)
	}
	return out, err
}

func locations(files ...File) []string {
	var out []string
	for _, f := range files {
		out = append(out, f.Location)
	}
	return out
}

// spec: since-1, since-2, since-3, since-4, since-5, since-6
func testAppended(t *testing.T, r Rig) {
	r.Create(t, events)
	a, b, c, d, e, f := file("a", 0), file("b", 1), file("c", 1), file("d", 2), file("e", 3), file("f", 0)
	empty, err := r.Catalog.Table(t.Context(), events, dataset.Ref{})
	require.NoError(t, err)
	first := r.Commit(t, events, Commit{Add: []File{a, b}})
	_, err = r.Catalog.Appended(t.Context(), empty, first, []int{IDColumn}, nil)
	isFault(t, err, fault.Invalid, "since", events)
	second := r.Commit(t, events, Commit{Add: []File{c}})
	r.SetRef(t, events, Ref{Name: "audit", Snapshot: second})
	third := r.Commit(t, events, Commit{Remove: []File{a}, Add: []File{d}, Replace: true})
	fourth := r.Commit(t, events, Commit{Add: []File{e}})
	aside := r.Commit(t, events, Commit{Branch: "audit", Add: []File{f}})

	since := func(ref dataset.Ref, from int64) []string {
		t.Helper()
		got, err := appended(t, r, ref, from)
		require.NoError(t, err)
		return got
	}
	assert.Equal(t, locations(c, e), since(dataset.Ref{}, first), "what a rewrote is older")
	assert.Equal(t, locations(e), since(dataset.Ref{}, second))
	assert.Equal(t, locations(e), since(dataset.Ref{}, third))
	assert.Empty(t, since(dataset.Ref{}, fourth))
	assert.Equal(t, locations(f), since(dataset.Ref{Name: "audit"}, second))
	assert.Equal(t, locations(c), since(dataset.Ref{Snapshot: second}, first))

	table, err := r.Catalog.Table(t.Context(), events, dataset.Ref{})
	require.NoError(t, err)
	files, err := r.Catalog.Appended(t.Context(), table, third, []int{IDColumn}, []int{IDColumn})
	require.NoError(t, err)
	assert.Equal(t, []catalog.File{e.Expect(4, IDColumn)}, files, "as Files has it")

	_, err = appended(t, r, dataset.Ref{}, aside)
	isFault(t, err, fault.Invalid, "since", "is not an ancestor", strconv.FormatInt(aside, 10), strconv.FormatInt(fourth, 10), "newest ancestor of both")
	assert.Equal(t, strconv.FormatInt(second, 10), fault.As(err).Faults[0].Nearest)
	_, err = appended(t, r, dataset.Ref{}, 12345)
	isFault(t, err, fault.Expired, "12345", events)

	fifth := r.Commit(t, events, Commit{Remove: []File{c, e}, Add: []File{file("g", 1)}, Replace: true})
	_, err = appended(t, r, dataset.Ref{}, first)
	isFault(t, err, fault.Invalid, "(replace) removed files that were appended after snapshot "+strconv.FormatInt(first, 10), strconv.FormatInt(fifth, 10))
	assert.Equal(t, events, fault.As(err).Table)
	_, err = appended(t, r, dataset.Ref{}, third)
	isFault(t, err, fault.Invalid, "(replace) removed", strconv.FormatInt(fifth, 10))
	assert.Empty(t, since(dataset.Ref{}, fifth))
	sixth := r.Commit(t, events, Commit{Remove: []File{b}})
	assert.Empty(t, since(dataset.Ref{}, fifth), "it removed what is older")
	seventh := r.Commit(t, events, Commit{Remove: []File{d}, Add: []File{file("h", 1)}})
	_, err = appended(t, r, dataset.Ref{}, sixth)
	isFault(t, err, fault.Invalid, "(overwrite) added files after snapshot "+strconv.FormatInt(sixth, 10), "name since "+strconv.FormatInt(seventh, 10))

	r.Expire(t, events, sixth)
	_, err = appended(t, r, dataset.Ref{}, fifth)
	isFault(t, err, fault.Expired, strconv.FormatInt(sixth, 10), events)
	assert.Empty(t, since(dataset.Ref{}, seventh))
	eighth := file("i", 2)
	r.Commit(t, events, Commit{Add: []File{eighth}})
	r.Expire(t, events, seventh)
	assert.Equal(t, locations(eighth), since(dataset.Ref{}, seventh), "what came after a snapshot that is gone is known")
}

// history describes what happened to a table in terms of rows: which rows each snapshot has in
// which files, and whether the snapshot appended them.
type history struct {
	rig    Rig
	random *rand.Rand
	all    []*past
	byID   map[int64]*past
	heads  map[string]*past
	rows   int
}

// past is a snapshot of a history.
type past struct {
	id      int64
	parent  *past
	files   map[string][]int // rows by location
	gained  []int            // rows that no file of the parent had
	lost    [][]int          // the rows of each file that the snapshot removed
	appends bool
	expired bool
}

// testAppendedByChance compares the results of Appended with the rows of random histories.
//
// spec: since-1, since-2, since-3, since-4, since-5, since-6
func testAppendedByChance(t *testing.T, r Rig) {
	outcomes, histories := map[string]int{}, uint64(3)
	if os.Getenv("PENSTOCK_LONG") == "1" {
		histories = 100
	}
	for seed := range histories {
		h := &history{rig: r, random: rand.New(rand.NewPCG(seed, 4)), byID: map[int64]*past{}, heads: map[string]*past{}} //nolint:gosec // a test's
		r.Create(t, events)
		for range 14 {
			h.step(t)
		}
		for branch := range h.heads {
			for _, since := range h.all {
				outcomes[h.compare(t, branch, since)]++
			}
		}
		r.Drop(t, events)
	}
	for _, what := range []string{"rows", "no rows", "refused", "is not an ancestor", "expired"} {
		assert.Positive(t, outcomes[what], what)
	}
}

func (h *history) some() []int {
	h.rows += 2
	return []int{h.rows - 1, h.rows}
}

// step makes a random change: it commits to a branch, creates a branch, moves one back, or expires
// a snapshot.
func (h *history) step(t *testing.T) {
	t.Helper()
	branch := "main"
	if len(h.heads) > 1 && h.random.IntN(3) == 0 {
		branch = "audit"
	}
	head := h.heads[branch]
	if head == nil {
		h.commit(t, branch, change{appends: true, rows: h.some()})
		return
	}
	removed := h.removable(head)
	switch n := h.random.IntN(12); {
	case n == 0 && len(h.heads) == 1:
		h.rig.SetRef(t, events, Ref{Name: "audit", Snapshot: head.id})
		h.heads["audit"] = head
	case n == 1 && head.parent != nil && !head.parent.expired: // a rollback
		h.rig.SetRef(t, events, Ref{Name: branch, Snapshot: head.parent.id})
		h.heads[branch] = head.parent
	case n == 2:
		h.expire(t)
	case n < 5 && removed != nil:
		var rows []int
		for _, location := range removed {
			rows = append(rows, head.files[location]...)
		}
		h.commit(t, branch, change{removes: removed, replaces: true, rows: rows})
	case n < 7 && removed != nil:
		h.commit(t, branch, change{removes: removed})
	case n == 7 && removed != nil:
		h.commit(t, branch, change{removes: removed, rows: h.some()})
	default:
		h.commit(t, branch, change{appends: true, rows: h.some()})
	}
}

// removable returns one or two files to remove, the oldest ones, or nil if there are fewer than
// three files.
func (h *history) removable(head *past) []string {
	all := make([]string, 0, len(head.files))
	for location := range head.files {
		all = append(all, location)
	}
	slices.SortFunc(all, func(a, b string) int { return head.files[a][0] - head.files[b][0] })
	if len(all) < 3 {
		return nil
	}
	return all[:1+h.random.IntN(2)]
}

// change describes a commit: the files that it removes, and the rows of the file that it adds.
type change struct {
	removes           []string
	replaces, appends bool
	rows              []int
}

// commit makes a snapshot.
func (h *history) commit(t *testing.T, branch string, with change) {
	t.Helper()
	head, c := h.heads[branch], Commit{Branch: branch, Replace: with.replaces}
	next := &past{parent: head, files: map[string][]int{}, appends: with.appends}
	known := map[int]bool{}
	if head != nil {
		for location, rows := range head.files {
			next.files[location] = rows
			for _, row := range rows {
				known[row] = true
			}
		}
	}
	for _, location := range with.removes {
		c.Remove = append(c.Remove, h.file(location))
		next.lost = append(next.lost, next.files[location])
		delete(next.files, location)
	}
	if len(with.rows) > 0 {
		location := fmt.Sprintf("/warehouse/%05d.parquet", len(h.all))
		c.Add = []File{h.file(location)}
		next.files[location] = with.rows
	}
	for _, row := range with.rows {
		if !known[row] {
			next.gained = append(next.gained, row)
		}
	}
	next.id = h.rig.Commit(t, events, c)
	h.all, h.byID[next.id], h.heads[branch] = append(h.all, next), next, next
}

func (h *history) file(location string) File {
	return File{Location: location, Rows: 2, Partition: [3]any{int64(1), int64(20000), "fr"}}
}

// expire chooses a random snapshot, and removes it unless a branch is at it.
func (h *history) expire(t *testing.T) {
	t.Helper()
	p := h.all[h.random.IntN(len(h.all))]
	for _, head := range h.heads {
		if p == head || p.expired {
			return
		}
	}
	h.rig.Expire(t, events, p.id)
	p.expired = true
}

// compare checks the result of Appended for a branch and a since against the rows of the history,
// and returns a word for the kind of result.
func (h *history) compare(t *testing.T, branch string, since *past) string {
	t.Helper()
	ref := dataset.Ref{Name: branch}
	var after []*past // newest first
	at := h.heads[branch]
	for ; at != since && at != nil && !at.expired; at = at.parent {
		after = append(after, at)
	}
	got, err := appended(t, h.rig, ref, since.id)
	switch {
	case at == since:
	case at != nil || since.expired:
		isFault(t, err, fault.Expired, events)
		return "expired"
	default:
		isFault(t, err, fault.Invalid, "is not an ancestor", strconv.FormatInt(since.id, 10))
		return "is not an ancestor"
	}
	want, offenders := rowsAfter(after)
	if len(offenders) > 0 {
		isFault(t, err, fault.Invalid, events)
		named := slices.IndexFunc(offenders, func(p *past) bool {
			return strings.Contains(err.Error(), "since: snapshot "+strconv.FormatInt(p.id, 10)+" of")
		})
		require.GreaterOrEqual(t, named, 0, "%v", err)
		_, still := rowsAfter(after[:slices.Index(after, offenders[named])])
		require.Empty(t, still, "since the snapshot that is named, nothing is amiss: %v", err)
		return "refused"
	}
	require.NoError(t, err)
	var rows []int
	for _, location := range got {
		rows = append(rows, h.heads[branch].files[location]...)
	}
	slices.Sort(rows)
	require.Equal(t, want, rows)
	if len(rows) == 0 {
		return "no rows"
	}
	return "rows"
}

// rowsAfter returns the rows that the given snapshots appended, and the offenders: the snapshots
// that added new rows without an append, or that removed or moved rows that were appended. The
// snapshots after are ordered newest first.
func rowsAfter(after []*past) (rows []int, offenders []*past) {
	isNew := map[int]bool{}
	for _, p := range slices.Backward(after) {
		took := slices.ContainsFunc(slices.Concat(p.lost...), func(row int) bool { return isNew[row] })
		if took || len(p.gained) > 0 && !p.appends {
			offenders = append(offenders, p)
		}
		for _, row := range p.gained {
			if p.appends {
				isNew[row] = true
				rows = append(rows, row)
			}
		}
	}
	slices.Sort(rows)
	return rows, offenders
}
