package joiner

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
)

// probe is a Probe with what its join knows.
type probe struct {
	Probe
	columns *keyColumns
	time    *timeColumn // nil if the rule has no time
	field   arrow.Field
	probed  Probeable // nil before the first Next
	shape   Shape
	matcher Matcher
	counts  Counts

	// Of the current batch.
	buffer  *memory.Buffer // of refs
	refs    []int32
	keys    Keys
	matches Matches
}

// fits says whether the build side is the one that the schema promised, and
// whether its keys and times can be equal to the training stream's.
func (p *probe) fits() error {
	if got := p.shape.field.Type; !arrow.TypeEqual(got, p.field.Type) {
		return fault.New(fault.Internal, "a build side of type %s was to be %s", got, p.field.Type)
	}
	ours, theirs := p.columns.encoder.types, p.shape.types
	if len(ours) != len(theirs) {
		return fault.New(fault.Internal, "%d key columns against %d", len(ours), len(theirs))
	}
	for i, t := range ours {
		if t.family != theirs[i].family {
			return differ(p.columns.fields[i], p.shape.keys[i])
		}
	}
	if p.time == nil {
		return nil
	}
	if p.shape.time == nil {
		return fault.New(fault.Internal, "a build side without times for a rule with a time")
	}
	if t, err := timeType(*p.shape.time); err != nil || t.family != p.time.encoder.types[0].family {
		return differ(p.time.field, *p.shape.time)
	}
	return nil
}

func differ(training, staging arrow.Field) error {
	return fault.New(fault.Invalid, "training column %s is %s and staging column %s is %s: no two values of them are equal",
		training.Name, training.Type, staging.Name, staging.Type).
		WithRemedy("join on columns of one type")
}

// newRefs makes memory for the references of a batch.
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

// dictionary makes a dictionary column of references.
func (p *probe) dictionary(refs *memory.Buffer, dictionary *array.Struct, rows int) arrow.Array {
	d := array.NewDataWithDictionary(p.field.Type, rows, []*memory.Buffer{nil, refs}, 0, 0,
		dictionary.Data().(*array.Data))
	defer d.Release()
	return array.NewDictionaryData(d)
}

func (p *probe) close() {
	if p.buffer != nil {
		p.buffer.Release()
		p.buffer, p.refs = nil, nil
	}
	if p.matcher != nil {
		p.matcher.Close()
		p.matcher = nil
	}
	if p.probed != nil {
		p.probed.Release()
		p.probed = nil
	}
	p.keys, p.matches = Keys{}, Matches{}
}
