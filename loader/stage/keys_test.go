package stage_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/stage"
)

// evenKeys are the even keys. They count releases.
type evenKeys struct{ released *int }

func (evenKeys) Contains(_ context.Context, keys arrow.RecordBatch, found []bool) error {
	for row := range found {
		found[row] = keys.Column(0).(*array.Int64).Value(row)%2 == 0
	}
	return nil
}

func (k evenKeys) Release() { *k.released++ }

// Rows whose key is not among those to keep are dropped, and so are those with a null in the key. The keys are read
// once the columns fit and before the rows, and not for a change that was made.
//
// spec: stage-49
func TestRowsWithOtherKeysAreDropped(t *testing.T) {
	r := newRig(t, unlimited, nil)
	asked, released := 0, 0
	request := create()
	request.Token = commit.NewToken(time.Now(), "even")
	request.OnlyKeys = func(_ context.Context, key []arrow.Field) (stage.KeptKeys, error) {
		require.Equal(t, []arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, key)
		asked++
		return evenKeys{&released}, nil
	}
	for range 2 {
		_, err := r.stager.Stage(t.Context(), request, rows(t, schema(), few))
		require.NoError(t, err)
	}
	require.Equal(t, []string{"2"}, r.column(t, "", "id"))
	require.Equal(t, []int{1, 1}, []int{asked, released})

	request.Token, request.Evolve = "", true
	out := r.stage(t, request, schema(), few)
	require.Equal(t, []int64{1, 3, 1}, []int64{out.Rows, out.Dropped, out.NullKeys})
	days := create()
	days.Table, days.New.Partition = "ml.days", []string{"day"}
	require.Positive(t, r.stage(t, days, schema(), few).Files)
	dropping := request
	dropping.Table, dropping.Mode, dropping.Key = "ml.days", stage.Replace, []string{"id"}
	out = r.stage(t, dropping, schema(), `[{"id": 1, "day": "2026-10-01"}]`)
	require.Zero(t, out.Removed)
	require.Zero(t, out.Rows)

	request.OnlyKeys = func(context.Context, []arrow.Field) (stage.KeptKeys, error) { return nil, errors.New("no keys") }
	_, err := r.stager.Stage(t.Context(), request, unread(t, schema()))
	require.ErrorContains(t, err, "no keys")

	require.NoError(t, r.tables.Create(t.Context(), commit.NewTable{Table: "ml.flat", Columns: []commit.NewColumn{{ID: 1, Name: "id", Type: "long"}}}))
	request.Table, request.Key = "ml.flat", nil
	_, err = r.stager.Stage(t.Context(), request, unread(t, schema()))
	require.ErrorContains(t, err, "no buckets whose columns are the key")
}
