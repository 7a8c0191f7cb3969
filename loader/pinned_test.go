package loader_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/loadertest"
	"github.com/penstock/penstock/loader/plan"
)

// losing is a scan of a world whose files can go missing.
type losing struct {
	*scenario.World
	of   string                // table
	lost atomic.Pointer[error] // the error of files that are read from now on
}

func (l *losing) scan(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
	rows, err := l.Scan(ctx, source, columns)
	if err != nil {
		return nil, err
	}
	out := lossy{Rows: rows}
	out.reader = batch.FromFunc(rows.Schema(), func() (arrow.RecordBatch, error) {
		if lost := l.lost.Load(); source.Table.Name == l.of && lost != nil {
			return nil, fault.Op(*lost, "read %s", source.Table.Name)
		}
		if !rows.Next() {
			return nil, rows.Err()
		}
		b := rows.RecordBatch()
		b.Retain()
		return b, nil
	}, rows.Release)
	return out, nil
}

// lossy are the rows of one source.
type lossy struct {
	loader.Rows
	reader interface {
		Next() bool
		RecordBatch() arrow.RecordBatch
		Err() error
		Release()
	}
}

func (l lossy) Next() bool                     { return l.reader.Next() }
func (l lossy) RecordBatch() arrow.RecordBatch { return l.reader.RecordBatch() }
func (l lossy) Err() error                     { return l.reader.Err() }
func (l lossy) Release()                       { l.reader.Release() }

// TestMissingFilesOfExpiredSnapshots removes a file of either table in mid-stream. The
// error of the stream depends on whether the catalog still has the pinned snapshot.
//
// spec: pin-2, pin-3
func TestMissingFilesOfExpiredSnapshots(t *testing.T) {
	t.Parallel()
	missing := store.Missing("mem:///gone.parquet")
	damaged := fault.New(fault.Corrupt, "page 3 is cut").In("", "mem:///gone.parquet")
	for _, table := range []string{"ml.train", "features.f"} {
		for name, c := range map[string]struct {
			lost   error
			change func(t *testing.T, w *scenario.World, pin int64)
			kind   fault.Kind
			text   string
		}{
			"missing, expired":   {missing, expire(table), fault.Expired, "of table " + table + " no longer exists"},
			"missing, still so":  {missing, nil, fault.Corrupt, "file mem:///gone.parquet is missing"},
			"missing, dropped":   {missing, func(t *testing.T, w *scenario.World, _ int64) { t.Helper(); require.NoError(t, w.Drop(table)) }, fault.NotFound, "table " + table + " does not exist"},
			"damaged, expired":   {damaged, expire(table), fault.Corrupt, "page 3 is cut"},
			"none lost, expired": {nil, expire(table), 0, ""},
		} {
			t.Run(table+", "+name, func(t *testing.T) {
				t.Parallel()
				w := scenario.NewWorld()
				t.Cleanup(w.Release)
				pair := func(i int) string { return fmt.Sprint(i, " ", i) }
				loadertest.Rows("ml.train", "id:long item:long", "bucket(4,id)", 400, pair).In(t, w)
				loadertest.Rows("features.f", "id:long v:long", "bucket(4,id)", 400, pair).In(t, w)
				d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{{Table: "features.f"}}}
				under := &losing{World: w, of: table}
				l := loader.New(loader.Options{Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w, Scan: under.scan})
				pinned, err := w.Table(t.Context(), table, dataset.Ref{})
				require.NoError(t, err)
				p, err := l.Plan(t.Context(), loadertest.OneShard(1, 8))
				require.NoError(t, err)
				s, err := l.Open(t.Context(), p, loader.StreamOptions{})
				require.NoError(t, err)
				defer s.Release()
				require.True(t, s.Next(), "%v", s.Err())
				if c.change != nil {
					c.change(t, w, pinned.Pin.Snapshot)
				}
				if c.lost != nil {
					under.lost.Store(&c.lost)
				}
				for s.Next() {
				}
				if c.text == "" {
					require.NoError(t, s.Err())
					require.Equal(t, int64(400), s.Report().Rows)
					return
				}
				require.Equal(t, c.kind.String(), fault.KindOf(s.Err()).String(), "%v", s.Err())
				require.ErrorContains(t, s.Err(), c.text)
				require.Equal(t, "mem:///gone.parquet", fault.As(s.Err()).File)
				if c.kind == fault.Expired {
					require.ErrorContains(t, s.Err(), "snapshot "+strconv.FormatInt(pinned.Pin.Snapshot, 10))
					require.Equal(t, table, fault.As(s.Err()).Table)
				}
			})
		}
	}
}

// TestSnapshotsThatExpireWhileRowsAreCounted checks that counting and verifying fail as
// streams do. They create no tags, so a snapshot may expire while they read.
//
// spec: pin-13
func TestSnapshotsThatExpireWhileRowsAreCounted(t *testing.T) {
	t.Parallel()
	missing := store.Missing("mem:///gone.parquet")
	count := func(ctx context.Context, l *loader.Loader) error {
		q := loadertest.OneShard(1, 8)
		q.Count = dataset.CountExact
		p, err := l.Plan(ctx, q)
		if err != nil {
			return err
		}
		_, err = l.Count(ctx, p, loader.StreamOptions{}, everybody(new(atomic.Int64)))
		return err
	}
	verify := func(ctx context.Context, l *loader.Loader) error {
		report, err := l.Verify(ctx, loader.PlanRequest{Query: loadertest.OneShard(1, 8)}, nil)
		if err == nil {
			return fault.New(fault.Corrupt, "%s", report)
		}
		return err
	}
	for _, table := range []string{"ml.train", "features.f"} {
		for name, c := range map[string]struct {
			change func(t *testing.T, w *scenario.World, pin int64)
			kind   fault.Kind
			text   string
		}{
			"expired":  {expire(table), fault.Expired, "of table " + table + " no longer exists"},
			"dropped":  {func(t *testing.T, w *scenario.World, _ int64) { t.Helper(); require.NoError(t, w.Drop(table)) }, fault.NotFound, "table " + table + " does not exist"},
			"still so": {func(*testing.T, *scenario.World, int64) {}, fault.Corrupt, "file mem:///gone.parquet is missing"},
		} {
			for what, read := range map[string]func(context.Context, *loader.Loader) error{"count": count, "verify": verify} {
				t.Run(table+", "+name+", "+what, func(t *testing.T) {
					t.Parallel()
					w := scenario.NewWorld()
					t.Cleanup(w.Release)
					pair := func(i int) string { return fmt.Sprint(i, " ", i) }
					loadertest.Rows("ml.train", "id:long item:long", "bucket(4,id)", 400, pair).In(t, w)
					loadertest.Rows("features.f", "id:long v:long", "bucket(4,id)", 400, pair).In(t, w)
					d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.train"}, Staging: []dataset.Staging{{Table: "features.f", Join: rule.Inner}}}
					pinned, err := w.Table(t.Context(), table, dataset.Ref{})
					require.NoError(t, err)
					under := &losing{World: w, of: table}
					var planned sync.Once
					l := loader.New(loader.Options{
						Datasets: []dataset.Dataset{d.Defaults()}, Catalog: w,
						Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
							planned.Do(func() {
								c.change(t, w, pinned.Pin.Snapshot)
								under.lost.Store(&missing)
							})
							return under.scan(ctx, source, columns)
						},
					})
					err = read(t.Context(), l)
					require.Equal(t, c.kind.String(), fault.KindOf(err).String(), "%v", err)
					require.ErrorContains(t, err, c.text)
					if c.kind == fault.Expired {
						require.ErrorContains(t, err, "snapshot "+strconv.FormatInt(pinned.Pin.Snapshot, 10))
						require.Equal(t, table, fault.As(err).Table)
					}
				})
			}
		}
	}
}

// expire expires a table's pinned snapshot after an empty commit.
func expire(table string) func(t *testing.T, w *scenario.World, pin int64) {
	return func(t *testing.T, w *scenario.World, pin int64) {
		t.Helper()
		_, err := w.Commit(table, catalogtest.MemoryCommit{})
		require.NoError(t, err)
		require.NoError(t, w.Expire(table, pin))
	}
}
