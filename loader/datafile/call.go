package datafile

import (
	"cmp"
	"context"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/loader/extsort"
)

// Options configure calls. Disk is required.
type Options struct {
	// Disk returns an empty store for sorted rows. what is the name of the store in errors.
	Disk   func(what string) (extsort.RunStore, error)
	Budget *budget.Budget   // nil is unlimited
	Memory memory.Allocator // allocates rows; nil: the Go heap
	// Threads is the number of goroutines of one call; 0 means 1.
	Threads int
	// Calls is the number of concurrent calls, which share the budget equally; 0 means 1.
	Calls int
	// Spare is memory for sorting rows beyond the share of a call; nil: 1/8 of the budget if there
	// are several calls, and otherwise none.
	Spare *budget.Budget
	// FileBytes is the target size of files; 0 means 256 MiB.
	FileBytes int64
}

// defaultFileBytes is between 128 and 512 MiB, which are good sizes for readers.
const defaultFileBytes = 256 << 20

// Defaults returns the options with defaults in place of zeros.
func (o Options) Defaults() Options {
	o.Threads, o.FileBytes, o.Calls = cmp.Or(o.Threads, 1), cmp.Or(o.FileBytes, defaultFileBytes), cmp.Or(o.Calls, 1)
	if limit := o.Budget.Limit(); o.Spare == nil && o.Calls > 1 && limit > 0 {
		o.Spare = budget.New(limit / spareShare)
	}
	return o
}

// share returns the part 1/of of one call's budget, limited to the range from least to most.
func (o Options) share(of, least, most int64) int64 {
	limit := o.Budget.Limit()
	if limit < 0 {
		return most
	}
	return min(max(limit/int64(o.Calls)/of, least), most)
}

// groupBytes returns the compressed bytes of a row group.
func (o Options) groupBytes() int64 { return o.share(groupShare, minGroup, maxGroup) }

// Step is a step of a call.
type Step int

// The steps, in order. A call without rows and a dry run end after the first step.
const (
	// ReadRows reads and sorts the rows.
	ReadRows Step = iota
	// WriteFiles writes data files.
	WriteFiles
	// CommitFiles commits the data files.
	CommitFiles
)

// String returns the name of the step.
func (s Step) String() string {
	switch s {
	case ReadRows:
		return "read"
	case WriteFiles:
		return "write"
	case CommitFiles:
		return "commit"
	}
	return "unknown"
}

// Progress describes how far a call has progressed.
type Progress struct {
	Step                  Step
	RowsRead, RowsWritten int64
	// OfRowsRead and OfRowsWritten are the rows to read and to write; 0: not yet known.
	OfRowsRead, OfRowsWritten int64
	Files                     int
	Bytes                     int64
}

// Call is one call that writes rows. It counts everything that it sorts and writes.
type Call struct {
	options Options
	report  func(Progress)

	mu     sync.Mutex // guards the fields below, and is held while report runs
	at     Progress
	memory int64 // size in memory of the rows that were read
}

// NewCall begins a call. The options must be the result of Defaults. The call reports its progress
// from time to time, from one goroutine at a time; report may be nil.
func NewCall(o Options, report func(Progress)) *Call { return &Call{options: o, report: report} }

// count changes the counts, and reports them.
func (c *Call) count(step Step, change func(*Progress)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at.Step = step
	change(&c.at)
	if c.report != nil {
		c.report(c.at)
	}
}

// Commits reports that the caller is about to commit the files.
func (c *Call) Commits() { c.count(CommitFiles, func(*Progress) {}) }

// WillWrite adds to the number of rows that the call will write, for its Progress.
func (c *Call) WillWrite(rows int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at.OfRowsWritten += rows
}

// Progress returns the progress of the call.
func (c *Call) Progress() Progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// SortOptions are options of Sort.
type SortOptions struct {
	// Keys drops rows whose key is not in the set; nil drops none.
	Keys extsort.KeySet
	// Each is called with the rows that are kept; it may be nil. See extsort.Options.
	Each func(ctx context.Context, rows extsort.AddedRows) error
}

// Sort reads all rows and sorts them by partition and key.
func (c *Call) Sort(ctx context.Context, t *Target, rows array.RecordReader, o SortOptions) (*extsort.Sorted, error) {
	options := extsort.Options{
		Budget: c.options.Budget, Memory: c.options.Memory, Disk: c.options.Disk, Threads: c.options.Threads,
		BatchBytes: c.options.share(sampleShare, minSample, maxSample), Readers: c.writers(), Keys: o.Keys, Each: o.Each,
		Spare: c.options.Spare,
	}
	if limit := c.options.Budget.Limit(); limit > 0 {
		options.WorkingMemory = limit / int64(c.options.Calls) / sortShare
	}
	sorter, err := extsort.New(t.Fitted, t.Layout, options)
	if err != nil {
		return nil, err
	}
	defer sorter.Release()
	for rows.Next() {
		if err := c.add(ctx, t, sorter, rows.RecordBatch()); err != nil {
			return nil, err
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	sorted, err := sorter.Finish(ctx)
	if err == nil {
		counts := sorted.Counts()
		c.WillWrite(counts.Rows - counts.Dropped)
	}
	return sorted, err
}

// add adds the rows of a batch.
func (c *Call) add(ctx context.Context, t *Target, sorter *extsort.Sorter, b arrow.RecordBatch) error {
	held, err := c.options.Budget.Reserve("rows to write", 0)
	if err != nil {
		return err
	}
	defer held.Release()
	if err := held.GrowWait(ctx, t.fitBytes(b)); err != nil {
		return err
	}
	fitted, err := t.fit(b, c.options.Memory)
	if err != nil {
		return err
	}
	defer fitted.Release()
	if err := sorter.Add(ctx, fitted); err != nil {
		return err
	}
	c.count(ReadRows, func(at *Progress) {
		at.RowsRead, c.memory = at.RowsRead+b.NumRows(), c.memory+batch.Size(fitted)
	})
	return nil
}
