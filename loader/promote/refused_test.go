package promote_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/parquettest"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/promote"
)

// A call refuses invalid requests before it writes a file, and its dry run refuses them too.
//
// spec: promote-2, promote-11, promote-15
func TestRefusalsComeBeforeTheFirstFile(t *testing.T) {
	overlay := func(s *dataset.Staging) {
		s.Join, s.Columns = rule.Overlay, []dataset.Column{{Column: "f", Name: "row"}}
	}
	for name, c := range map[string]struct {
		entry  func(s *dataset.Staging)
		rows   string // rows added to the entry's table
		others func(t *testing.T, r *rig)
		late   bool // the join detects the error, perhaps after other files were written
		want   string
	}{
		"few matches":  {entry: func(s *dataset.Staging) { s.MinMatch = 0.9 }, want: "5 of 8 training rows match"},
		"missing keys": {entry: func(s *dataset.Staging) { s.Missing = rule.MissingError }, want: "no row"},
		"several rows": {entry: func(*dataset.Staging) {}, rows: `{"key": 4, "f": 1}`, late: true, want: "several rows"},
		"a taken name": {entry: overlay, want: "two columns called", others: func(t *testing.T, r *rig) {
			t.Helper()
			state, err := r.tables.State(t.Context(), rowsTable, commit.Main)
			require.NoError(t, err)
			id, err := r.tables.Catalog.AddSchema(t.Context(), commit.SchemaEdit{
				Table: rowsTable, Base: state.Current, Add: []commit.NewColumn{
					{ID: 3, Name: "row__before_promotion", Type: "long"}, {ID: 4, Name: "row__before_promotion_1", Type: "long"},
				},
			})
			require.NoError(t, err)
			require.NoError(t, r.tables.Catalog.SetSchema(t.Context(), commit.SchemaMove{Table: rowsTable, From: state.Current, To: id}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.create(t, 2)
			if c.rows != "" {
				r.append(t, features, c.rows)
			}
			if c.others != nil {
				c.others(t, r)
			}
			r.tables.commit = func(context.Context, commit.Change) (commit.Committed, error) {
				require.True(t, c.late, "files were written")
				return commit.Committed{}, errBroken
			}
			wanted := request()
			c.entry(&wanted.Dataset.Staging[0])
			before := r.written(t)
			for _, dry := range []bool{true, false} {
				wanted.DryRun = dry
				_, err := r.promoter.Promote(t.Context(), wanted)
				require.ErrorContains(t, err, c.want, "dry run: %v", dry)
				require.NotEqual(t, fault.Internal, fault.KindOf(err))
			}
			require.Equal(t, before, r.written(t))
		})
	}
}

// A table whose manifests cannot be written is refused before anything is written.
//
// spec: promote-31
func TestPartitionsThatManifestsCannotHave(t *testing.T) {
	r := newRig(t)
	r.append(t, features, `{"key": 1, "f": 10}`)
	require.NoError(t, r.tables.Create(t.Context(), commit.NewTable{
		Table: rowsTable,
		Columns: []commit.NewColumn{
			{ID: 1, Name: "row", Type: "long"}, {ID: 2, Name: "key", Type: "long"}, {ID: 3, Name: "cost", Type: "decimal(9, 2)"}, {ID: 4, Name: "price", Type: "decimal(12, 3)"},
		},
		Partition: []commit.PartitionBy{{Column: 3, Name: "cost", Transform: "identity"}, {Column: 4, Name: "price_trunc", Transform: "truncate[10]"}},
	}))
	before, wanted := r.written(t), request()
	for _, dry := range []bool{true, false} {
		wanted.DryRun = dry
		_, err := r.promoter.Promote(t.Context(), wanted)
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "partition fields cost and price_trunc of table ml.rows both have decimals")
	}
	require.Equal(t, before, r.written(t))
	state, err := r.tables.State(t.Context(), rowsTable, "")
	require.NoError(t, err)
	require.Len(t, state.Schemas, 1)
}

// Rows that another program adds while files are written are checked, too.
//
// spec: promote-11
func TestMatchesOfRowsThatCameMeanwhile(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	wanted := request()
	wanted.Dataset.Staging[0].MinMatch = 0.5
	r.tables.commit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		r.tables.commit = nil
		r.append(t, rowsTable, `{"row": 20, "key": 90}, {"row": 21, "key": 91}, {"row": 22, "key": 92}, {"row": 23, "key": 93}`)
		return r.tables.Catalog.Commit(ctx, change)
	}
	_, err := r.promoter.Promote(t.Context(), wanted)
	require.ErrorContains(t, err, "5 of 12 training rows match")
	_, err = promote.New(r.options).Promote(t.Context(), request())
	require.NoError(t, err)
}

// A dry run reads the footer of each file that the call would rewrite, not only the footers of the
// sampled files.
//
// spec: promote-15
func TestDryRunsReadAllFooters(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(t *testing.T, path string)
		want string
	}{
		"a type of a later version": {want: "has a type that this version does not support", harm: func(t *testing.T, path string) {
			t.Helper()
			content, err := os.ReadFile(path) //nolint:gosec // a test's own folder
			require.NoError(t, err)
			content, err = parquettest.EditFooter(content, "\x15\x04%\x02\x18\x03row", "\x15\x2c%\x02\x18\x03row")
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, content, 0o600)) //nolint:gosec // a test's own folder
		}},
		"a file that is gone": {want: "is missing", harm: func(t *testing.T, path string) {
			t.Helper()
			require.NoError(t, os.Remove(path))
		}},
	} {
		for i := range 5 {
			t.Run(fmt.Sprint(name, " ", i), func(t *testing.T) {
				r := newRig(t)
				r.create(t, 2)
				files := r.listed(t)
				require.Len(t, files, 5)
				path, err := store.Path(files[i].Location)
				require.NoError(t, err)
				c.harm(t, path)
				wanted := request()
				for _, dry := range []bool{true, false} {
					wanted.DryRun = dry
					_, err := r.promoter.Promote(t.Context(), wanted)
					require.ErrorContains(t, err, c.want, "dry run: %v", dry)
					require.ErrorContains(t, err, filepath.Base(path))
				}
			})
		}
	}
	r := newRig(t)
	r.create(t, 2)
	wanted, checked := request(), 0
	wanted.DryRun, wanted.Progress = true, func(at promote.PromotionProgress) { checked = at.FilesChecked }
	_, err := r.promoter.Promote(t.Context(), wanted)
	require.NoError(t, err)
	require.Equal(t, len(r.listed(t)), checked)
}
