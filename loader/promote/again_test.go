package promote_test

import (
	"context"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/promote"
	"github.com/penstock/penstock/loader/stage"
)

// interrupted creates the tables, and promotes the entry up to the last commit.
func interrupted(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.create(t, 2)
	r.tables.setSchema = func(context.Context, commit.SchemaMove) error { return errBroken }
	_, err := r.promoter.Promote(t.Context(), request())
	require.ErrorIs(t, err, errBroken)
	r.tables.setSchema = nil
	return r
}

// appendPromoted stages training rows with values of the promoted column.
func (r *rig) appendPromoted(t *testing.T, rows string) {
	t.Helper()
	var fields []arrow.Field
	for _, name := range []string{"row", "key", "f"} {
		fields = append(fields, arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int64, Nullable: true})
	}
	schema := arrow.NewSchema(fields, nil)
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader("["+rows+"]"))
	require.NoError(t, err)
	in, err := array.NewRecordReader(schema, []arrow.RecordBatch{b})
	require.NoError(t, err)
	_, err = r.stager.Stage(t.Context(), stage.CallOptions{}, dataset.TableWrite{Table: rowsTable, Key: []string{"key"}, AllowDuplicates: true}, in)
	require.NoError(t, err)
}

// An interrupted promotion resumes after another entry was promoted, and the files get the columns
// of both.
//
// spec: promote-1, promote-6
func TestInterruptedPromotionsContinueAfterOthers(t *testing.T) {
	r := interrupted(t)
	other := request()
	other.Dataset.Staging = []dataset.Staging{{Name: "other", Table: features, Columns: []dataset.Column{{Column: "f", Name: "g"}}}}
	other.Entries = []string{"other"}
	_, err := r.promoter.Promote(t.Context(), other)
	require.NoError(t, err)
	require.Equal(t, want(), r.read(t, "row", "g"))
	got, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	require.True(t, got.Continued)
	require.Equal(t, want(), r.read(t, "row", "f"))
	require.Equal(t, want(), r.read(t, "row", "g"))
}

// Files of a later promotion are copies that have the columns of an earlier one, so a repeated
// earlier promotion does not rewrite them. It rewrites files that other programs wrote with the
// columns.
//
// spec: promote-6, promote-12
func TestLaterPromotionsKeepTheColumnsOfEarlierOnes(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	_, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	r.appendPromoted(t, `{"row": 8, "key": 1, "f": 77}`)
	other := request()
	other.Dataset.Staging = []dataset.Staging{{Name: "other", Table: features, Columns: []dataset.Column{{Column: "f", Name: "g"}}}}
	other.Entries = []string{"other"}
	_, err = r.promoter.Promote(t.Context(), other)
	require.NoError(t, err)
	_, err = r.promoter.Demote(t.Context(), promote.DemotionRequest{Table: rowsTable, Columns: []string{"f"}})
	require.NoError(t, err)
	got, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	require.EqualValues(t, 1, got.Rows, "of the file that others wrote")
	require.Equal(t, append(want(), "8 10"), r.read(t, "row", "f"))
	require.Equal(t, append(want(), "8 10"), r.read(t, "row", "g"))
}

// After demote, the schemas with a promotion's columns may be removed from the table. A repeated
// promotion then gets other field ids, and uses no file that was written for the first ones.
//
// spec: promote-1, promote-12
func TestPromotionsWhoseSchemasWereRemoved(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	_, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	_, err = r.promoter.Demote(t.Context(), promote.DemotionRequest{Table: rowsTable, Columns: []string{"f"}})
	require.NoError(t, err)
	state, err := r.tables.State(t.Context(), rowsTable, commit.Main)
	require.NoError(t, err)
	var gone []int
	for _, s := range state.Schemas {
		if s.ID != state.Current && len(s.Docs) > 0 {
			gone = append(gone, s.ID)
		}
	}
	require.NotEmpty(t, gone)
	tbl, err := r.others.LoadTable(t.Context(), strings.Split(rowsTable, "."))
	require.NoError(t, err)
	_, _, err = r.others.CommitTable(t.Context(), tbl.Identifier(), nil, []icetable.Update{icetable.NewRemoveSchemasUpdate(gone)})
	require.NoError(t, err)
	got, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	require.EqualValues(t, 8, got.Rows)
	require.Equal(t, want(), r.read(t, "row", "f"))
}

// If two promotions choose the same field ids, the second one takes other ids.
//
// spec: promote-16
func TestFieldIDsThatOthersTakeFirst(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	other := request()
	other.Dataset.Staging = []dataset.Staging{{Name: "other", Table: features, Columns: []dataset.Column{{Column: "f", Name: "g"}}}}
	other.Entries = []string{"other"}
	r.tables.addSchema = func(ctx context.Context, edit commit.SchemaEdit) (int, error) {
		r.tables.addSchema = nil
		_, err := promote.New(r.options).Promote(ctx, other)
		require.NoError(t, err)
		return r.tables.Catalog.AddSchema(ctx, edit)
	}
	got, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	require.Len(t, got.Columns, 1)
	require.Equal(t, want(), r.read(t, "row", "f"))
	require.Equal(t, want(), r.read(t, "row", "g"))

	// A persistent conflict is returned.
	r.tables.addSchema = func(context.Context, commit.SchemaEdit) (int, error) {
		return 0, fault.New(fault.Conflict, "the name is taken")
	}
	third := request()
	third.Dataset.Staging = []dataset.Staging{{Name: "third", Table: features, Columns: []dataset.Column{{Column: "f", Name: "h"}}}}
	third.Entries = []string{"third"}
	_, err = r.promoter.Promote(t.Context(), third)
	require.ErrorContains(t, err, "the name is taken")
}

// A repeated promotion replaces the values that other programs wrote to the columns while these
// were current.
//
// spec: promote-1, promote-12
func TestRepeatedPromotionsReplaceValuesOfOthers(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	_, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	r.appendPromoted(t, `{"row": 8, "key": 1, "f": 77}, {"row": 9, "key": 3, "f": 78}`)
	require.Equal(t, append(want(), "8 77", "9 78"), r.read(t, "row", "f"))
	_, err = r.promoter.Demote(t.Context(), promote.DemotionRequest{Table: rowsTable, Columns: []string{"f"}})
	require.NoError(t, err)
	got, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	require.EqualValues(t, 2, got.Rows)
	require.Equal(t, append(want(), "8 10", "9 (null)"), r.read(t, "row", "f"))
	state, err := r.tables.State(t.Context(), rowsTable, commit.Main)
	require.NoError(t, err)
	files, err := r.tables.DataFiles(t.Context(), state.Table, func(string) bool { return true })
	require.NoError(t, err)
	id := got.Columns[0].ID
	for _, f := range files {
		require.Equal(t, f.Nulls[id] == f.Values[id], f.Lower[id] == nil, "bounds of %d nulls in %d values", f.Nulls[id], f.Values[id])
		require.NotContains(t, string(f.Upper[id]), "\x4e")
	}
}

// A restarted promotion reuses nothing of the unfinished one, even if the staging tables are
// unchanged.
//
// spec: promote-10
func TestPromotionsBeginAgain(t *testing.T) {
	r := interrupted(t)
	anew := request()
	anew.Earlier = promote.Restart
	r.tables.setSchema = func(context.Context, commit.SchemaMove) error { return errBroken }
	_, err := r.promoter.Promote(t.Context(), anew)
	require.ErrorIs(t, err, errBroken)
	r.tables.setSchema = nil
	got, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	require.True(t, got.Continued, "the last one continues")
	require.Zero(t, got.Files)
	require.Equal(t, want(), r.read(t, "row", "f"))
	_, err = r.promoter.Demote(t.Context(), promote.DemotionRequest{Table: rowsTable, Columns: []string{"f"}})
	require.NoError(t, err)
	got, err = r.promoter.Promote(t.Context(), anew)
	require.NoError(t, err)
	require.EqualValues(t, 8, got.Rows)
	require.Equal(t, want(), r.read(t, "row", "f"))
	again, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	require.True(t, again.Existed)
	require.Equal(t, got.Promotion, again.Promotion)
}

// Demote returns a conflict if the replaced column was dropped, and keeps the column that replaced
// it.
//
// spec: promote-12
func TestReplacedColumnsThatWereDropped(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	overlay := request()
	overlay.Dataset.Staging = []dataset.Staging{{Table: features, Join: rule.Overlay, Columns: []dataset.Column{{Column: "f", Name: "row"}}}}
	_, err := r.promoter.Promote(t.Context(), overlay)
	require.NoError(t, err)
	state, err := r.tables.State(t.Context(), rowsTable, commit.Main)
	require.NoError(t, err)
	schema, err := r.tables.AddSchema(t.Context(), commit.SchemaEdit{Table: rowsTable, UUID: state.Table.Pin.UUID, Base: state.Current, Drop: []int{1}})
	require.NoError(t, err)
	require.NoError(t, r.tables.SetSchema(t.Context(), commit.SchemaMove{Table: rowsTable, UUID: state.Table.Pin.UUID, From: state.Current, To: schema}))
	_, err = r.promoter.Demote(t.Context(), promote.DemotionRequest{Table: rowsTable, Columns: []string{"row"}})
	require.Equal(t, fault.Conflict, fault.KindOf(err), err)
	require.ErrorContains(t, err, "the column that column row replaced was dropped since")
	require.Equal(t, []string{"key", "row"}, r.names(t))
}

// Another call completes the same promotion first.
//
// spec: promote-7, promote-8
func TestTheSamePromotionTwiceAtOnce(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	r.tables.commit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		r.tables.commit = nil
		_, err := promote.New(r.options).Promote(ctx, request())
		require.NoError(t, err)
		return r.tables.Catalog.Commit(ctx, change)
	}
	got, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	require.True(t, got.Existed)
	require.Zero(t, got.Files)
	require.Equal(t, want(), r.read(t, "row", "f"))
}
