package stage_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage"
	"github.com/penstock/penstock/loader/stage/stagetest"
)

// A token that the call made does not count as expired, even if other writers expire snapshots
// concurrently.
//
// spec: write-9
func TestFreshTokensAreNotExpired(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Stage(t, stagetest.Create(), stagetest.Schema(), stagetest.Few)
	r.Tables.MadeErr = fault.New(fault.Expired, "the token is old")
	r.Tables.OnCommit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		require.True(t, change.Fresh)
		return r.Tables.Catalog.Commit(ctx, change)
	}
	require.NotZero(t, r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), stagetest.Few).Snapshot)
	_, err := r.Stager.Stage(t.Context(), stage.CallOptions{}, dataset.TableWrite{Table: stagetest.History, Token: commit.NewToken(time.Now(), "given")}, unread(t, stagetest.Schema()))
	require.Equal(t, fault.Expired, fault.KindOf(err))
	r.Tables.MadeErr, r.Tables.OnCommit = nil, func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		require.False(t, change.Fresh)
		return r.Tables.Catalog.Commit(ctx, change)
	}
	r.Stage(t, dataset.TableWrite{Table: stagetest.History, Token: commit.NewToken(time.Now(), "given")}, stagetest.Schema(), stagetest.Few)
}

// A replacement succeeds despite many concurrent commits in a row.
//
// spec: stage-37
func TestPartitionsAreReplacedBesideManyCommits(t *testing.T) {
	r := stagetest.New(t, stagetest.Unlimited, nil)
	r.Daily(t)
	others := 0
	r.Tables.OnCommit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		own := r.Tables.OnCommit
		if r.Tables.OnCommit = nil; others < 20 {
			r.Stage(t, dataset.TableWrite{Table: stagetest.History}, stagetest.Schema(), `[{"id": 2, "day": "2026-10-01"}]`)
			others++
		}
		out, err := r.Tables.Commit(ctx, change)
		r.Tables.OnCommit = own
		return out, err
	}
	out := r.Stage(t, dataset.TableWrite{Table: stagetest.History, Mode: dataset.WriteReplace, AllowShrink: true}, stagetest.Schema(), `[{"id": 3, "day": "2026-10-01"}]`)
	require.Equal(t, 20, out.Removed)
	require.Equal(t, []string{"3"}, r.Column(t, "", "id"))
}
