package spill

// Len returns how many rows a part has.
func (p *Parts) Len(number int) int64 { return p.parts[number].rows }

// Rows returns how many rows the stream had.
func (p *Parts) Rows() int64 { return p.rows }

// Rows returns how many staging rows were read.
func (s *Sliced) Rows() int64 { return s.parts.rows }
