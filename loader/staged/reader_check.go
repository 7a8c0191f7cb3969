package staged

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/stage"
)

// use is one use of the table by a dataset.
type use struct {
	entry   int  // index of the staging entry, or trainingUse
	changed bool // whether the use reads the changed branch
}

const trainingUse = -1

// readerCheck is the check of one dataset.
type readerCheck struct {
	Datasets
	change   Change
	reader   Reader
	uses     []use
	found    []stage.ReaderCheck // by use
	training *catalog.Table      // the training table of the planned dataset
}

func (d Datasets) newReaderCheck(of Change, r Reader) *readerCheck {
	c := &readerCheck{Datasets: d, change: of, reader: r}
	add := func(entry int, name string, ref dataset.Ref) {
		branch := cmp.Or(of.Branch, dataset.MainBranch)
		removed := of.Snapshot == 0 && branch != dataset.MainBranch
		changed := ref.Snapshot == 0 && (ref.Name == "" || ref.Name == branch) && !removed
		out := stage.ReaderCheck{Dataset: r.Dataset.Name, Entry: name}
		switch {
		case removed && ref.Name == branch:
			out.NotMeasured = "reads branch " + branch + ", which is removed: it can be read again when the branch exists"
		case removed && ref.Name == "" && ref.Snapshot == 0:
			out.NotMeasured = "reads main, which stays as it is"
		case changed:
			if branch != dataset.MainBranch && ref.Name == "" {
				out.Branch = branch
			}
		case ref.Snapshot != 0:
			out.NotMeasured = fmt.Sprintf("reads snapshot %d, which stays as it is", ref.Snapshot)
		default:
			out.NotMeasured = "reads " + ref.Name + ", and not branch " + branch
		}
		c.uses, c.found = append(c.uses, use{entry, changed}), append(c.found, out)
	}
	if d.Same(r.Dataset.Training.Table, of.Table) {
		add(trainingUse, "", r.Dataset.Training.Ref)
	}
	for i, s := range r.Dataset.Staging {
		if d.Same(s.Table, of.Table) {
			add(i, s.Name, s.Ref)
		}
	}
	return c
}

// each calls a function for each use that reads the changed branch.
func (c *readerCheck) each(do func(of use, to *stage.ReaderCheck)) {
	for i, u := range c.uses {
		if u.changed {
			do(u, &c.found[i])
		}
	}
}

// run checks the dataset.
func (c *readerCheck) run(ctx context.Context) []stage.ReaderCheck {
	if !slices.ContainsFunc(c.uses, func(u use) bool { return u.changed }) {
		return c.found
	}
	p, err := c.plan(ctx, c.snapshot())
	c.each(func(of use, to *stage.ReaderCheck) {
		switch {
		case err != nil:
			c.failed(ctx, to, err, c.plannedBefore)
			c.measureAlone(ctx, of.entry, to)
			c.brokenRule(ctx, to)
		case of.entry == trainingUse:
		case p.Relation.Staging[of.entry].Promoted != nil:
			to.NotMeasured = "reads promoted columns of the training table, and not the staged rows"
		default:
			c.training = p.Relation.Training
			c.measure(ctx, of.entry, to)
			c.brokenRule(ctx, to)
		}
	})
	return c.found
}

// measureAlone measures the match rate of an entry of a dataset that could not be planned before the change either, if the dataset
// can be planned without its other entries. For example, one of them may read a branch that its table does not have yet.
func (c *readerCheck) measureAlone(ctx context.Context, entry int, to *stage.ReaderCheck) {
	if entry == trainingUse || to.Failure == nil || !to.Failure.Before {
		return
	}
	d, s := c.reader.Dataset, c.reader.Dataset.Staging[entry]
	q := dataset.Query{Rows: dataset.Rows{Pin: dataset.Pin{Staging: withPin(nil, s.Name, dataset.TablePin{Snapshot: c.snapshot()})}}}
	d.Staging = []dataset.Staging{s}
	p, err := c.Loader.PlanDataset(ctx, d, loader.PlanRequest{Query: q, Rights: c.reader.Rights})
	if err != nil || p.Relation.Staging[0].Promoted != nil {
		return // to.Failure says enough
	}
	planned := *to.Failure
	to.Failure = nil
	c.training = p.Relation.Training
	if c.measure(ctx, entry, to); to.Failure == nil || to.Failure.Before {
		to.Failure = &planned
	}
	if to.Warning != "" {
		to.Warning += " once the dataset can be read"
	}
}

// brokenRule records the rule of an entry that the change has broken, unless a sample of the rows
// has shown why the dataset cannot be read.
func (c *readerCheck) brokenRule(ctx context.Context, to *stage.ReaderCheck) {
	for _, b := range c.change.BrokenRules {
		if b.Dataset == to.Dataset && b.Entry == to.Entry && to.Failure == nil {
			to.Failure = stage.FailureOf(c.disclosed(ctx, b.Err))
		}
	}
}

// onMain reports whether the change is one of main.
func (c *readerCheck) onMain() bool {
	return cmp.Or(c.change.Branch, dataset.MainBranch) == dataset.MainBranch
}

// snapshot returns the snapshot of the table with which the dataset is planned; 0: that of its refs.
// On main, it is 0, because an entry that is pinned does not count as promoted.
func (c *readerCheck) snapshot() int64 {
	if c.onMain() {
		return 0
	}
	return c.change.Snapshot
}

// plan plans the dataset with a snapshot of the table; 0: with its refs.
func (c *readerCheck) plan(ctx context.Context, snapshot int64) (loader.Planned, error) {
	q := dataset.Query{Rows: dataset.Rows{Dataset: c.reader.Dataset.Name}}
	c.each(func(of use, _ *stage.ReaderCheck) {
		if pin := (dataset.TablePin{Snapshot: snapshot}); of.entry == trainingUse {
			q.Pin.Training = pin
		} else {
			q.Pin.Staging = withPin(q.Pin.Staging, c.reader.Dataset.Staging[of.entry].Name, pin)
		}
	})
	return c.Loader.PlanDataset(ctx, c.reader.Dataset, loader.PlanRequest{Query: q, Rights: c.reader.Rights})
}

func withPin(pins map[string]dataset.TablePin, entry string, pin dataset.TablePin) map[string]dataset.TablePin {
	if pins == nil {
		pins = map[string]dataset.TablePin{}
	}
	if pin.Snapshot != 0 {
		pins[entry] = pin
	}
	return pins
}

// errNoParent is the error of an attempt before a change if there was no snapshot.
var errNoParent = fault.New(fault.NotFound, "the table had no snapshot before the change")

// plannedBefore returns the error of planning the dataset before the change. A snapshot of main does
// not tell, because it has the schema with which it was committed, and not the current one. For
// another branch, Before describes how the dataset reads main, and Parent how it would read the branch.
func (c *readerCheck) plannedBefore(ctx context.Context) error {
	before, known := c.change.Before[c.reader.Dataset.Name]
	switch {
	case known && (before != nil || c.onMain()):
		return before
	case c.change.Parent == 0 && c.change.Before != nil:
		return nil
	case c.change.Parent == 0:
		return errNoParent
	}
	_, err := c.plan(ctx, c.change.Parent)
	return err
}

// failed records why the dataset cannot be read. before returns the error of the same attempt
// before the change.
func (c *readerCheck) failed(ctx context.Context, to *stage.ReaderCheck, err error, before func(context.Context) error) {
	if to.NotMeasured = c.notMeasured(ctx, err); to.NotMeasured != "" {
		return
	}
	to.Failure = stage.FailureOf(c.disclosed(ctx, err))
	err = before(ctx)
	to.Failure.Before = err != nil && c.notMeasured(ctx, err) == ""
}

// notMeasured returns why an attempt to read the dataset does not show whether it can be read, or
// "" if it shows that the dataset cannot be read.
func (c *readerCheck) notMeasured(ctx context.Context, err error) string {
	switch {
	case errors.Is(context.Cause(ctx), errCheckTime):
		return fmt.Sprintf("not measured within %.0f s", checkTime.Seconds())
	case ctx.Err() != nil:
		return "not measured: the call has ended"
	}
	switch fault.KindOf(err) {
	case fault.Internal, fault.Invalid, fault.NotFound, fault.Corrupt:
		return ""
	case fault.Unauthenticated, fault.Forbidden, fault.Expired, fault.Conflict, fault.Exhausted, fault.Unavailable:
	}
	return c.becauseOf(ctx, err)
}

// becauseOf says that an error prevented the measurement.
func (c *readerCheck) becauseOf(ctx context.Context, err error) string {
	return "not measured: " + fault.Redact(fault.As(c.disclosed(ctx, err)).Error())
}

func (c *readerCheck) disclosed(ctx context.Context, err error) error {
	if c.reader.Disclosed == nil {
		return err
	}
	return c.reader.Disclosed(ctx, err)
}
