package staged

import (
	"context"
	"errors"
	"time"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/stage"
)

// A check of the readers of a table takes at most checkTime. It measures the match rate of an entry
// from rows that are drawn from sampledSplits splits, at most sampledRows from each.
const (
	checkTime     = 10 * time.Second
	sampledSplits = 4
	sampledRows   = 4096
)

// errCheckTime ends a check after checkTime.
var errCheckTime = errors.New("the time of the check is over")

// Reader is a dataset that the caller of a stage may read.
type Reader struct {
	Dataset dataset.Dataset
	Rights  policy.Rights
	// Disclosed returns the error without the details that the caller may not see; nil: the caller
	// may see all details.
	Disclosed func(ctx context.Context, err error) error
}

// Change is a change of a table whose readers are checked.
type Change struct {
	Table    string // the name that users write
	Branch   string // "" is main
	Snapshot int64  // the snapshot that the change has made; 0: a branch other than main was removed, or main has no snapshot
	Parent   int64  // the snapshot of the branch before the change; 0: none
	Peer     string // the client whose share of the memory the check uses
	Staged   bool   // the change has staged rows
	// BrokenRules are the entries that the change is known to have broken.
	BrokenRules []stage.BrokenRule
	// Before has the result of PlanReaders before the change. A dataset that it lacks is planned with
	// snapshot Parent instead.
	Before map[string]error
}

// AllReaders returns all datasets as readers, for a caller that may read everything.
func (d Datasets) AllReaders() []Reader {
	var out []Reader
	for _, of := range d.Loader.Datasets() {
		out = append(out, Reader{Dataset: of})
	}
	return out
}

// CheckReaders checks whether those of the datasets that read a table can be read after a change of
// the table, and measures how many of their training rows match. It never returns nil. If ctx ends
// or storage fails, the result says which match rates were not measured.
func (d Datasets) CheckReaders(ctx context.Context, of Change, readers []Reader) []stage.ReaderCheck {
	ctx, cancel := context.WithTimeoutCause(ctx, checkTime, errCheckTime)
	defer cancel()
	out := []stage.ReaderCheck{}
	for _, r := range readers {
		if d.reads(r.Dataset, of.Table) {
			out = append(out, d.newReaderCheck(of, r).run(ctx)...)
		}
	}
	return out
}

// PlanReaders plans those of the datasets that read a table, and returns the errors by dataset. A
// dataset that can be planned has the error nil. The result lacks datasets of which it is not known
// whether they can be planned, for example because storage fails.
func (d Datasets) PlanReaders(ctx context.Context, of Change, readers []Reader) map[string]error {
	ctx, cancel := context.WithTimeoutCause(ctx, checkTime, errCheckTime)
	defer cancel()
	out := map[string]error{}
	for _, r := range readers {
		if !d.reads(r.Dataset, of.Table) {
			continue
		}
		c := d.newReaderCheck(of, r)
		if _, err := c.plan(ctx, 0); err == nil || c.notMeasured(ctx, err) == "" {
			out[r.Dataset.Name] = err
		}
	}
	return out
}

// NotChecked returns the result for datasets that read a table and that are not checked, with the reason.
func (d Datasets) NotChecked(ctx context.Context, of Change, readers []Reader, why string) []stage.ReaderCheck {
	out := []stage.ReaderCheck{}
	for _, r := range readers {
		if d.reads(r.Dataset, of.Table) {
			c := d.newReaderCheck(of, r)
			c.each(func(_ use, to *stage.ReaderCheck) {
				to.NotMeasured = why
				c.brokenRule(ctx, to)
			})
			out = append(out, c.found...)
		}
	}
	return out
}
