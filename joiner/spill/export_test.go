package spill

// Len returns the number of rows of a part.
func (p *Partitions) Len(number int) int64 { return p.parts[number].rows }

// Rows returns the number of rows of the stream.
func (p *Partitions) Rows() int64 { return p.rows }

// Rows returns the number of staging rows.
func (s *Sliced) Rows() int64 { return s.parts.rows }
