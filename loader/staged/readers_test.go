package staged_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage"
	"github.com/penstock/penstock/loader/staged"
)

// failing is a catalog whose tables fail with an error; nil: they do not answer before the context ends.
type failing struct {
	catalog.Catalog
	err error
}

func (f failing) Table(ctx context.Context, _ string, _ dataset.Ref) (*catalog.Table, error) {
	if f.err != nil {
		return nil, f.err
	}
	<-ctx.Done()
	return nil, fault.New(fault.Unavailable, "the catalog does not answer: %w", context.Cause(ctx))
}

// checked returns the result of a check whose tables fail, and how long it took.
func checked(ctx context.Context, err error, parent int64) ([]stage.ReaderCheck, time.Duration) {
	of := loader.New(loader.Options{Catalog: failing{err: err}, Datasets: []dataset.Dataset{joins("clicks"), joins("views")}})
	d := staged.Datasets{Loader: of, Same: func(a, b string) bool { return a == b }}
	began := time.Now()
	return d.CheckReaders(ctx, staged.Change{Table: "features.history", Snapshot: 2, Parent: parent}, d.AllReaders()), time.Since(began)
}

// A check ends in time, and neither it nor failures of storage show that a dataset is broken.
//
// spec: stage-162
func TestChecksOfReadersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, took := checked(t.Context(), nil, 1)
		require.Equal(t, []stage.ReaderCheck{
			{Dataset: "clicks", Entry: "h", NotMeasured: "not measured within 10 s"},
			{Dataset: "views", Entry: "h", NotMeasured: "not measured within 10 s"},
		}, got)
		require.Equal(t, 10*time.Second, took, "the time is that of all datasets")

		ended, end := context.WithCancel(t.Context())
		end()
		got, took = checked(ended, nil, 1)
		require.Equal(t, "not measured: the call has ended", got[1].NotMeasured)
		require.Zero(t, took)
	})
	for _, kind := range []fault.Kind{fault.Unavailable, fault.Exhausted, fault.Forbidden} {
		got, _ := checked(t.Context(), fault.New(kind, "it fails now"), 1)
		require.Contains(t, got[0].NotMeasured, "it fails now")
		require.Nil(t, got[0].Failure)
	}
}

// A dataset is broken by a change only if it could be read before.
//
// spec: stage-160
func TestDatasetsThatCouldNotBeReadBefore(t *testing.T) {
	for _, parent := range []int64{0, 1} {
		got, _ := checked(t.Context(), fault.New(fault.NotFound, "there is no such table"), parent)
		require.True(t, got[0].Failure.Before)
		require.False(t, got[0].Broken())
	}
	require.True(t, stage.ReaderCheck{Failure: stage.FailureOf(fault.New(fault.Corrupt, "wrong"))}.Broken())
}

// Only the datasets that read the table are in the result of a check that may not read.
//
// spec: stage-162
func TestReadersThatAreNotChecked(t *testing.T) {
	d := newDatasets(t, 5, joins("clicks"))
	require.Equal(t, []stage.ReaderCheck{{Dataset: "clicks", Entry: "h", NotMeasured: "busy"}},
		d.NotChecked(t.Context(), staged.Change{Table: "features.history"}, d.AllReaders(), "busy"))
	require.Equal(t, []stage.ReaderCheck{}, d.NotChecked(t.Context(), staged.Change{Table: "features.unread"}, d.AllReaders(), "busy"))
	require.Equal(t, []stage.ReaderCheck{}, d.CheckReaders(t.Context(), staged.Change{Table: "features.unread"}, d.AllReaders()))
}
