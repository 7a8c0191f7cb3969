package promote_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store/errstore"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/promote"
)

// spec: promote-1, promote-4, promote-5
func TestRowsKeepTheirAgeAndIDs(t *testing.T) {
	for version := 1; version <= 3; version++ {
		t.Run(fmt.Sprintf("format version %d", version), func(t *testing.T) {
			r := newRig(t)
			r.create(t, version)
			columns := []string{"row"}
			if version == 3 {
				columns = append(columns, "_row_id", "_last_updated_sequence_number")
			}
			before, files := r.read(t, columns...), r.listed(t)
			got, err := r.promoter.Promote(t.Context(), request())
			require.NoError(t, err)
			require.Len(t, files, got.Files)
			require.EqualValues(t, 8, got.Rows)
			require.EqualValues(t, 8, got.Compared)
			require.Equal(t, promote.MatchCounts{Rows: 8, Matched: 5}, got.Matches["history"])
			require.Equal(t, want(), r.read(t, "row", "f"))
			require.Equal(t, before, r.read(t, columns...))
			for _, f := range r.listed(t) {
				require.True(t, commit.Owned(f.Location))
				for _, old := range files {
					require.NotEqual(t, old.Location, f.Location)
				}
			}
		})
	}
}

// errBroken is the error of a failed call.
var errBroken = fault.New(fault.Unavailable, "the catalog does not answer")

// If any call fails or loses its response, a repeated call completes the promotion exactly once.
//
// spec: promote-6, promote-8
func TestInterruptedPromotionsContinue(t *testing.T) {
	for name, interrupt := range map[string]func(r *rig){
		"a commit": func(r *rig) {
			r.tables.commit = func(context.Context, commit.Change) (commit.Committed, error) { return commit.Committed{}, errBroken }
		},
		"the answer of a commit": func(r *rig) {
			r.tables.commit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
				_, err := r.tables.Catalog.Commit(ctx, change)
				return commit.Committed{}, commit.AsUncertain(errors.Join(errBroken, err))
			}
		},
		"the last call": func(r *rig) {
			r.tables.setSchema = func(context.Context, commit.SchemaMove) error { return errBroken }
		},
		"the answer of the last call": func(r *rig) {
			r.tables.setSchema = func(ctx context.Context, move commit.SchemaMove) error {
				err := r.tables.Catalog.SetSchema(ctx, move)
				return commit.AsUncertain(errors.Join(errBroken, err))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.create(t, 2)
			interrupt(r)
			_, err := r.promoter.Promote(t.Context(), request())
			require.Error(t, err)
			r.tables.commit, r.tables.setSchema = nil, nil
			require.Len(t, r.read(t, "row"), 8)
			_, err = r.promoter.Promote(t.Context(), request())
			require.NoError(t, err)
			require.Equal(t, want(), r.read(t, "row", "f"))
			got, err := r.promoter.Promote(t.Context(), request())
			require.NoError(t, err)
			require.True(t, got.Existed)
		})
	}
}

// If any storage call fails once, a repeated call completes the promotion.
//
// spec: promote-6, promote-9
func TestStorageThatFailsOnce(t *testing.T) {
	for _, call := range []errstore.Call{errstore.Begin, errstore.Write, errstore.Finish, errstore.Create} {
		for n := 1; ; n++ {
			r := newRig(t)
			r.createSmall(t)
			files := r.written(t)
			r.files.Set(errstore.Rule{Call: call, Nth: n, Action: errstore.Fail(errBroken)})
			_, err := r.promoter.Promote(t.Context(), request())
			r.files.Set()
			if err == nil {
				break
			}
			if call != errstore.Create {
				require.Equal(t, files, r.written(t), "files are left")
			}
			_, err = r.promoter.Promote(t.Context(), request())
			require.NoError(t, err)
			require.Equal(t, []string{"0 10", "1 (null)"}, r.read(t, "row", "f"))
		}
	}
}

// Written files are removed if the table cannot be listed before the first commit attempt, or
// before the second one after a conflict.
//
// spec: promote-9
func TestCatalogsThatFailBeforeACommit(t *testing.T) {
	for name, conflict := range map[string]bool{"first attempt": false, "second attempt": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.createSmall(t)
			r.append(t, rowsTable, `{"row": 2, "key": 1}`)
			commits, files := 0, r.written(t)
			r.options.Threads = 1
			r.tables.commit = func(context.Context, commit.Change) (commit.Committed, error) {
				commits++
				r.tables.commit = nil
				r.append(t, rowsTable, `{"row": 3, "key": 5}`)
				r.tables.listing = errBroken
				return commit.Committed{}, fault.New(fault.Conflict, "others committed first")
			}
			request := request()
			request.Progress = func(now promote.PromotionProgress) {
				if !conflict && now.FilesDone == now.Files {
					r.tables.listing = errBroken
				}
			}
			_, err := promote.New(r.options).Promote(t.Context(), request)
			require.ErrorIs(t, err, errBroken)
			require.Equal(t, map[bool]int{false: 0, true: 1}[conflict], commits)
			require.Equal(t, files+commits, r.written(t), "files are left")
		})
	}
}

// written returns the number of Parquet files in the folder of the training table.
func (r *rig) written(t *testing.T) (n int) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join(r.dir, "ml"), func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.Contains(d.Name(), ".parquet") {
			n++
		}
		return err
	}))
	return n
}

// Rows that another program appends while files are rewritten are promoted, too.
//
// spec: promote-7
func TestFilesOfOthersAreTakenIn(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	appended := 0
	add := func() {
		if appended < 2 {
			appended++
			r.tables.commit, r.tables.setSchema = nil, nil
			r.append(t, rowsTable, fmt.Sprintf(`{"row": %d, "key": 2}`, 7+appended))
		}
	}
	last := func(ctx context.Context, move commit.SchemaMove) error {
		add()
		return r.tables.Catalog.SetSchema(ctx, move)
	}
	r.tables.commit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		add()
		r.tables.setSchema = last
		return r.tables.Catalog.Commit(ctx, change)
	}
	got, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	require.EqualValues(t, 10, got.Rows)
	require.Equal(t, append(want(), "8 20", "9 20"), r.read(t, "row", "f"))
}

// If another program removes a file while it is rewritten, the rewritten file is not committed.
//
// spec: promote-7
func TestFilesThatOthersReplaceAreLeftOut(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	old := r.listed(t)[0]
	r.tables.commit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		r.tables.commit = nil
		_, err := r.tables.Catalog.Commit(ctx, commit.Change{
			Table: rowsTable, Mode: commit.Overwrite, Base: change.Base, Remove: []string{old.Location},
		})
		require.NoError(t, err)
		return r.tables.Catalog.Commit(ctx, change)
	}
	before := len(r.listed(t))
	got, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	require.Equal(t, before-1, got.Files)
	require.Len(t, r.listed(t), before-1)
	require.Len(t, r.read(t, "row", "f"), int(8-old.Rows))
}

// An interrupted promotion has the values of only one snapshot of each staging table.
//
// spec: promote-10
func TestValuesOfTwoSnapshotsAreNeverMixed(t *testing.T) {
	interrupted := func(t *testing.T) *rig {
		t.Helper()
		r := newRig(t)
		r.create(t, 2)
		r.tables.setSchema = func(context.Context, commit.SchemaMove) error { return errBroken }
		_, err := r.promoter.Promote(t.Context(), request())
		require.ErrorIs(t, err, errBroken)
		r.tables.setSchema = nil
		r.append(t, features, `{"key": 3, "f": 30}`)
		return r
	}
	t.Run("refused", func(t *testing.T) {
		r := interrupted(t)
		_, err := r.promoter.Promote(t.Context(), request())
		require.Equal(t, fault.Conflict, fault.KindOf(err), err)
		require.ErrorContains(t, err, "history from snapshot")
		require.NotContains(t, r.names(t), "f")
	})
	t.Run("continued", func(t *testing.T) {
		r := interrupted(t)
		again := request()
		again.Earlier = promote.Continue
		got, err := r.promoter.Promote(t.Context(), again)
		require.NoError(t, err)
		require.Zero(t, got.Files)
		require.Equal(t, want(), r.read(t, "row", "f"))
	})
	t.Run("begun again", func(t *testing.T) {
		r := interrupted(t)
		again := request()
		again.Earlier = promote.Restart
		got, err := r.promoter.Promote(t.Context(), again)
		require.NoError(t, err)
		require.EqualValues(t, 8, got.Rows)
		rows := want()
		rows[5] = "5 30"
		require.Equal(t, rows, r.read(t, "row", "f"))
	})
}

// names returns the names of the training table's columns.
func (r *rig) names(t *testing.T) []string {
	t.Helper()
	state, err := r.tables.State(t.Context(), rowsTable, commit.Main)
	require.NoError(t, err)
	return state.Table.Names()
}

// spec: promote-12
func TestDemotedColumnsAreGone(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	_, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	files := r.listed(t)
	_, err = r.promoter.Demote(t.Context(), promote.DemotionRequest{Table: rowsTable, Columns: []string{"row"}})
	require.ErrorContains(t, err, "no promoted column row")
	require.ErrorContains(t, fault.As(err), "its promoted columns are f")
	out, err := r.promoter.Demote(t.Context(), promote.DemotionRequest{Table: rowsTable, Columns: []string{"f"}})
	require.NoError(t, err)
	require.Equal(t, []string{"f"}, out.Dropped)
	require.Equal(t, []string{"row", "key"}, r.names(t))
	require.Equal(t, files, r.listed(t))
	again, err := r.promoter.Demote(t.Context(), promote.DemotionRequest{Table: rowsTable, Columns: []string{"f"}})
	require.NoError(t, err)
	require.Equal(t, promote.Demotion{Table: rowsTable, Dropped: []string{}, Schema: out.Schema, Before: out.Schema}, again)
	_, err = r.promoter.Demote(t.Context(), promote.DemotionRequest{Table: rowsTable, Columns: []string{"f", "key"}})
	require.ErrorContains(t, err, "no promoted column key")
	_, err = r.promoter.Demote(t.Context(), promote.DemotionRequest{Table: rowsTable, Columns: []string{"nothing"}})
	require.ErrorContains(t, err, "no promoted column nothing")
}

// A demotion restarts from the new schema if another program changes the schema first.
//
// spec: promote-12
func TestDemotionsBesideOtherChangesOfTheSchema(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	_, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	r.tables.setSchema = func(ctx context.Context, move commit.SchemaMove) error {
		r.tables.setSchema = nil
		other, err := r.tables.AddSchema(ctx, commit.SchemaEdit{Table: rowsTable, Base: move.From, Rename: map[int]string{1: "position"}})
		require.NoError(t, err)
		require.NoError(t, r.tables.SetSchema(ctx, commit.SchemaMove{Table: rowsTable, From: move.From, To: other}))
		return r.tables.SetSchema(ctx, move)
	}
	out, err := r.promoter.Demote(t.Context(), promote.DemotionRequest{Table: rowsTable, Columns: []string{"f"}})
	require.NoError(t, err)
	require.Equal(t, []string{"f"}, out.Dropped)
	require.Equal(t, []string{"position", "key"}, r.names(t))
}

// An overlay becomes a new column, and the names are swapped at the end. After demote, the old
// column has its name and values again.
//
// spec: promote-12, promote-13
func TestOverlaidColumnsSwapNames(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	overlay := request()
	overlay.Dataset.Staging = []dataset.Staging{{Table: features, Join: rule.Overlay, Columns: []dataset.Column{{Column: "f", Name: "row"}}}}
	got, err := r.promoter.Promote(t.Context(), overlay)
	require.NoError(t, err)
	require.Equal(t, "row__before_promotion", got.Columns[0].Old)
	require.Equal(t, []string{"row__before_promotion", "key", "row"}, r.names(t))
	require.Equal(t, []string{"0 10", "1 20", "2 2", "3 10", "4 4", "5 5", "6 10", "7 (null)"}, r.read(t, "row__before_promotion", "row"))
	again, err := r.promoter.Promote(t.Context(), overlay)
	require.NoError(t, err)
	require.True(t, again.Existed)
	out, err := r.promoter.Demote(t.Context(), promote.DemotionRequest{Table: rowsTable, Columns: []string{"row"}})
	require.NoError(t, err)
	require.Equal(t, []string{"row"}, out.Restored)
	require.Equal(t, []string{"row", "key"}, r.names(t))
	require.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6", "7"}, r.read(t, "row"))
	out, err = r.promoter.Demote(t.Context(), promote.DemotionRequest{Table: rowsTable, Columns: []string{"row"}})
	require.NoError(t, err)
	require.Empty(t, out.Dropped)
	require.Equal(t, []string{"row", "key"}, r.names(t))
}

// Entries that do not give each training row one value are refused before anything is written.
//
// spec: promote-2
func TestEntriesThatAreNotPromoted(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	overlay := dataset.Staging{Table: features, Join: rule.Overlay, Columns: []dataset.Column{{Column: "f", Name: "row"}}}
	first := overlay
	first.Name = "first"
	for text, change := range map[string]func(*promote.PromotionRequest){
		"drops training rows":                      func(q *promote.PromotionRequest) { q.Dataset.Staging[0].Join = rule.Inner },
		"repeats training rows":                    func(q *promote.PromotionRequest) { q.Dataset.Staging[0].Duplicates = rule.DuplicatesAll },
		"has no staging entry other":               func(q *promote.PromotionRequest) { q.Entries = []string{"other"} },
		"entry history is named twice":             func(q *promote.PromotionRequest) { q.Entries = []string{"history", "history"} },
		"no entry is named":                        func(q *promote.PromotionRequest) { q.Entries = nil },
		"reads a branch, a tag or a snapshot":      func(q *promote.PromotionRequest) { q.Dataset.Training.Ref.Name = "old" },
		"entry history overlays after entry first": func(q *promote.PromotionRequest) { q.Dataset.Staging = []dataset.Staging{first, overlay} },
		"joins the training table with itself": func(q *promote.PromotionRequest) {
			q.Dataset.Staging[0].Table, q.Dataset.Staging[0].Name = rowsTable, "history"
		},
		"has the name of a partition field": func(q *promote.PromotionRequest) {
			q.Dataset.Staging[0].Columns = []dataset.Column{{Column: "f", Name: "by_key"}}
		},
		"has the name of a column of the training ta": func(q *promote.PromotionRequest) {
			q.Dataset.Staging[0].Columns = []dataset.Column{{Column: "f", Name: "row"}}
		},
	} {
		wrong := request()
		change(&wrong)
		_, err := r.promoter.Promote(t.Context(), wrong)
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%s: %v", text, err)
		require.ErrorContains(t, err, text)
	}
	state, err := r.tables.State(t.Context(), rowsTable, commit.Main)
	require.NoError(t, err)
	require.Len(t, state.Schemas, 1)
}

// Values that differ from the join are detected before the columns become current.
//
// spec: promote-11
func TestValuesAreComparedWithTheJoin(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	other := ""
	r.tables.commit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		other = `{"key": 3, "f": 30}`
		return r.tables.Catalog.Commit(ctx, change)
	}
	r.tables.at = func(ctx context.Context, name string, pin dataset.TablePin) (*catalog.Table, error) {
		if name == features && other != "" {
			r.tables.commit = nil
			rows := other
			other = ""
			r.append(t, features, rows)
			r.tables.at = func(ctx context.Context, name string, pin dataset.TablePin) (*catalog.Table, error) {
				if name == features {
					return r.tables.Table(ctx, name, dataset.Ref{})
				}
				return r.tables.Catalog.At(ctx, name, pin)
			}
			return r.tables.Table(ctx, name, dataset.Ref{})
		}
		return r.tables.Catalog.At(ctx, name, pin)
	}
	_, err := r.promoter.Promote(t.Context(), request())
	require.Equal(t, fault.Corrupt, fault.KindOf(err), err)
	require.ErrorContains(t, err, "column f has other values than the join returns")
	require.Equal(t, []string{"row", "key"}, r.names(t))
}

// The call fails if the share of matches is below the entry's min_match, even in a small table.
//
// spec: promote-11
func TestFewMatchesEndThePromotion(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	few := request()
	few.Dataset.Staging[0].MinMatch = 0.7
	_, err := r.promoter.Promote(t.Context(), few)
	require.ErrorContains(t, err, "5 of 8 training rows match entry history, fewer than its min_match of 0.7")
	require.Equal(t, []string{"row", "key"}, r.names(t))
	few.Dataset.Staging[0].MinMatch = 0.6
	_, err = r.promoter.Promote(t.Context(), few)
	require.NoError(t, err)
}

// Committed files are not rewritten.
//
// spec: promote-6
func TestWhatIsCommittedIsNotWrittenAgain(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	r.options.Threads = 1
	r.promoter = promote.New(r.options)
	r.promoter.SetSizes(1, 2)
	files, commits := len(r.listed(t)), 0
	r.tables.commit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		if commits++; commits > 1 {
			return commit.Committed{}, errBroken
		}
		return r.tables.Catalog.Commit(ctx, change)
	}
	_, err := r.promoter.Promote(t.Context(), request())
	require.ErrorIs(t, err, errBroken)
	r.tables.commit = nil
	got, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	require.Equal(t, 2, got.Skipped)
	require.Equal(t, files-2, got.Files)
	require.Equal(t, want(), r.read(t, "row", "f"))
}

// Files are written by several goroutines, and committed in groups.
//
// spec: promote-1, promote-7
func TestManyFilesAtOnce(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	rows := want()
	for i := 10; i < 40; i++ {
		rows = append(rows, fmt.Sprintf("%d %s", i, [...]string{"(null)", "10", "20"}[i%3]))
		if i%10 == 9 {
			var text []string
			for k := i - 9; k <= i; k++ {
				text = append(text, fmt.Sprintf(`{"row": %d, "key": %d}`, k, k%3))
			}
			r.append(t, rowsTable, strings.Join(text, ", "))
		}
	}
	slices.Sort(rows)
	r.options.Threads = 4
	r.promoter = promote.New(r.options)
	r.promoter.SetSizes(1, 3)
	got, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	require.Equal(t, len(r.listed(t)), got.Files)
	require.Greater(t, got.Commits, 2)
	require.Equal(t, rows, r.read(t, "row", "f"))
}
