package spill_test

import (
	"context"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/spool"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/joinertest"
	"github.com/penstock/penstock/joiner/spill"
)

// disk returns the Disk function of a test, and its spool.
func disk(t testing.TB, mem memory.Allocator) (func(string) (spill.Store, error), *spool.Spool) {
	place, err := spool.Open(spool.Options{Folder: t.TempDir(), Memory: mem})
	require.NoError(t, err)
	return func(what string) (spill.Store, error) { return place.Create(what) }, place
}

// shelf makes in-memory stores, and counts them.
type shelf struct {
	mem  memory.Allocator
	mu   sync.Mutex
	open int
	made int
	left int   // appends that succeed before err, if it is set
	err  error //
}

func (s *shelf) disk(string) (spill.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	s.made++
	return &listed{shelf: s}, nil
}

type listed struct {
	*shelf
	list  []arrow.RecordBatch
	bytes int64
}

func (l *listed) Append(b arrow.RecordBatch) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		if l.left == 0 {
			return 0, l.err
		}
		l.left--
	}
	kept, err := duplicate(b, l.mem)
	if err != nil {
		return 0, err
	}
	l.list = append(l.list, kept)
	l.bytes += batch.Size(kept)
	return len(l.list) - 1, nil
}

func duplicate(b arrow.RecordBatch, mem memory.Allocator) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, b.NumCols())
	for i, c := range b.Columns() {
		var err error
		if columns[i], err = batch.Concat([]arrow.Array{c}, mem); err != nil {
			return nil, err
		}
		defer columns[i].Release()
	}
	return array.NewRecordBatch(b.Schema(), columns, b.NumRows()), nil
}

func (l *listed) Read(number int) (arrow.RecordBatch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return duplicate(l.list[number], l.mem)
}

func (l *listed) Size(number int) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return batch.Size(l.list[number])
}

func (l *listed) Bytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

func (l *listed) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.list {
		b.Release()
	}
	l.open--
}

// probesOf returns probes of a world whose staging rows are on disk.
func probesOf(t *testing.T, w joinertest.World, opts spill.Options) []joiner.Probe {
	return probesFrom(t, w, opts.Memory, opts)
}

// probesFrom is probesOf with another allocator for the batches that are read.
func probesFrom(t *testing.T, w joinertest.World, read memory.Allocator, opts spill.Options) []joiner.Probe {
	var probes []joiner.Probe
	for _, s := range w.Staging {
		var columns []arrow.Field
		for _, at := range s.Columns {
			columns = append(columns, s.Fields[at])
		}
		probes = append(probes, joiner.Probe{
			Rule: s.Rule, Key: s.At, Columns: columns, Matched: s.Spec.Matched,
			BuildSide: func(ctx context.Context) (joiner.Probeable, error) {
				sliced, err := spill.Slice(ctx, s.Input(t, read, s.Key, s.Columns), s.Spec, opts)
				if err != nil {
					return nil, err
				}
				defer sliced.Release()
				require.EqualValues(t, len(s.Rows), sliced.Rows())
				return sliced.ProbedBy(again(t, w, read, s), func(int64) {}), nil
			},
		})
	}
	return probes
}

// again returns the training rows a second time.
func again(t *testing.T, w joinertest.World, mem memory.Allocator, s joinertest.Staging) joiner.Input {
	rows := w.Training.Input(t, mem, s.At, nil)
	if s.Rule.Time != nil {
		rows.Columns = []int{s.Rule.Time.Column}
	}
	return rows
}

// joinFromDisk joins a world whose staging rows are on disk.
func joinFromDisk(t *testing.T, w joinertest.World, opts spill.Options) ([]string, []joiner.Counts, error) {
	limit := budget.New(1 << 30)
	opts.Options = joiner.Options{Memory: joinertest.Checked(t), Budget: limit}
	stores := &shelf{mem: opts.Memory}
	if opts.Disk == nil {
		opts.Disk = stores.disk
	}
	r, err := joiner.Join(t.Context(), w.Training.Input(t, opts.Memory, nil, w.Columns), probesOf(t, w, opts), opts.Options)
	require.NoError(t, err)
	out, counts, err := joinertest.Drain(t, r)
	require.Zero(t, limit.Used())
	require.Zero(t, stores.open)
	return out, counts, err
}
