package entries

import (
	"context"
	"slices"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/policy"
	"github.com/penstock/penstock/loader/resolve"
)

// marked has the outputs of a staging entry that describe its matches, by their positions; -1: there is none.
type marked struct {
	matched int // true in rows with a match
	// The times of the training row and of the staging row, if the entry has point_in_time.
	training, staging int
	key               []int // the training columns of the key; nil for promoted entries
}

// plan plans the dataset as it is, to find promoted entries and to pin the tables, and then with rules that keep all rows.
func (d *describing) plan(ctx context.Context) error {
	rows := dataset.Rows{Order: dataset.Stored, Lanes: 1}
	reading := dataset.Reading{Shard: dataset.Shard{Of: 1}, Cache: dataset.CacheOff}
	own, err := d.Loader.PlanDataset(ctx, d.dataset, d.planRequest(rows, reading))
	if err != nil {
		return err
	}
	names := outputNames(own.Outputs)
	for _, c := range d.request.Columns {
		if !slices.Contains(names, c) {
			failure := fault.New(fault.NotFound, "the dataset has no column %q", c)
			failure.Faults = []fault.Field{{Field: "columns", Message: failure.Message, Nearest: fault.Nearest(c, names)}}
			return policy.AsSeen(failure)
		}
	}
	changed := d.dataset
	changed.Staging = slices.Clone(d.dataset.Staging)
	d.pin = dataset.Pin{Training: own.Rows.Pin.Training, Staging: map[string]dataset.TablePin{}}
	for i, s := range own.Relation.Staging {
		if s.Promoted != nil { // an entry that is pinned does not count as promoted
			continue
		}
		d.pin.Staging[s.Name] = own.Rows.Pin.Staging[s.Name]
		changed.Staging[i] = keepAll(changed.Staging[i], &names)
	}
	rows.Pin = d.pin
	if d.planned, err = d.Loader.PlanDataset(ctx, changed, d.planRequest(rows, reading)); err != nil {
		return err
	}
	for i, s := range own.Relation.Staging {
		d.marks = append(d.marks, d.markedOutputs(i, s))
	}
	d.own = names[:len(own.Outputs)]
	d.notePins()
	return nil
}

// notePins calls Request.Pinned with each table.
func (d *describing) notePins() {
	if d.request.Pinned == nil {
		return
	}
	of := d.planned.Relation
	d.request.Pinned(of.Training.Name, snapshotOf(of.Training.Pin))
	for _, s := range of.Staging {
		if s.Promoted == nil {
			d.request.Pinned(s.Table, snapshotOf(s.Pinned.Pin))
		}
	}
}

// snapshotOf returns the snapshot of a pin; 0 if the table has none.
func snapshotOf(p dataset.TablePin) int64 {
	if p.Snapshot == dataset.NoSnapshot {
		return 0
	}
	return p.Snapshot
}

// planRequest returns the request for a plan with the rights of the client.
func (d *describing) planRequest(rows dataset.Rows, reading dataset.Reading) loader.PlanRequest {
	return loader.PlanRequest{Query: dataset.Query{Rows: rows, Reading: reading}, Rights: d.request.Rights}
}

// keepAll returns an entry that keeps each training row once, and marks rows with a match. It adds new names of columns to names.
func keepAll(s dataset.Staging, names *[]string) dataset.Staging {
	if !s.Join.Adds() {
		s.Columns, s.Prefix, s.Defaults = []dataset.Column{}, "", nil
	}
	if !s.Join.Adds() || !s.Duplicates.Choose() {
		s.Duplicates = rule.DuplicatesFirst
	}
	if s.Missing.Fail() {
		s.Missing = rule.MissingNull
	}
	if !s.Join.KeepsAll() {
		s.Join = rule.Left
	}
	s.MinMatch, s.AnyMatch = 0, true
	name := func(of string) string {
		*names = append(*names, unused(of, *names))
		return (*names)[len(*names)-1]
	}
	if s.MatchedAs == "" {
		s.MatchedAs = name(s.Name + " matched")
	}
	if s.PointInTime != nil && s.Columns != nil {
		s.Columns = append(slices.Clone(s.Columns), dataset.Column{Column: s.PointInTime.Staging, Name: name(s.Name + " time")})
	}
	return s
}

// markedOutputs returns the outputs that describe the matches of an entry, as the dataset has it.
func (d *describing) markedOutputs(entry int, own resolve.Staging) marked {
	out := marked{matched: -1, training: -1, staging: -1}
	if own.Promoted != nil {
		return out
	}
	bound := d.planned.Relation.Staging[entry]
	for i, o := range d.planned.Outputs {
		switch {
		case o.Table == entry && o.Matched:
			out.matched = i
		case bound.Time == nil:
		case o.Table == entry && o.Field.ID == bound.Time.Staging.ID && len(o.Shapes) == 0:
			out.staging = i
		case o.Table == resolve.TrainingTable && o.Field.ID == bound.Time.Training.ID:
			out.training = i
		}
	}
	for _, k := range own.Keys {
		out.key = append(out.key, slices.IndexFunc(d.planned.Outputs, func(o resolve.Output) bool {
			return o.Table == resolve.TrainingTable && o.Field.ID == k.Training.ID && len(o.Overlays) == 0
		}))
	}
	if slices.Contains(out.key, -1) {
		out.key = nil
	}
	return out
}

func outputNames(outputs []resolve.Output) []string {
	names := make([]string, len(outputs))
	for i, o := range outputs {
		names[i] = o.Name
	}
	return names
}
