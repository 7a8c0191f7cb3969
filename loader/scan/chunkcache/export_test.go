package chunkcache

import "fmt"

// Check returns an error if an invariant of the cache does not hold.
func (c *ColumnCache) Check() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var bytes, promised, passing int64
	idle := 0
	for _, u := range c.units {
		if err := c.checkUnit(u); err != nil {
			return fmt.Errorf("field %d: %w", u.of.Field, err)
		}
		bytes, promised = bytes+u.content.total.bytes, promised+u.promised
		if !u.busy() {
			idle++
		}
	}
	for _, u := range c.passing {
		passing += u.content.total.bytes
	}
	if bytes != c.bytes || promised != c.promised || passing != c.passingBytes || idle != len(c.order) {
		return fmt.Errorf("%d bytes, %d promised, %d passing and %d units in order instead of %d, %d, %d and %d",
			c.bytes, c.promised, c.passingBytes, len(c.order), bytes, promised, passing, idle)
	}
	return nil
}

func (c *ColumnCache) checkUnit(u *cachedUnit) error {
	sum, last := tally{}, int64(0)
	for _, s := range u.arrays() {
		sum.add(s.tally)
		if !s.kept {
			return fmt.Errorf("the array of row %d is not kept", s.from)
		}
	}
	for _, f := range u.fills {
		sum.add(f.adding)
	}
	for _, one := range u.content.spans {
		if one.from < last || one.to <= one.from || one.from < one.segment.from || one.to > one.segment.end() {
			return fmt.Errorf("rows %d to %d come after row %d, from an array of %d to %d", one.from, one.to, last, one.segment.from, one.segment.end())
		}
		last = one.to
	}
	switch total := u.content.total; {
	case sum.bytes != total.bytes || sum.rows != total.rows || u.content.spans.rows() != u.content.covered:
		return fmt.Errorf("%+v and %d rows instead of %+v and %d", total, u.content.covered, sum, u.content.spans.rows())
	case u.busy() == (u.place >= 0), u.place >= 0 && c.order[u.place] != u, (len(u.fills) > 0) != c.filling[u]:
		return fmt.Errorf("%d pins and %d fills, at place %d", u.pins, len(u.fills), u.place)
	}
	return nil
}
