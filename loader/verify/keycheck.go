package verify

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

const (
	shownKeys     = 5       // keys of each kind that a report shows
	maxPasses     = 1 << 12 // maximum number of passes over a cluster
	maxHeldBytes  = 1 << 30 // bytes of keys held at a time if the budget has no limit
	budgetShare   = 4       // reciprocal of the share of the budget for keys
	firstCapacity = 1 << 12 // number of keys for which memory is reserved at the start
)

// keyCheck compares the keys of one staging table with those of the training
// rows.
//
// It processes one cluster at a time. It reads the cluster's staging keys into a table, and then
// probes the table with the training rows: in one pass or, if the keys do not fit in memory, in 2,
// 4, 8 … passes, each for a part of the keys. Each key belongs to exactly one cluster and one pass,
// so the sums over all clusters and passes are the sums for the whole table.
type keyCheck struct {
	*verifier
	staging resolve.Staging
	files   []catalog.File
	layouts []*layout // by file
	listed  []int     // field ids of the columns in the catalog's listing
	probing []int     // field ids of the training columns that the check reads
	columns keyColumns
	checked []bool // by file: whether its layout was checked
	// unmatched is a sample of the keys of training rows without a match. Passes that are undone
	// leave it as it is, since they offer it the same keys again.
	unmatched keySample
	few       bool // few rows match, in a way that min_match does not allow
	sums
}

// keyColumns are the columns to read from both tables, and the positions of the key and
// the time among them.
type keyColumns struct {
	staging, training         []catalog.Field
	stagingKey, trainingKey   []int
	stagingTime, trainingTime int // -1: no time column
}

// newKeyCheck determines the columns to read for a staging table.
func (v *verifier) newKeyCheck(ctx context.Context, staging int) (*keyCheck, error) {
	s := v.plan.Relation.Staging[staging]
	c := &keyCheck{verifier: v, staging: s, columns: keyColumns{stagingTime: -1, trainingTime: -1}}
	at := &c.columns
	keys := map[int]bool{}
	for _, k := range s.Keys {
		keys[k.Staging.ID] = true
		at.staging, at.training = withField(at.staging, k.Staging), withField(at.training, k.Training)
		at.stagingKey = append(at.stagingKey, fieldAt(at.staging, k.Staging))
		at.trainingKey = append(at.trainingKey, fieldAt(at.training, k.Training))
	}
	if s.Time != nil {
		at.staging, at.training = withField(at.staging, s.Time.Staging), withField(at.training, s.Time.Training)
		at.stagingTime, at.trainingTime = fieldAt(at.staging, s.Time.Staging), fieldAt(at.training, s.Time.Training)
	}
	for _, name := range s.Rows.Columns() {
		if f, ok := s.Pinned.Field(name); ok {
			at.staging = withField(at.staging, f)
		}
	}
	if err := c.list(ctx, keys); err != nil {
		return nil, err
	}
	probing, err := v.trainingListing(ctx, v.plan.Relation.Training, at.training)
	if err != nil {
		return nil, err
	}
	c.probing = probing.Columns
	c.checked = make([]bool, len(c.files))
	c.join.Passes = 1
	return c, nil
}

// list lists the files and their layouts. It adds the bucketed columns that are not in the key to
// the columns to read, so that their buckets are checked, too. If these columns cannot be read,
// only the buckets of key columns are checked.
func (c *keyCheck) list(ctx context.Context, keys map[int]bool) error {
	table := c.staging.Pinned
	needed, err := c.listing(ctx, table, c.columns.staging)
	if err != nil {
		return err
	}
	c.files, c.listed = needed.Files, needed.Columns
	all := slices.Clone(c.columns.staging)
	for _, f := range c.files {
		l := newLayout(table, f, keys)
		c.layouts = append(c.layouts, l)
		for _, column := range l.columns() {
			all = withField(all, column)
		}
	}
	if len(all) == len(c.columns.staging) {
		return nil
	}
	listing, err := c.listing(ctx, table, all)
	switch {
	case err == nil:
		c.columns.staging, c.listed = all, listing.Columns
	case c.refused(c.staging.Name, err):
		for _, l := range c.layouts {
			l.checkOnly(c.columns.staging)
		}
	default:
		return err
	}
	return nil
}

// run reads all clusters and adds up their results.
func (c *keyCheck) run(ctx context.Context, staging int) error {
	c.begin(c.staging.Name)
	all := clusters(c.plan, staging, c.files)
	for _, cluster := range all {
		c.expect(c.stored(cluster))
	}
	for _, cluster := range all {
		if err := c.cluster(ctx, cluster); err != nil {
			return err
		}
	}
	var err error
	if c.join.Duplicates, err = c.shown(ctx, c.duplicates); err != nil {
		return err
	}
	c.join.Orphans, err = c.shown(ctx, c.orphans)
	return err
}

// rate computes the match rates. If few rows match, or if many do not, it compares how both tables
// write their keys.
func (c *keyCheck) rate(ctx context.Context) error {
	j, s := &c.join, c.staging
	j.MinMatch, j.MatchRate, j.Cells = s.MinMatch, 1, c.tally.Matches()
	j.Unmatched = []string{}
	for _, k := range c.unmatched[:min(len(c.unmatched), shownKeys)] {
		j.Unmatched = append(j.Unmatched, k.text)
	}
	if j.TrainingRows == 0 {
		return nil
	}
	j.MatchRate = float64(j.Matched) / float64(j.TrainingRows)
	few := j.Matched == 0 || s.Join.FewMatches(j.TrainingRows, j.Matched)
	few = few && (s.MinMatch == 0 || j.MatchRate < s.MinMatch)
	if !few && !c.manyUnmatched() {
		return nil
	}
	forms, err := c.forms(ctx)
	if err == nil && (few || forms.Respelled > 0) {
		j.Forms, c.few = forms, few
	}
	return err
}

// cluster reads one cluster, in as many passes as memory requires.
func (c *keyCheck) cluster(ctx context.Context, files cluster) error {
	for passes := uint64(1); ; passes *= 2 {
		before := c.sums
		before.tally = c.tally.Copy()
		before.duplicates, before.orphans = slices.Clone(c.duplicates), slices.Clone(c.orphans)
		var err error
		for number := uint64(0); number < passes && err == nil; number++ {
			if passes > 1 {
				c.expect(c.stored(files))
			}
			err = c.pass(ctx, files, number, passes)
		}
		if err == nil {
			c.join.Passes = max(c.join.Passes, int(passes))
			return nil
		}
		if fault.KindOf(err) != fault.Exhausted || passes >= maxPasses {
			return err
		}
		c.sums = before // undo the passes so far
	}
}

// stored returns the number of rows that one pass over a cluster reads.
func (c *keyCheck) stored(of cluster) (rows int64) {
	for _, file := range of.files {
		rows += c.files[file].Rows
	}
	for _, split := range of.splits {
		rows += c.plan.Splits[split].Rows
	}
	return rows
}

// maxKeys returns the maximum number of keys held at a time.
func (c *keyCheck) maxKeys() int {
	if limit := c.options.Budget.Limit(); limit >= 0 {
		return int(limit / budgetShare / entryBytes)
	}
	return int(maxHeldBytes / entryBytes)
}

// source returns the source for rows [from, to) of one staging file.
func (c *keyCheck) source(file int, from, to int64) plan.Source {
	return plan.Source{
		Table: c.staging.Pinned, Planned: c.listed, Files: []plan.FileRange{{File: c.files[file], From: from, To: to}},
	}
}

// counted returns the rows of a staging batch that pass the table's filter. It reuses the memory of dst.
func (c *keyCheck) counted(rows arrow.RecordBatch, dst []int32) ([]int32, error) {
	held, err := c.options.Budget.Reserve("the filter of staging table "+c.staging.Name, 0)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	return c.staging.Rows.Evaluate(rows, dst, held)
}
