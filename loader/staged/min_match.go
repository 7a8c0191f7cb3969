package staged

import (
	"context"
	"fmt"
	"math"

	"github.com/penstock/penstock/internal/fault"
)

// sampleErrors is how many standard deviations of a sample's match rate count as chance.
const sampleErrors = 3

// FewerMatches is an entry of a dataset of which fewer rows match than its min_match allows.
type FewerMatches struct {
	Reader        Reader
	Entry         string
	Rows, Matched int64 // of the sample
	MinMatch      float64
}

// Text says what was found.
func (f FewerMatches) Text() string {
	return fmt.Sprintf("%.4g%% of %d sampled rows match, and min_match is %.4g%%", 100*float64(f.Matched)/float64(f.Rows), f.Rows, 100*f.MinMatch)
}

// CheckMinMatch samples the match rates of the entries that have a min_match and read a table after a change of it, as CheckReaders
// does. It returns those whose rate is lower by more than chance. Datasets that cannot be planned with the change are left out. The
// errors have the names of datasets.
func (d Datasets) CheckMinMatch(ctx context.Context, of Change, readers []Reader) (out []FewerMatches, err error) {
	for _, r := range readers {
		if !d.reads(r.Dataset, of.Table) {
			continue
		}
		few, err := d.newReaderCheck(of, r).minMatch(ctx)
		if err != nil {
			return nil, fault.Op(err, "check dataset %s", r.Dataset.Name)
		}
		out = append(out, few...)
	}
	return out, nil
}

// minMatch returns the entries of which too few rows match.
func (c *readerCheck) minMatch(ctx context.Context) (out []FewerMatches, err error) {
	var entries []int
	for _, u := range c.uses {
		if u.changed && u.entry != trainingUse && c.reader.Dataset.Staging[u.entry].MinMatch > 0 {
			entries = append(entries, u.entry)
		}
	}
	if len(entries) == 0 {
		return nil, nil
	}
	p, err := c.plan(ctx, c.snapshot())
	if kind := fault.KindOf(err); err != nil && (kind == fault.Invalid || kind == fault.NotFound) {
		return nil, nil // streams say why
	}
	if err != nil {
		return nil, err
	}
	c.training = p.Relation.Training
	for _, entry := range entries {
		if p.Relation.Staging[entry].Promoted != nil {
			continue
		}
		few, err := c.fewerMatches(ctx, entry)
		if err != nil {
			return nil, err
		}
		if few != nil {
			out = append(out, *few)
		}
	}
	return out, nil
}

// fewerMatches returns the match rate of an entry if it is too low; else nil.
func (c *readerCheck) fewerMatches(ctx context.Context, entry int) (*FewerMatches, error) {
	chosen, err := c.chooseSplits(ctx, entry)
	if err != nil {
		return nil, err
	}
	rows, matched, err := c.sample(ctx, chosen)
	if err != nil {
		return nil, err
	}
	s := c.reader.Dataset.Staging[entry]
	least, n := s.MinMatch, float64(rows)
	if float64(matched) >= least*n-sampleErrors*math.Sqrt(n*least*(1-least)) {
		return nil, nil
	}
	return &FewerMatches{Reader: c.reader, Entry: s.Name, Rows: rows, Matched: matched, MinMatch: least}, nil
}
