package stage_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/stage"
)

// A token that a call makes itself is new, however old the snapshots are that others let expire meanwhile.
//
// spec: write-9
func TestFreshTokensAreNotExpired(t *testing.T) {
	r := newRig(t, unlimited, nil)
	r.stage(t, create(), schema(), few)
	r.tables.made = fault.New(fault.Expired, "the token is old")
	r.tables.commit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		require.True(t, change.Fresh)
		return r.tables.Catalog.Commit(ctx, change)
	}
	require.NotZero(t, r.stage(t, stage.TableWrite{Table: history}, schema(), few).Snapshot)
	_, err := r.stager.Stage(t.Context(), stage.TableWrite{Table: history, Token: commit.NewToken(time.Now(), "given")}, unread(t, schema()))
	require.Equal(t, fault.Expired, fault.KindOf(err))
	r.tables.made, r.tables.commit = nil, func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		require.False(t, change.Fresh)
		return r.tables.Catalog.Commit(ctx, change)
	}
	r.stage(t, stage.TableWrite{Table: history, Token: commit.NewToken(time.Now(), "given")}, schema(), few)
}

// Many commits of others in a row do not end a replacement.
//
// spec: stage-37
func TestPartitionsAreReplacedBesideManyCommits(t *testing.T) {
	r := newRig(t, unlimited, nil)
	r.daily(t)
	others := 0
	r.tables.commit = func(ctx context.Context, change commit.Change) (commit.Committed, error) {
		own := r.tables.commit
		if r.tables.commit = nil; others < 20 {
			r.stage(t, stage.TableWrite{Table: history}, schema(), `[{"id": 2, "day": "2026-10-01"}]`)
			others++
		}
		out, err := r.tables.Commit(ctx, change)
		r.tables.commit = own
		return out, err
	}
	out := r.stage(t, stage.TableWrite{Table: history, Mode: stage.Replace}, schema(), `[{"id": 3, "day": "2026-10-01"}]`)
	require.Equal(t, 20, out.Removed)
	require.Equal(t, []string{"3"}, r.column(t, "", "id"))
}
