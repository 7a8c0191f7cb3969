package joiner

// CountsBefore returns the counts of each probe so far, in the given order, without the
// rows of the current training batch from a row on. It is for joins that return every
// training row once: then the rows of the last joined batch are those of the training batch.
// It is called between two calls of Next.
func (r *Reader) CountsBefore(row int) []Counts {
	counts := r.Counts()
	for i, p := range r.join.probes {
		counts[i].Subtract(p.countsFrom(row))
	}
	return counts
}

// countsFrom counts the rows of the current batch from a row on, as verdict.judge counts
// all of them.
func (p *probe) countsFrom(row int) Counts {
	if row >= len(p.refs) {
		return Counts{}
	}
	counts := Counts{Rows: int64(len(p.refs) - row)}
	for _, ref := range p.refs[row:] {
		if ref == 0 {
			counts.Missing++
		}
	}
	counts.Matched = counts.Rows - counts.Missing
	if null := p.columns.keys.null; null != nil {
		for _, is := range null[row:] {
			if is {
				counts.NullKeys++
			}
		}
	}
	if p.schema.defaults && p.Rule.Kind.Fills() {
		counts.Defaulted = counts.Missing
	}
	if p.matches.Counts != nil {
		for _, n := range p.matches.Counts[row:] {
			if n > 1 || n < 0 {
				counts.Duplicates++
			}
		}
	}
	if p.Rule.chooses() {
		counts.Resolved = counts.Duplicates
	}
	return counts
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
