package joiner

import (
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// probe is the state of a Probe within a join.
type probe struct {
	Probe
	columns *keyColumns
	time    *timeColumn // nil if the rule has no time
	field   arrow.Field
	probed  Probeable // nil before the first Next
	schema  Schema
	matcher Matcher
	counts  Counts

	// Of the current batch.
	buffer  *memory.Buffer // of refs
	refs    []int32
	keys    Keys
	matches Matches
}

// fits checks that the build side has the promised type, and that its keys and times
// are comparable with the training stream's.
func (p *probe) fits() error {
	if got := p.schema.field.Type; !arrow.TypeEqual(got, p.field.Type) {
		return fault.New(fault.Internal, "the build side has type %s and not %s", got, p.field.Type)
	}
	ours, theirs := p.columns.encoder.types, p.schema.types
	if len(ours) != len(theirs) {
		return fault.New(fault.Internal, "the training stream has %d key columns and the build side %d", len(ours), len(theirs))
	}
	for i, t := range ours {
		if t.family != theirs[i].family {
			return differ(p.columns.fields[i], p.schema.keys[i])
		}
	}
	if p.time == nil {
		return nil
	}
	if p.schema.time == nil {
		return fault.New(fault.Internal, "the rule has a time and the build side has none")
	}
	t, err := timeType(*p.schema.time)
	before, after := p.time.encoder.types[0].family, t.family
	if p.Rule.Time.UTC {
		before, after = strings.TrimSuffix(before, withZone), strings.TrimSuffix(after, withZone)
	}
	if err != nil || before != after {
		return differ(p.time.field, *p.schema.time)
	}
	return nil
}

func differ(training, staging arrow.Field) error {
	return fault.New(fault.Invalid, "training column %s is %s and staging column %s is %s, which are never equal",
		training.Name, training.Type, staging.Name, staging.Type).
		WithRemedy("join on columns of one type")
}

// newRefs allocates the references of a batch.
func (p *probe) newRefs(rows int, mem memory.Allocator) {
	if p.buffer != nil {
		p.buffer.Release()
	}
	p.buffer, p.refs = newRefs(rows, mem)
}

func newRefs(rows int, mem memory.Allocator) (*memory.Buffer, []int32) {
	buffer := memory.NewResizableBuffer(mem)
	buffer.Resize(arrow.Int32Traits.BytesRequired(rows))
	return buffer, arrow.Int32Traits.CastFromBytes(buffer.Bytes())
}

// dictionary returns a dictionary column of references.
func (p *probe) dictionary(refs *memory.Buffer, dictionary *array.Struct, rows int) arrow.Array {
	d := array.NewDataWithDictionary(p.field.Type, rows, []*memory.Buffer{nil, refs}, 0, 0,
		dictionary.Data().(*array.Data))
	defer d.Release()
	return array.NewDictionaryData(d)
}

func (p *probe) release() {
	if p.buffer != nil {
		p.buffer.Release()
		p.buffer, p.refs = nil, nil
	}
	if p.matcher != nil {
		p.matcher.Release()
		p.matcher = nil
	}
	if p.probed != nil {
		p.probed.Release()
		p.probed = nil
	}
	p.keys, p.matches = Keys{}, Matches{}
}

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
