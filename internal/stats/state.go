package stats

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/zeebo/xxh3"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/theta"
)

// StateVersion is the version of a part's serialized state, and of the algorithms whose results the state has. It changes
// whenever a part of the same rows would have another state or another sample.
const StateVersion = 1

// The serialized state consists of stateMagic, the version, the fields of the part in the order of appendTo, and the checksum
// of everything before it. The fields of a column depend on its type, which is not in the state.
const (
	stateMagic = "penstock part"
	sumBytes   = 8
)

// State returns the serialized state of the part: everything but the rows of its sample.
func (p *Part) State() []byte {
	e := &stateWriter{out: append([]byte(stateMagic), StateVersion)}
	e.fixed64(p.sampling.Seed)
	e.count(int64(p.sampling.Level), p.Sampled, int64(len(p.Columns)))
	for _, c := range p.Columns {
		c.appendTo(e)
	}
	return binary.LittleEndian.AppendUint64(e.out, xxh3.Hash(e.out))
}

// ReadState returns the part whose State was serialized, without the rows of its sample. Sampled is the number of these rows:
// call Resample, and then Select and AddSample for each batch of them. The columns must be those of the part. ReadState returns
// Corrupt for a state that is damaged, of another version or of columns of other types. It takes no more memory than Memory
// and the size of the state.
func ReadState(columns []arrow.Field, state []byte) (*Part, error) {
	begin := len(stateMagic) + 1
	if len(state) < begin+sumBytes || string(state[:begin]) != stateMagic+string(rune(StateVersion)) {
		return nil, fault.New(fault.Corrupt, "read the state of statistics: it is not of version %d", StateVersion)
	}
	end := len(state) - sumBytes
	if binary.LittleEndian.Uint64(state[end:]) != xxh3.Hash(state[:end]) {
		return nil, fault.New(fault.Corrupt, "read the state of statistics: its checksum does not match")
	}
	p := NewPart(columns, Sampling{})
	d := &stateReader{rest: state[begin:end]}
	p.sampling.Seed = d.fixed64()
	level := d.count()
	d.check(level <= maxLevel)
	p.sampling.Level, p.Sampled = int(level), d.count()
	d.check(d.count() == int64(len(columns)))
	for _, c := range p.Columns {
		c.readFrom(d)
		d.check(c.Rows == p.Columns[0].Rows)
	}
	d.check(len(d.rest) == 0 && p.Sampled <= p.Rows())
	if d.failed {
		return nil, fault.New(fault.Corrupt, "read the state of statistics: its content is impossible")
	}
	return p, nil
}

func (c *Column) appendTo(e *stateWriter) {
	e.count(c.Rows, c.Nulls)
	switch s := c.Values.(type) {
	case *Integers:
		s.appendTo(e)
	case *Floats:
		s.appendTo(e)
	case *Bytes:
		s.appendTo(e)
	}
	if c.Lengths != nil {
		c.Lengths.appendTo(e)
		c.Elements.appendTo(e)
	}
	if c.Norms != nil {
		c.Norms.appendTo(e)
	}
}

func (c *Column) readFrom(d *stateReader) {
	c.Rows, c.Nulls = d.count(), d.count()
	values := c.Rows - c.Nulls
	d.check(values >= 0)
	switch s := c.Values.(type) {
	case *Integers:
		s.readFrom(d, values)
	case *Floats:
		s.readFrom(d, values)
	case *Bytes:
		s.readFrom(d, values)
	}
	if c.Lengths != nil {
		c.Lengths.readFrom(d, values)
		c.Elements.readFrom(d)
	}
	if c.Norms != nil {
		c.Norms.readFrom(d, values)
	}
}

func (s *Integers) appendTo(e *stateWriter) {
	e.count(s.N, s.Zeros)
	e.signed(s.Min, s.Max)
	s.moments.appendTo(e)
	e.text(s.Distinct.Bytes())
}

// readFrom reads a series of n values.
func (s *Integers) readFrom(d *stateReader, n int64) {
	s.N, s.Zeros, s.Min, s.Max = d.count(), d.count(), d.signed(), d.signed()
	d.check(s.N == n && s.Zeros <= n && s.Min <= s.Max)
	s.moments.readFrom(d, n)
	d.sketch(&s.Distinct)
}

func (s *Floats) appendTo(e *stateWriter) {
	e.count(s.N, s.Zeros, s.NaN, s.Infinite)
	e.fixed64(math.Float64bits(s.Min), math.Float64bits(s.Max))
	s.moments.appendTo(e)
	e.text(s.Distinct.Bytes())
}

func (s *Floats) readFrom(d *stateReader, n int64) {
	s.N, s.Zeros, s.NaN, s.Infinite = d.count(), d.count(), d.count(), d.count()
	s.Min, s.Max = d.float(), d.float()
	finite := s.N - s.NaN - s.Infinite
	d.check(s.N == n && s.NaN <= n && s.Infinite <= n && finite >= s.Zeros && s.Min <= s.Max)
	s.moments.readFrom(d, finite)
	d.sketch(&s.Distinct)
}

func (s *Bytes) appendTo(e *stateWriter) {
	e.count(s.N, s.Empty, s.Shortest, s.Longest, s.TotalBytes)
	e.text(s.Min)
	e.text(s.Max)
	e.text(s.Distinct.Bytes())
}

func (s *Bytes) readFrom(d *stateReader, n int64) {
	s.N, s.Empty, s.Shortest, s.Longest, s.TotalBytes = d.count(), d.count(), d.count(), d.count(), d.count()
	d.check(s.N == n && s.Empty <= n && s.Shortest <= s.Longest)
	s.Min, s.Max = append([]byte{}, d.text()...), append([]byte{}, d.text()...)
	d.check(string(s.Min) <= string(s.Max))
	d.sketch(&s.Distinct)
}

func (m *moments) appendTo(e *stateWriter) {
	e.fixed64(math.Float64bits(m.shift), math.Float64bits(m.sum), math.Float64bits(m.sum2))
}

func (m *moments) readFrom(d *stateReader, n int64) {
	m.n, m.shift, m.sum, m.sum2 = n, d.float(), d.float(), d.float()
}

// stateWriter appends numbers and texts.
type stateWriter struct{ out []byte }

// count appends numbers that are not negative.
func (e *stateWriter) count(all ...int64) {
	for _, n := range all {
		e.out = binary.AppendUvarint(e.out, uint64(n)) //nolint:gosec // not negative
	}
}

func (e *stateWriter) signed(all ...int64) {
	for _, n := range all {
		e.out = binary.AppendVarint(e.out, n)
	}
}

func (e *stateWriter) fixed64(all ...uint64) {
	for _, n := range all {
		e.out = binary.LittleEndian.AppendUint64(e.out, n)
	}
}

func (e *stateWriter) text(t []byte) {
	e.count(int64(len(t)))
	e.out = append(e.out, t...)
}

// stateReader reads what a stateWriter has appended. After the first failure, it returns zero values.
type stateReader struct {
	rest   []byte
	failed bool
}

func (d *stateReader) check(ok bool) {
	if !ok {
		d.failed, d.rest = true, nil
	}
}

// count reads a number from 0 to the maximum of int64 without its highest bit, so that the sum of two cannot overflow.
func (d *stateReader) count() int64 {
	v, n := binary.Uvarint(d.rest)
	return d.number(int64(v), n, n > 0 && v < 1<<62) //nolint:gosec // in range
}

func (d *stateReader) signed() int64 {
	v, n := binary.Varint(d.rest)
	return d.number(v, n, n > 0)
}

// number returns a number that has n bytes if it is valid.
func (d *stateReader) number(v int64, n int, valid bool) int64 {
	if d.check(valid); d.failed {
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *stateReader) fixed64() uint64 {
	if d.check(len(d.rest) >= sumBytes); d.failed {
		return 0
	}
	v := binary.LittleEndian.Uint64(d.rest)
	d.rest = d.rest[sumBytes:]
	return v
}

func (d *stateReader) float() float64 { return math.Float64frombits(d.fixed64()) }

// text returns bytes of the state itself.
func (d *stateReader) text() []byte {
	n := d.count()
	if d.check(n <= int64(len(d.rest))); d.failed {
		return nil
	}
	t := d.rest[:n]
	d.rest = d.rest[n:]
	return t
}

func (d *stateReader) sketch(to *theta.Sketch) {
	if d.failed {
		return
	}
	s, err := theta.Read(d.text())
	if d.check(err == nil); err == nil {
		*to = *s
	}
}
