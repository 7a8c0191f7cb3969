package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/flight/access"
	"github.com/penstock/penstock/flight/changes"
	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/fault"
	tablecommit "github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/staged"
	"github.com/penstock/penstock/loader/statistics"
)

// checkLimits implements verify.CheckLimits. The base of changes is the one that the limits name.
func (e *Engine) checkLimits(ctx context.Context, table string, snapshot int64, limits dataset.Limits) (*drift.Checked, error) {
	return e.checkLimitsAgainst(ctx, table, snapshot, limits.Against, limits)
}

// checkLimitsAgainst checks limits of a table's values at a snapshot. Changes are measured with the snapshot that against selects.
func (e *Engine) checkLimitsAgainst(ctx context.Context, table string, snapshot int64, against string, limits dataset.Limits) (*drift.Checked, error) {
	ctx, entered := e.Budget.Enter(ctx, "limits")
	defer entered.Release()
	snapshots, held, err := e.snapshots(ctx, table)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	describer, closeKept := e.describer(ctx, func(error) {}) // then all files are read
	defer closeKept()
	at := statistics.Request{History: snapshots, At: strconv.FormatInt(snapshot, 10)}
	return describer.Check(ctx, at, &statistics.Request{History: snapshots, At: against}, limits)
}

// publishCheckTime is how long a publish may check limits.
const publishCheckTime = 10 * time.Minute

// maxBroken is the maximum number of broken limits that an error names.
const maxBroken = 5

// limitedEntry is an entry of a dataset with limits of a table that is published.
type limitedEntry struct {
	dataset dataset.Dataset
	entry   string
	limits  dataset.Limits
}

// limitedEntries returns the entries that read main or a branch of a table and have limits.
func (e *Engine) limitedEntries(table, branch string) (out []limitedEntry) {
	same := e.Tables.Catalogs.Same
	reads := func(of string, ref dataset.Ref) bool {
		return same(of, table) && ref.Snapshot == 0 && (ref.Name == "" || ref.Name == branch)
	}
	for _, d := range e.Loader.Datasets() {
		if d.Training.Limits != nil && reads(d.Training.Table, d.Training.Ref) {
			out = append(out, limitedEntry{d, "training", *d.Training.Limits})
		}
		for _, s := range d.Staging {
			if s.Limits != nil && reads(s.Table, s.Ref) {
				out = append(out, limitedEntry{d, s.Name, *s.Limits})
			}
		}
	}
	return out
}

// shownTo reports whether the client of a publication may read the dataset, and its table as a whole.
func (l limitedEntry) shownTo(p changes.Publication) bool {
	return slices.ContainsFunc(p.Readers, func(r access.DatasetReader) bool {
		return r.Dataset.Name == l.dataset.Name && r.Rights.Of(p.Table).IsZero()
	})
}

// publishedLimits returns the limits that checkPublished checks and names, without counts.
func (e *Engine) publishedLimits(p changes.Publication) (out []changes.CheckedLimits) {
	for _, l := range e.limitedEntries(p.Table, p.Branch) {
		if l.shownTo(p) {
			out = append(out, changes.CheckedLimits{
				Dataset: l.dataset.Name, Entry: l.entry,
				Checked: drift.Checked{Table: p.Table, Columns: l.limits.Names(), Broken: []drift.Change{}},
			})
		}
	}
	return out
}

// checkPublished checks the limits of all datasets that read a table before main is moved. The base of changes is main. It returns
// Invalid if a limit is broken. The results and the error tell values only of datasets and tables that the client may read as a whole.
func (e *Engine) checkPublished(ctx context.Context, p changes.Publication, move tablecommit.Move) ([]changes.CheckedLimits, error) {
	within, end := context.WithTimeout(ctx, publishCheckTime)
	defer end()
	against := ""
	if move.From != 0 {
		against = strconv.FormatInt(move.From, 10)
	}
	var out []changes.CheckedLimits
	var broken []string
	for _, l := range e.limitedEntries(p.Table, p.Branch) {
		shown := l.shownTo(p)
		checked, err := e.checkLimitsAgainst(within, p.Table, move.To, against, l.limits)
		switch {
		case err != nil && within.Err() != nil && ctx.Err() == nil:
			return nil, fault.New(fault.Unavailable, "the limits of table %s were not checked within %s", p.Table, publishCheckTime).In(p.Table, "")
		case err != nil && !shown:
			return nil, fault.New(cmp.Or(fault.KindOf(err), fault.Internal), "limits of a dataset of the server cannot be checked").In(p.Table, "")
		case err != nil:
			return nil, fault.Op(err, "check dataset %s", l.dataset.Name)
		case !shown && len(checked.Broken) > 0:
			broken = append(broken, "limits of a dataset of the server")
			continue
		case !shown:
			continue
		}
		out = append(out, changes.CheckedLimits{Dataset: l.dataset.Name, Entry: l.entry, Checked: *checked})
		for _, b := range checked.Broken {
			broken = append(broken, fmt.Sprintf("dataset %s, entry %s, %s: %s", l.dataset.Name, l.entry, b.Place(), b.Text()))
		}
	}
	fewer, err := e.fewerMatches(within, p, move)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return nil, fault.New(fault.Unavailable, "the match rates of table %s were not measured within %s", p.Table, publishCheckTime).In(p.Table, "")
	}
	return out, cmp.Or(err, brokenLimits(p, append(broken, fewer...)))
}

// fewerMatches returns the entries of which fewer rows would match than their min_match allows.
func (e *Engine) fewerMatches(ctx context.Context, p changes.Publication, move tablecommit.Move) (out []string, err error) {
	shown := func(d dataset.Dataset) bool {
		return slices.ContainsFunc(p.Readers, func(r access.DatasetReader) bool { return r.Dataset.Name == d.Name && !r.Rights.Limits(d) })
	}
	var seen, hidden []staged.Reader
	datasets := e.Datasets()
	for _, r := range datasets.AllReaders() {
		if shown(r.Dataset) {
			seen = append(seen, r)
		} else {
			hidden = append(hidden, r)
		}
	}
	change := staged.Change{Table: p.Table, Branch: p.Branch, Snapshot: move.To, Parent: move.From, Peer: "limits"}
	few, err := datasets.CheckMinMatch(ctx, change, seen)
	if err != nil {
		return nil, err
	}
	for _, one := range few {
		out = append(out, fmt.Sprintf("dataset %s, entry %s: %s", one.Reader.Dataset.Name, one.Entry, one.Text()))
	}
	few, err = datasets.CheckMinMatch(ctx, change, hidden)
	if err != nil {
		return nil, fault.New(fault.KindOf(err), "the match rate of a dataset of the server cannot be measured").In(p.Table, "")
	}
	if len(few) > 0 {
		out = append(out, "min_match of a dataset of the server")
	}
	return out, nil
}

// brokenLimits returns the error for broken limits; nil if there are none.
func brokenLimits(p changes.Publication, broken []string) error {
	if len(broken) == 0 {
		return nil
	}
	more := ""
	if n := len(broken) - maxBroken; n > 0 {
		more = fmt.Sprintf("; and %d more", n)
	}
	return fault.New(fault.Invalid, "branch %s breaks limits of datasets: %s%s", p.Branch, strings.Join(broken[:min(len(broken), maxBroken)], "; "), more).In(p.Table, "").
		WithRemedy("correct the rows of the branch, change the limits of the dataset, or publish with --no-check (no_check=True in Python)")
}
