package promote_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/promote"
)

// fill promotes entries of a dataset again.
func (r *rig) fill(t *testing.T, d dataset.Dataset, entries ...string) promote.PromotionResult {
	t.Helper()
	got, err := r.promoter.Promote(t.Context(), promote.PromotionRequest{Dataset: d, Entries: entries, Earlier: promote.Continue})
	require.NoError(t, err)
	require.True(t, got.Existed)
	require.Equal(t, got.Before, got.Schema)
	return got
}

// pinned returns the training table as it is now.
func (r *rig) pinned(t *testing.T) *catalog.Table {
	t.Helper()
	pinned, err := r.tables.Table(t.Context(), rowsTable, dataset.Ref{})
	require.NoError(t, err)
	return pinned
}

// appendOld appends copies of all files of an earlier state of the training table, as a program does
// that restores rows.
func (r *rig) appendOld(t *testing.T, at *catalog.Table) {
	t.Helper()
	files, err := r.tables.DataFiles(t.Context(), at, func(string) bool { return true })
	require.NoError(t, err)
	change := commit.Change{Table: rowsTable, UUID: at.Pin.UUID, Token: commit.NewToken(time.Now(), t.Name()+time.Now().String())}
	for i, f := range files {
		path, err := store.Path(f.Location)
		require.NoError(t, err)
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		name := strings.ReplaceAll(change.Token, ":", "") + string(rune('a'+i)) + ".parquet"
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), name), content, 0o600))
		f.Location = f.Location[:strings.LastIndexByte(f.Location, '/')+1] + name
		f.Sequence, f.Snapshot, f.FirstRow = 0, 0, nil
		change.Add = append(change.Add, f)
	}
	_, err = r.tables.Commit(t.Context(), change)
	require.NoError(t, err)
}

// If files lack the columns of promoted entries, promoting the entries again writes these files and
// no others. Reads return the same rows before, during and after it. Files in which other programs
// wrote the columns keep their values.
//
// spec: promote-29
func TestFilesThatLackColumnsArePromotedInPlace(t *testing.T) {
	for version := 1; version <= 3; version++ {
		r := newRig(t)
		r.create(t, version)
		d := features3()
		old := r.pinned(t)
		r.promoteAll(t, d, "left", "matched", "over")
		promoted := map[string]bool{}
		for _, f := range r.listed(t) {
			promoted[f.Location] = true
		}
		require.Zero(t, r.fill(t, d, "left", "matched", "over").Files)
		pins := map[string]dataset.TablePin{}
		for _, o := range r.pinned(t).Origins {
			pins[o.Entry] = o.TablePin
		}
		at := dataset.Query{Rows: dataset.Rows{Pin: dataset.Pin{Staging: pins}}}
		r.append(t, features, `{"key": 9, "f": 90}`) // these values are not promoted
		r.appendOld(t, old)
		before := r.ask(t, d, at)
		require.Len(t, before.Rows, 16)
		require.Empty(t, before.Report.Promoted)

		head := r.pinned(t).Pin
		for _, earlier := range []promote.Earlier{promote.ContinueEqual, promote.Restart} {
			_, err := r.promoter.Promote(t.Context(), promote.PromotionRequest{Dataset: d, Entries: []string{"left"}, Earlier: earlier})
			require.Equal(t, fault.Conflict, fault.KindOf(err), err)
			require.ErrorContains(t, err, "would get the values of the earlier snapshot")
		}
		dry, err := r.promoter.Promote(t.Context(), promote.PromotionRequest{Dataset: d, Entries: []string{"left", "matched", "over"}, Earlier: promote.Continue, DryRun: true})
		require.NoError(t, err)
		require.Positive(t, dry.Estimate.SampledRows)
		require.EqualValues(t, 8, dry.Rows, "each row counts once")
		require.Equal(t, head, r.pinned(t).Pin)

		got := r.fill(t, d, "over")
		require.EqualValues(t, 8, got.Rows)
		require.EqualValues(t, 8, got.Compared)
		now := r.ask(t, d, at)
		same(t, before, now, "over")
		require.Len(t, now.Report.Promoted, 1)
		require.EqualValues(t, 8, r.fill(t, d, "left", "matched").Rows, "each row counts once")
		for _, q := range []dataset.Query{at, {}} {
			now = r.ask(t, d, q)
			same(t, before, now, "all")
			require.Len(t, now.Report.Promoted, 3)
		}

		r.append(t, rowsTable, `{"row": 30, "row__before_promotion": 30, "key": 2}, {"row": 31, "row__before_promotion": 31, "key": 8}`)
		require.EqualValues(t, 2, r.fill(t, d, "left", "matched", "over").Rows, "they lack the columns of two entries")
		require.Contains(t, r.read(t, "row", "l_f"), "30 20", "the value of another writer, and a joined value")
		for _, f := range r.listed(t) {
			delete(promoted, f.Location)
		}
		require.Empty(t, promoted, "files with the columns were written again")
		require.Zero(t, r.fill(t, d, "left", "matched", "over").Files)

		// The names of the files do not say that they have all columns of the promotion.
		_, err = r.promoter.Demote(t.Context(), promote.DemotionRequest{Table: rowsTable, Columns: []string{"m"}})
		require.NoError(t, err)
		again, err := r.promoter.Promote(t.Context(), promote.PromotionRequest{Dataset: d, Entries: []string{"left", "matched", "over"}, Earlier: promote.Continue})
		require.NoError(t, err)
		require.EqualValues(t, 10, again.Rows)
		require.Len(t, r.ask(t, d, dataset.Query{}).Report.Promoted, 3)
	}
}

// If a call is interrupted between its commits, datasets join the entry as before, and the repeated
// call writes the other files.
//
// spec: promote-29
func TestInterruptedCallsThatFillFiles(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	d := features3()
	old := r.pinned(t)
	r.promoteAll(t, d, "left")
	r.appendOld(t, old)
	before := r.ask(t, d, dataset.Query{})
	files := len(r.listed(t))
	o := r.options
	o.Threads = 1
	one := promote.New(o)
	one.SetSizes(1, 1)
	commits := 0
	r.tables.commit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		if commits++; commits == 2 {
			return commit.Committed{}, errBroken
		}
		return r.tables.Catalog.Commit(ctx, change)
	}
	_, err := one.Promote(t.Context(), promote.PromotionRequest{Dataset: d, Entries: []string{"left"}})
	require.ErrorIs(t, err, errBroken)
	r.tables.commit = nil
	require.Len(t, r.listed(t), files)
	between := r.ask(t, d, dataset.Query{})
	same(t, before, between, "between")
	require.Empty(t, between.Report.Promoted)
	require.Positive(t, r.fill(t, d, "left").Files)
	after := r.ask(t, d, dataset.Query{})
	same(t, before, after, "after")
	require.Contains(t, after.Report.Promoted, "left")
}

// An overlay of a promoted overlay is not computed from a column that files lack.
//
// spec: promote-30
func TestColumnsAreFilledInTheirOrder(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	d := features3()
	first := d.Staging[2]
	first.Name = "first"
	second := d.Staging[2]
	second.Filter, second.Nulls = datasettest.Filter("f = 20 or f is null"), rule.NullsKeep
	d.Staging = []dataset.Staging{first, second}
	old := r.pinned(t)
	r.promoteAll(t, d, "first")
	r.appendOld(t, old)
	_, err := r.promoter.Promote(t.Context(), promote.PromotionRequest{Dataset: d, Entries: []string{"over"}})
	require.Equal(t, fault.Conflict, fault.KindOf(err), err)
	require.ErrorContains(t, err, "lack column row of entry first")
	r.fill(t, d, "first")
	r.promoteAll(t, d, "over")
	r.appendOld(t, old)
	before := r.ask(t, d, dataset.Query{})
	require.Empty(t, before.Report.Promoted)
	_, err = r.promoter.Promote(t.Context(), promote.PromotionRequest{Dataset: d, Entries: []string{"over"}})
	require.Equal(t, fault.Conflict, fault.KindOf(err), err)
	require.Equal(t, "first promote entry first again", fault.As(err).Remedy)
	require.Positive(t, r.fill(t, d, "over", "first").Files)
	after := r.ask(t, d, dataset.Query{})
	same(t, before, after, "both")
	require.Len(t, after.Report.Promoted, 2)
}

// Values that differ from the join do not become part of the table. Without the promoted snapshot, the
// error says how to promote anew.
//
// spec: promote-29
func TestFilledValuesAreCompared(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	d := features3()
	old := r.pinned(t)
	r.promoteAll(t, d, "left")
	r.appendOld(t, old)
	r.append(t, features, `{"key": 3, "f": 30}`)
	at := r.pinned(t).Pin
	calls := 0
	r.tables.at = func(ctx context.Context, name string, pin dataset.TablePin) (*catalog.Table, error) {
		if name == features {
			if calls++; calls > 2 { // the definition, and the plan of the values
				return r.tables.Table(ctx, name, dataset.Ref{})
			}
		}
		return r.tables.Catalog.At(ctx, name, pin)
	}
	_, err := r.promoter.Promote(t.Context(), promote.PromotionRequest{Dataset: d, Entries: []string{"left"}, Earlier: promote.Continue})
	require.Equal(t, fault.Corrupt, fault.KindOf(err), err)
	require.Equal(t, at, r.pinned(t).Pin)
	r.tables.at = nil
	require.NoError(t, r.others.DropTable(t.Context(), strings.Split(features, ".")))
	_, err = r.promoter.Promote(t.Context(), promote.PromotionRequest{Dataset: d, Entries: []string{"left"}, Earlier: promote.Continue})
	require.Equal(t, fault.NotFound, fault.KindOf(err), err)
	require.Contains(t, fault.As(err).Remedy, "demote the columns")
}
