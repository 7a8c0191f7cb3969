package stats

import "github.com/penstock/penstock/internal/theta"

// SketchBytes is the maximum size of a serialized sketch in bytes.
const SketchBytes = theta.MaxBytes

// Sketched reports whether the column's values have a sketch. Lists have none.
func (c *Column) Sketched() bool { return c.Values != nil }

// Sketch returns the serialized theta sketch of the column's values; nil if they have none.
func (c *Column) Sketch() []byte {
	switch s := c.Values.(type) {
	case *Integers:
		return s.Distinct.Bytes()
	case *Floats:
		return s.Distinct.Bytes()
	case *Bytes:
		return s.Distinct.Bytes()
	}
	return nil
}
