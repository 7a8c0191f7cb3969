package staged

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
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

// measure measures the match rate of an entry.
func (c *readerCheck) measure(ctx context.Context, entry int, to *stage.ReaderCheck) {
	splits, touched, err := c.touchedSplits(ctx, entry)
	if err != nil { // the dataset can be planned, so it is not broken
		to.NotMeasured = cmp.Or(c.notMeasured(ctx, err), c.becauseOf(ctx, err))
		return
	}
	rows, matched, err := c.sample(ctx, splits, entry, c.change.Snapshot)
	if err != nil {
		c.failed(ctx, to, err, func(ctx context.Context) error {
			if c.change.Parent == 0 {
				return errNoParent
			}
			_, _, err := c.sample(ctx, splits, entry, c.change.Parent)
			return err
		})
		return
	}
	if to.Rows, to.Matched = rows, matched; rows == 0 {
		to.NotMeasured = "not measured: there are no training rows"
	}
	to.Warning = warningOf(c.reader.Dataset, entry, rows, matched, c.verifying(entry, to))
	if c.change.Staged && !touched && rows > 0 && to.Warning == "" && !c.reader.Dataset.Staging[entry].AnyMatch && !c.reader.Rights.Limits(c.reader.Dataset) {
		to.Warning = "no training row can match the staged files, so the sample shows other rows; " + c.verifying(entry, to) + " compares the keys of both tables"
	}
}

// verifying returns the command that compares the keys of all rows with those of the snapshot that was sampled.
func (c *readerCheck) verifying(entry int, to *stage.ReaderCheck) string {
	command := "penstock verify " + c.reader.Dataset.Name
	if to.Branch == "" {
		return command
	}
	name, err := json.Marshal(c.reader.Dataset.Staging[entry].Name)
	if err != nil {
		return command
	}
	escaped := strings.ReplaceAll(string(name), "'", `\u0027`) // it is between single quotes
	return command + fmt.Sprintf(` --query '{"snapshots": {"staging": {%s: {"snapshot": "%d"}}}}'`, escaped, c.change.Snapshot)
}

// warningOf returns why the match rate of an entry is probably wrong, with the command that compares the keys, or "".
func warningOf(d dataset.Dataset, entry int, rows, matched int64, command string) string {
	s := d.Staging[entry]
	compare := command + " compares the keys of both tables"
	switch {
	case s.AnyMatch || rows == 0:
		return ""
	case matched == 0:
		return "no sampled row matches; " + compare
	case float64(matched) < s.MinMatch*float64(rows):
		return fmt.Sprintf("less than min_match, which is %.4g%%; %s", 100*s.MinMatch, compare)
	case s.MinMatch == 0 && s.Join.FewMatches(rows, matched):
		return "few sampled rows match; " + compare
	}
	return ""
}

// planEntry plans a dataset of the training table and one entry, whose only column shows which rows
// match. The entry keeps its rules, and drops no training row. sample is the share of the training
// rows; nil: all of them.
func (c *readerCheck) planEntry(ctx context.Context, sample *dataset.Sample, entry int, snapshot int64) (loader.Planned, error) {
	d, s := c.reader.Dataset, c.reader.Dataset.Staging[entry]
	if !s.Join.Adds() || s.Duplicates.Multiply() { // several rows of a key are no error
		s.Duplicates = rule.DuplicatesFirst
	}
	if !s.Missing.Fail() {
		s.Missing = rule.MissingNull
	}
	s.Join, s.Nulls, s.Columns, s.Prefix, s.Defaults, s.MinMatch = rule.Left, rule.NullsReplace, []dataset.Column{}, "", nil, 0
	s.MatchedAs = unusedName("matched", c.training)
	alone := dataset.Dataset{Training: d.Training, Key: d.Key, Staging: []dataset.Staging{s}}
	alone.Training.Distinct, alone.Training.RequestLevel = nil, nil // these do not affect which keys match
	q := dataset.Query{
		Rows:    dataset.Rows{Sample: sample, Pin: dataset.Pin{Staging: withPin(nil, s.Name, dataset.TablePin{Snapshot: snapshot})}},
		Reading: dataset.Reading{Columns: []dataset.Column{{Column: s.MatchedAs}}, Shard: dataset.Shard{Of: 1}, BatchRows: sampledRows, Limit: sampledRows},
	}
	return c.Loader.PlanDataset(ctx, alone, loader.PlanRequest{Query: q, Rights: c.reader.Rights})
}

// sampleRate returns the share of rows of which the largest of the splits has about sampledRows.
func sampleRate(splits []plan.Split) float64 {
	largest := int64(sampledRows)
	for _, s := range splits {
		largest = max(largest, s.Rows)
	}
	return float64(sampledRows) / float64(largest)
}

// unusedName returns a name that no column of a table has, in any case.
func unusedName(name string, t *catalog.Table) string {
	for slices.ContainsFunc(t.Fields, func(f catalog.Field) bool { return strings.EqualFold(f.Name, name) }) {
		name += "_"
	}
	return name
}

// sample reads the drawn rows of splits. It returns the number of training rows, and of those that
// match.
func (c *readerCheck) sample(ctx context.Context, splits []plan.Split, entry int, snapshot int64) (rows, matched int64, err error) {
	p, err := c.planEntry(ctx, &dataset.Sample{Rate: sampleRate(splits)}, entry, snapshot)
	if err != nil {
		return 0, 0, err
	}
	for i, split := range p.Splits {
		if !slices.ContainsFunc(splits, func(s plan.Split) bool { return s.ID == split.ID }) {
			continue
		}
		s, err := c.Loader.Open(ctx, p, loader.StreamOptions{Part: plan.Part{From: i, To: i + 1}, Peer: c.change.Peer})
		if err != nil {
			return 0, 0, err
		}
		for s.Next() { // the report also counts rows that are joined but not returned
			of := s.RecordBatch().Column(0).(*array.Boolean) //nolint:forcetypeassert // planEntry selects this column alone
			rows, matched = rows+int64(of.Len()), matched+int64(trues(of))
		}
		err = s.Err()
		s.Release()
		if err != nil {
			return 0, 0, err
		}
	}
	return rows, matched, nil
}

// trues returns how many values of a column without nulls are true.
func trues(of *array.Boolean) (n int) {
	for i := range of.Len() {
		if of.Value(i) {
			n++
		}
	}
	return n
}
