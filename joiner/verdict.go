package joiner

import (
	"github.com/penstock/penstock/internal/fault"
)

// verdict is the result of applying the rules to one batch: which rows are dropped,
// whether some are repeated, and the first row that breaks a rule.
type verdict struct {
	rows    int
	counts  []Counts // by probe; undefined for a batch that breaks a rule
	drop    []bool   // nil if no row is dropped
	repeats bool
	row     int    // that breaks a rule, if broken is set
	broken  *probe // the probe whose rule it breaks; the first of several
}

func newVerdict(rows int) *verdict { return &verdict{rows: rows, row: rows} }

// judge applies a probe's rule to its matches, and counts them.
func (v *verdict) judge(p *probe) {
	counts := Counts{Rows: int64(v.rows), NullKeys: p.columns.keys.nulls}
	for _, ref := range p.refs {
		if ref == 0 {
			counts.Missing++
		}
	}
	counts.Matched = counts.Rows - counts.Missing
	if counts.Missing > 0 {
		v.checkMissing(p)
	}
	if p.schema.defaults && p.Rule.Kind.Fills() {
		counts.Defaulted = counts.Missing
	}
	v.markDropped(p, counts)
	if p.matches.Counts != nil {
		counts.Duplicates = v.countDuplicates(p)
	}
	if p.Rule.chooses() {
		counts.Resolved = counts.Duplicates
	}
	v.counts = append(v.counts, counts)
}

// checkMissing finds the first row without a match if that breaks the rule.
func (v *verdict) checkMissing(p *probe) {
	if !p.Rule.Missing.Fail() {
		return
	}
	for i, ref := range p.refs {
		if ref == 0 {
			v.setBroken(p, i)
			return
		}
	}
}

// markDropped marks the rows that the kind of join does not keep.
func (v *verdict) markDropped(p *probe, counts Counts) {
	matched, missing := p.Rule.Kind.Keeps(true), p.Rule.Kind.Keeps(false)
	if (matched || counts.Matched == 0) && (missing || counts.Missing == 0) {
		return
	}
	if v.drop == nil {
		v.drop = make([]bool, v.rows)
	}
	for i, ref := range p.refs {
		if (ref != 0 && !matched) || (ref == 0 && !missing) {
			v.drop[i] = true
		}
	}
}

// countDuplicates counts the rows with several matches.
func (v *verdict) countDuplicates(p *probe) int64 {
	count, first := int64(0), -1
	for i, n := range p.matches.Counts {
		if n < 0 {
			v.setBroken(p, i)
		}
		if n > 1 || n < 0 {
			if count == 0 {
				first = i
			}
			count++
		}
	}
	switch {
	case count == 0:
	case p.Rule.Multiplies():
		v.repeats = true
	case p.Rule.RefusesDuplicates():
		v.setBroken(p, first)
	}
	return count
}

// setBroken records that a row breaks a probe's rule, unless an earlier row does: the
// error of a stream does not depend on how it is split into batches.
func (v *verdict) setBroken(p *probe, row int) {
	if row < v.row {
		v.row, v.broken = row, p
	}
}

// keptRows returns the rows that are not dropped; nil means all.
func (v *verdict) keptRows() []int32 {
	if v.drop == nil {
		return nil
	}
	keep := make([]int32, 0, v.rows)
	for i, dropped := range v.drop {
		if !dropped {
			keep = append(keep, int32(i))
		}
	}
	return keep
}

// Add adds the counts of another join with the same staging table.
func (c *Counts) Add(more Counts) {
	c.Rows += more.Rows
	c.Matched += more.Matched
	c.Missing += more.Missing
	c.NullKeys += more.NullKeys
	c.Duplicates += more.Duplicates
	c.Resolved += more.Resolved
	c.Defaulted += more.Defaulted
}

// AddCounts adds the counts of the joins with several staging tables, in equal order.
func AddCounts(to, more []Counts) {
	for i, c := range more {
		to[i].Add(c)
	}
}

// Subtract undoes Add.
func (c *Counts) Subtract(less Counts) {
	c.Rows -= less.Rows
	c.Matched -= less.Matched
	c.Missing -= less.Missing
	c.NullKeys -= less.NullKeys
	c.Duplicates -= less.Duplicates
	c.Resolved -= less.Resolved
	c.Defaulted -= less.Defaulted
}

// failure returns the error of the broken rule, with the key and the files.
func (j *join) failure(v *verdict) error {
	p := v.broken
	key := render(p.columns.fields, p.columns.arrays, v.row)
	if p.refs[v.row] == 0 {
		return j.absent(p, v.row, key)
	}
	name := p.Rule.Name
	one, other := p.matcher.Files(v.row)
	if p.matches.Counts[v.row] < 0 {
		return p.schema.arrival.Unknown(key, one, other)
	}
	where := "files " + one + " and " + other
	if one == other {
		where = "file " + one
	}
	when, times := " with the same time", ""
	if p.Rule.Time == nil {
		when, times = "", "if they have different times, set `point_in_time` or `align`, which exclude rows from the future; otherwise "
	}
	return fault.New(fault.Invalid, "several rows of %s have the key %s%s, in %s", name, key, when, where).In("", one).
		WithRemedy("%sset `duplicates: first` or `duplicates: last` for %s, or clean the table", times, name)
}

// absent returns the error of a row without a match, with the remedies of its rule.
func (j *join) absent(p *probe, row int, key string) error {
	name := p.Rule.Name
	what := "no row of " + name + " has the key"
	if p.columns.keys.null != nil && p.columns.keys.null[row] {
		what = "a null key matches no row of " + name + ":"
	} else if p.Rule.Time != nil {
		what = "no row of " + name + " is within the tolerance for the key"
	}
	err := fault.New(fault.Invalid, "%s %s", what, key).In("", j.in.file(j.rows+int64(row)))
	if p.Rule.Kind.Replaces() || !p.Rule.Kind.KeepsAll() {
		return err.WithRemedy("set `missing: null` for %s, or add the row", name)
	}
	return err.WithRemedy("set `missing: null` or `join: inner` for %s, or add the row", name)
}
