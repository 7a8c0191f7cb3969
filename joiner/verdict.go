package joiner

import "github.com/penstock/penstock/internal/fault"

// verdict is what the rules make of one batch: which rows are dropped, and
// the first row that breaks a rule.
type verdict struct {
	rows   int
	drop   []bool // nil if no row is dropped
	row    int    // that breaks a rule, if broken is set
	broken *probe // whose rule it is: of several at one row, the first
}

func newVerdict(rows int) *verdict { return &verdict{rows: rows, row: rows} }

// judge looks up the batch's keys, writes the references, and counts. The
// counts of a batch that breaks a rule mean nothing.
func (v *verdict) judge(p *probe, refs []int32) Counts {
	keys := p.columns.keys
	x := &p.side.index
	x.lookup(keys, refs)
	counts := Counts{Rows: int64(v.rows), NullKeys: keys.nulls}
	for _, ref := range refs {
		if ref == 0 {
			counts.Missing++
		}
	}
	counts.Matched = counts.Rows - counts.Missing
	if counts.Missing > 0 {
		v.missing(p, refs)
	}
	if x.last != nil {
		counts.Duplicates = v.duplicates(p, refs)
	}
	return counts
}

// missing marks rows without a match as the rule says.
func (v *verdict) missing(p *probe, refs []int32) {
	if !p.Rule.Inner && !p.Rule.MissingError {
		return
	}
	if p.Rule.Inner && v.drop == nil {
		v.drop = make([]bool, v.rows)
	}
	for i, ref := range refs {
		if ref != 0 {
			continue
		}
		if p.Rule.MissingError {
			v.breaks(p, i)
			return
		}
		v.drop[i] = true
	}
}

// duplicates chooses among rows of one key as the rule says, and counts the
// training rows that ask for such a key.
func (v *verdict) duplicates(p *probe, refs []int32) int64 {
	last, count := p.side.index.last, int64(0)
	for i, ref := range refs {
		if ref == 0 || last[ref-1] == 0 {
			continue
		}
		count++
		switch p.Rule.Duplicates {
		case DuplicatesFirst:
		case DuplicatesLast:
			refs[i] = last[ref-1] + 1
		default:
			v.breaks(p, i)
			return count
		}
	}
	return count
}

// breaks notes that a row breaks a probe's rule, unless an earlier one does:
// which error a stream ends with does not depend on how it is cut in batches.
func (v *verdict) breaks(p *probe, row int) {
	if row < v.row {
		v.row, v.broken = row, p
	}
}

// kept returns the rows that are not dropped.
func (v *verdict) kept() []int32 {
	keep := make([]int32, 0, v.rows)
	for i, dropped := range v.drop {
		if !dropped {
			keep = append(keep, int32(i))
		}
	}
	return keep
}

// Add adds what another join of the same side met.
func (c *Counts) Add(more Counts) {
	c.Rows += more.Rows
	c.Matched += more.Matched
	c.Missing += more.Missing
	c.NullKeys += more.NullKeys
	c.Duplicates += more.Duplicates
}

// failure says which rule the batch breaks, with the key and the files.
func (j *join) failure(v *verdict) error {
	p := v.broken
	k := p.columns
	key := render(k.fields, k.arrays, v.row)
	name := p.Rule.Name
	var ref [1]int32
	p.side.index.lookup(k.keys.row(v.row), ref[:])
	if ref[0] == 0 {
		what := "no row of " + name + " has the key"
		if k.keys.null != nil && k.keys.null[v.row] {
			what = "a null key matches no row of " + name + ":"
		}
		err := fault.New(fault.Invalid, "%s %s", what, key).In("", j.in.file(j.rows+int64(v.row)))
		if p.Rule.Inner {
			return err.WithRemedy("set `missing: null` for %s, or add the row", name)
		}
		return err.WithRemedy("set `missing: null` or `join: inner` for %s, or add the row", name)
	}
	first := int64(ref[0] - 1)
	one, other := fileOf(p.side, first), fileOf(p.side, int64(p.side.index.last[first]))
	where := "files " + one + " and " + other
	if one == other {
		where = "file " + one
	}
	return fault.New(fault.Invalid, "several rows of %s have the key %s, in %s", name, key, where).In("", one).
		WithRemedy("set `duplicates: first` or `duplicates: last` for %s, or clean the table", name)
}

// fileOf names the file of a staging row.
func fileOf(s *Side, row int64) string {
	if name := (Input{File: s.file}).file(row); name != "" {
		return name
	}
	return "(unnamed)"
}
