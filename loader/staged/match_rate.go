package staged

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/stage"
)

// measure measures the match rate of an entry.
func (c *readerCheck) measure(ctx context.Context, entry int, to *stage.ReaderCheck) {
	chosen, err := c.chooseSplits(ctx, entry)
	if err != nil { // the dataset can be planned, so it is not broken
		to.NotMeasured = cmp.Or(c.notMeasured(ctx, err), c.becauseOf(ctx, err))
		return
	}
	rows, matched, err := c.sample(ctx, chosen)
	if err != nil {
		c.failed(ctx, to, err, func(ctx context.Context) (err error) {
			if c.change.Parent == 0 {
				return errNoParent
			}
			before := chosen
			if before.plan, err = c.planEntry(ctx, entry, c.change.Parent); err == nil {
				_, _, err = c.sample(ctx, before)
			}
			return err
		})
		return
	}
	if to.Rows, to.Matched = rows, matched; rows == 0 {
		to.NotMeasured = "not measured: there are no training rows"
	}
	to.Warning = warningOf(c.reader.Dataset, entry, rows, matched, c.verifying(entry, to))
	if c.change.Staged && !chosen.touched && rows > 0 && to.Warning == "" && !c.reader.Dataset.Staging[entry].AnyMatch && !c.reader.Rights.Limits(c.reader.Dataset) {
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
// match. The entry keeps its rules, and drops no training row.
func (c *readerCheck) planEntry(ctx context.Context, entry int, snapshot int64) (loader.Planned, error) {
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
		Rows:    dataset.Rows{Pin: dataset.Pin{Staging: withPin(nil, s.Name, dataset.TablePin{Snapshot: snapshot})}},
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

// sample reads rows that are drawn from splits. It returns their number, and how many of them match.
func (c *readerCheck) sample(ctx context.Context, of chosenSplits) (rows, matched int64, err error) {
	p := of.plan
	p.Plan = p.Draw(sampleRate(of.splits))
	for i, split := range p.Splits {
		if !slices.ContainsFunc(of.splits, func(s plan.Split) bool { return s.ID == split.ID }) {
			continue
		}
		s, err := c.Loader.Open(ctx, p, loader.StreamOptions{Part: plan.Part{From: i, To: i + 1}, Peer: c.change.Peer})
		if err != nil {
			return 0, 0, err
		}
		for s.Next() { // the report also counts rows that are joined but not returned
			matches := s.RecordBatch().Column(0).(*array.Boolean) //nolint:forcetypeassert // planEntry selects this column alone
			rows, matched = rows+int64(matches.Len()), matched+int64(trues(matches))
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
