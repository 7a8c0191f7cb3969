package loader_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/loadertest"
)

// holds counts the holds on each table.
type holds struct {
	mu     sync.Mutex
	now    map[string]int
	begun  int
	refuse string // the table whose hold is refused
}

func (h *holds) hold(_ context.Context, t *catalog.Table) (*release.Handle, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begun++
	if t.Name == h.refuse {
		return nil, fault.New(fault.Unavailable, "table %s cannot be held", t.Name)
	}
	h.now[t.Name]++
	return release.New(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.now[t.Name]--
	}), nil
}

// TestStreamsHoldWhatTheyRead checks that a stream holds everything that it reads from
// before it reads until it is released, that planning and counting hold nothing, and
// that a stream that cannot hold everything holds nothing and is not opened.
//
// spec: pin-5, pin-9
func TestStreamsHoldWhatTheyRead(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	pair := func(i int) string { return fmt.Sprint(i, " ", i) }
	loadertest.Rows("ml.train", "id:long item:long", "bucket(4,id)", 40, pair).In(t, w)
	loadertest.Rows("features.f", "id:long v:long", "bucket(4,id)", 40, pair).In(t, w)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{{Table: "features.f"}}}
	h := &holds{now: map[string]int{}}
	memory := budget.New(1 << 30)
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan, Hold: h.hold, Budget: memory})
	query := loadertest.OneShard(1, 8)
	query.Count = dataset.CountExact
	p, err := l.Plan(t.Context(), query)
	require.NoError(t, err)
	_, err = l.Count(t.Context(), p, loader.StreamOptions{}, everybody(new(atomic.Int64)))
	require.NoError(t, err)
	require.Zero(t, h.begun)

	query = loadertest.OneShard(1, 8)
	s, err := l.Open(t.Context(), p, loader.StreamOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"ml.train": 1, "features.f": 1}, h.now)
	other, err := l.Open(t.Context(), p, loader.StreamOptions{})
	require.NoError(t, err)
	for s.Next() {
	}
	require.NoError(t, s.Err())
	s.Release()
	require.Equal(t, map[string]int{"ml.train": 1, "features.f": 1}, h.now)
	other.Release()
	require.Equal(t, map[string]int{"ml.train": 0, "features.f": 0}, h.now)

	for _, table := range []string{"ml.train", "features.f"} {
		h.refuse = table
		before := memory.Used()
		_, err = l.Open(t.Context(), p, loader.StreamOptions{})
		require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String())
		require.ErrorContains(t, err, "table "+table+" cannot be held")
		require.Equal(t, map[string]int{"ml.train": 0, "features.f": 0}, h.now)
		require.Equal(t, before, memory.Used())
	}
}

// TestFailedHoldDoesNotCancelTheOthers checks that a table that cannot be held does not cancel
// the other holds.
func TestFailedHoldDoesNotCancelTheOthers(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	pair := func(i int) string { return fmt.Sprint(i, " ", i) }
	loadertest.Rows("ml.train", "id:long item:long", "bucket(4,id)", 40, pair).In(t, w)
	loadertest.Rows("features.f", "id:long v:long", "bucket(4,id)", 40, pair).In(t, w)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{{Table: "features.f"}}}
	refused := make(chan struct{})
	ended := make(chan error, 1)
	l := loader.New(loader.Options{
		Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan,
		Hold: func(ctx context.Context, t *catalog.Table) (*release.Handle, error) {
			if t.Name == "features.f" {
				defer close(refused)
				return nil, fault.New(fault.Unavailable, "refused")
			}
			select {
			case <-refused:
			case <-time.After(10 * time.Second):
				return nil, errors.New("the other table was not held")
			}
			select { // leaves time to observe effects of the refusal
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
			ended <- ctx.Err()
			return release.New(func() {}), ctx.Err()
		},
	})
	p, err := l.Plan(t.Context(), loadertest.OneShard(1, 8))
	require.NoError(t, err)
	_, err = l.Open(t.Context(), p, loader.StreamOptions{})
	require.ErrorContains(t, err, "refused")
	require.NoError(t, <-ended)
}

// TestAddedEntriesAreNotHeld: clients choose the tables of the entries that they add, and holding one writes to its catalog. Once
// the dataset has the entry itself, it is held.
//
// spec: access-20
func TestAddedEntriesAreNotHeld(t *testing.T) {
	t.Parallel()
	w := scenario.NewWorld()
	t.Cleanup(w.Release)
	pair := func(i int) string { return fmt.Sprint(i, " ", i) }
	for _, name := range []string{"features.f", "features.g"} {
		loadertest.Rows(name, "id:long v:long", "bucket(4,id)", 40, pair).In(t, w)
	}
	loadertest.Rows("ml.train", "id:long item:long", "bucket(4,id)", 40, pair).In(t, w)
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{{Table: "features.f"}}}
	h := &holds{now: map[string]int{}}
	l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: w.Scan, Hold: h.hold})
	query := loadertest.OneShard(1, 8)
	query.With = []dataset.Staging{{Table: "features.g", Prefix: "g_"}}
	p, err := l.Plan(t.Context(), query)
	require.NoError(t, err)
	s, err := l.Open(t.Context(), p, loader.StreamOptions{})
	require.NoError(t, err)
	defer s.Release()
	require.Equal(t, map[string]int{"ml.train": 1, "features.f": 1}, h.now)

	d.Staging = append(d.Staging, query.With...)
	l.SetDatasets([]dataset.Dataset{d.Defaults()})
	p, err = l.Plan(t.Context(), query)
	require.NoError(t, err)
	promoted, err := l.Open(t.Context(), p, loader.StreamOptions{})
	require.NoError(t, err)
	defer promoted.Release()
	require.Equal(t, map[string]int{"ml.train": 2, "features.f": 2, "features.g": 1}, h.now)
}
