package promote_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/history"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/promote"
)

// history returns the snapshots of the training table, and the error of undoing its last change.
func (r *rig) history(t *testing.T) (history.Log, error) {
	t.Helper()
	held, err := r.budget.Reserve("the snapshots", 0)
	require.NoError(t, err)
	defer held.Release()
	of, err := r.tables.History(t.Context(), rowsTable, held)
	require.NoError(t, err)
	log, err := of.LogOf("", 0, of.Demotable())
	require.NoError(t, err)
	_, _, err = of.LastChange("", of.Demotable())
	return log, err
}

// names returns the ids of snapshots of a log.
func names(log history.Log, at ...int) string {
	ids := make([]string, len(at))
	for i, k := range at {
		ids[i] = strconv.FormatInt(log.Snapshots[k].Snapshot, 10)
	}
	return strings.Join(ids, ", ")
}

// killed begins a promotion with commits of one file, and stops it before the given commit.
func (r *rig) killed(t *testing.T, wanted promote.PromotionRequest, last int) {
	t.Helper()
	p := promote.New(r.options)
	p.SetSizes(1, 1)
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	commits := 0
	r.tables.commit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		if commits++; commits == last {
			kill()
			return commit.Committed{}, context.Cause(ctx)
		}
		return r.tables.Catalog.Commit(ctx, change)
	}
	_, err := p.Promote(ctx, wanted)
	require.ErrorIs(t, err, context.Canceled)
	r.tables.commit = nil
}

// The last change of a table whose promotion was interrupted is this promotion with all of its snapshots: those before the
// interruption, and those of the repeated call.
//
// spec: history-6, history-10
func TestLastChangeAfterAnInterruptedPromotion(t *testing.T) {
	r := newRig(t)
	r.create(t, 2)
	before, _ := r.history(t)
	r.killed(t, request(), 3)
	log, err := r.history(t)
	require.Len(t, log.Snapshots, len(before.Snapshots)+2)
	require.ErrorContains(t, err, "the schema of table ml.rows has no columns of the promotion of snapshots "+names(log, 0, 1)+": it was interrupted, or demote took it back; it changed no row")
	require.Contains(t, fault.As(err).Remedy, "to continue it, repeat promote; to take the change before it back too, name its snapshots: --from ")

	r.append(t, rowsTable, `{"row": 50, "key": 90}`)
	got, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	require.True(t, got.Continued)
	log, err = r.history(t)
	require.Equal(t, "f", log.Snapshots[0].Demote)
	require.Equal(t, "penstock stage", log.Snapshots[1].Writer)
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	require.ErrorContains(t, err, "the last change of table ml.rows, snapshots "+names(log, 0, 2, 3)+", is a promotion, whose columns the schema has")
	require.Contains(t, fault.As(err).Remedy, "take it back by its column f: penstock demote")
}

// The last change is the promotion that became current last, also if a later promotion has a later snapshot.
//
// spec: history-10
func TestLastChangeOfTwoPromotions(t *testing.T) {
	r := interrupted(t)
	other := request()
	other.Dataset.Staging = []dataset.Staging{{Name: "other", Table: features, Columns: []dataset.Column{{Column: "f", Name: "g"}}}}
	other.Entries = []string{"other"}
	_, err := r.promoter.Promote(t.Context(), other)
	require.NoError(t, err)
	_, err = r.history(t)
	require.Contains(t, fault.As(err).Remedy, "take it back by its column g: penstock demote")
	got, err := r.promoter.Promote(t.Context(), request())
	require.NoError(t, err)
	require.Zero(t, got.Commits)
	log, err := r.history(t)
	require.Equal(t, []string{"g", "f"}, []string{log.Snapshots[0].Demote, log.Snapshots[1].Demote})
	require.ErrorContains(t, err, "snapshot "+names(log, 1)+", is a promotion")
	require.Contains(t, fault.As(err).Remedy, "take it back by its column f: penstock demote")
	for _, column := range []string{"f", "g"} {
		_, err = r.promoter.Demote(t.Context(), promote.DemotionRequest{Table: rowsTable, Columns: []string{column}})
		require.NoError(t, err)
	}
	_, err = r.history(t)
	require.ErrorContains(t, err, "the schema of table ml.rows has no columns of the promotion of snapshot "+names(log, 0)+": ")
}
