package stats

import (
	"bytes"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/theta"
)

// Bytes describes texts, binary values and values of fixed width, in bytes.
type Bytes struct {
	N, Empty          int64
	Min, Max          []byte // in the order of bytes, if N is positive
	Shortest, Longest int64  // bytes, if N is positive
	TotalBytes        int64
	Distinct          theta.Sketch // without the empty value
}

func (s *Bytes) add(values arrow.Array, from, to int) {
	switch v := values.(type) {
	case *array.String:
		for i := from; i < to; i++ {
			text := v.Value(i)
			s.addOne(unsafe.Slice(unsafe.StringData(text), len(text))) // addOne only reads and copies it
		}
	case *array.Binary:
		for i := from; i < to; i++ {
			s.addOne(v.Value(i))
		}
	case *array.FixedSizeBinary:
		for i := from; i < to; i++ {
			s.addOne(v.Value(i))
		}
	}
}

func (s *Bytes) addOne(v []byte) {
	size := int64(len(v))
	switch {
	case s.N == 0:
		s.Min, s.Max, s.Shortest, s.Longest = bytes.Clone(v), bytes.Clone(v), size, size
	case bytes.Compare(v, s.Min) < 0:
		s.Min = append(s.Min[:0], v...)
	case bytes.Compare(v, s.Max) > 0:
		s.Max = append(s.Max[:0], v...)
	}
	if size == 0 {
		s.Empty++
	}
	s.N++
	s.TotalBytes += size
	s.Shortest, s.Longest = min(s.Shortest, size), max(s.Longest, size)
	s.Distinct.AddBytes(v)
}

func (s *Bytes) merge(of Series) {
	other, ok := of.(*Bytes)
	if !ok || other.N == 0 {
		return
	}
	if s.N == 0 {
		s.Min, s.Max, s.Shortest, s.Longest = other.Min, other.Max, other.Shortest, other.Longest
	}
	if bytes.Compare(other.Min, s.Min) < 0 {
		s.Min = other.Min
	}
	if bytes.Compare(other.Max, s.Max) > 0 {
		s.Max = other.Max
	}
	s.N, s.Empty, s.TotalBytes = s.N+other.N, s.Empty+other.Empty, s.TotalBytes+other.TotalBytes
	s.Shortest, s.Longest = min(s.Shortest, other.Shortest), max(s.Longest, other.Longest)
	s.Distinct.Merge(&other.Distinct)
}
