package datafile

import (
	"context"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/write"
	"github.com/penstock/penstock/loader/extsort"
)

// Writing a partition concurrently takes memory of up to writerGroups times the bytes of a row
// group: up to six copies of the open row group's pages are held, and up to six copies of the
// sample of rows. The minimum is minWriter even for small row groups, since the tables of
// compression are not charged to the budget.
const (
	writerGroups = 16
	minWriter    = 128 << 20 // bytes
)

// writers returns the number of partitions that are written concurrently.
func (c *Call) writers() int {
	n := c.options.Threads
	if limit := c.options.Budget.Limit(); limit >= 0 {
		n = int(min(int64(n), limit/int64(c.options.Calls)/max(writerGroups*c.options.groupBytes(), minWriter)))
	}
	return max(n, 1)
}

// Write writes all partitions of sorted rows. After an error the caller discards the files.
func (u *Files) Write(ctx context.Context, t *Target, sorted *extsort.Sorted) error {
	begun := len(u.parts)
	for i, p := range sorted.Partitions() {
		u.part(t, p.Values).sorted = i
	}
	parts := u.parts[begun:]
	w := &partitionWriters{Files: u, sorted: sorted, parts: parts, left: make([]bool, len(parts)), ended: make(chan struct{})}
	w.first = slices.IndexFunc(sorted.Partitions(), func(p extsort.Partition) bool { return p.Rows >= write.MinChoiceRows })
	if w.first < 0 {
		w.first = len(parts)
	}
	if err := w.all(ctx, min(u.call.writers(), len(parts))); err != nil {
		return err
	}
	for _, p := range parts {
		u.added = append(u.added, p.added...)
	}
	return nil
}

// partitionWriters writes partitions concurrently. The first partition with enough rows chooses the
// encodings for all partitions after it, which wait for the choice. The partitions before it choose
// their encodings separately. So the files do not depend on the timing of the goroutines.
type partitionWriters struct {
	*Files
	sorted *extsort.Sorted
	parts  []*partitionFiles
	first  int           // the partition that chooses the encodings for all partitions after it
	ended  chan struct{} // closed when the first partition was written or has failed
	left   []bool        // partitions that were not written, since there was too little memory to write several concurrently
}

// all writes all partitions concurrently. It then writes the partitions for which there was too
// little memory, one after the other.
func (w *partitionWriters) all(ctx context.Context, writers int) error {
	if writers > 1 {
		if err := w.parallel(ctx, writers); err != nil {
			return err
		}
	}
	for i, p := range w.parts {
		if writers > 1 && !w.left[i] {
			continue
		}
		if err := p.write(ctx, w.sorted, w.choiceOf(i)); err != nil {
			return err
		}
	}
	return nil
}

// choiceOf returns the choice of encodings that a partition makes or follows, or nil if it has
// none.
func (w *partitionWriters) choiceOf(i int) *write.EncodingChoice {
	if i < w.first {
		return nil
	}
	if i > w.first && !isClosed(w.choice.Made()) {
		return nil // the partition has too few rows
	}
	return &w.choice
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// parallel writes partitions in a number of goroutines. None of them waits for memory, since the
// others may hold it.
func (w *partitionWriters) parallel(ctx context.Context, writers int) error {
	group, ctx := errgroup.WithContext(budget.NoWait(ctx))
	var next atomic.Int64
	for range writers {
		group.Go(func() error {
			for i := int(next.Add(1)) - 1; i < len(w.parts); i = int(next.Add(1)) - 1 {
				if err := w.one(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// one writes a partition. If there is too little memory, it marks the partition as left.
func (w *partitionWriters) one(ctx context.Context, i int) error {
	if i > w.first {
		select {
		case <-w.choice.Made():
		case <-w.ended:
			if w.left[w.first] && !isClosed(w.choice.Made()) {
				w.left[i] = true
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err := w.parts[i].write(ctx, w.sorted, w.choiceOf(i))
	if fault.KindOf(err) == fault.Exhausted {
		w.parts[i].again(ctx)
		w.left[i], err = true, nil
	}
	if i == w.first {
		close(w.ended)
	}
	return err
}
