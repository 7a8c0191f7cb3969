package stream

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/resolve"
)

// wireLayout describes which columns of a stream's batches are indexed. With wire: auto this
// is decided by the rows of the first batch, and then holds for the whole stream.
type wireLayout struct {
	relation *resolve.Relation
	outputs  []resolve.Output
	indexed  []resolve.Indexed
	form     Form // which columns are indexed, by name; with wire: auto it is undecided before the first batch
	schema   *arrow.Schema
	once     []bool        // with wire: grouped: for each output, whether it is sent once per request; otherwise nil
	matched  *arrow.Schema // the last schema for which matches returned true
}

// newLayout returns the layout of a stream. With wire: auto its form is undecided.
func newLayout(of ReadSpec) (wireLayout, error) {
	relation, wire := of.Plan.Relation, of.Reading.Wire
	schema, err := relation.Schema(of.Outputs, wire)
	if err != nil {
		return wireLayout{}, err
	}
	indexed, err := wire.Indexed()
	if err != nil {
		return wireLayout{}, err
	}
	l := wireLayout{relation: relation, outputs: of.Outputs, schema: schema}
	if !wire.Auto() {
		if indexed {
			l.indexed = l.candidates()
		}
		l.form = formOf(l.candidates(), l.indexed)
	}
	if wire.Grouped() {
		l.once = relation.OncePerRequest(of.Outputs)
	}
	return l, nil
}

// mayIndex reports whether the columns of a table are indexed, or may be indexed once the form is
// decided.
func (l wireLayout) mayIndex(table int) bool {
	return !l.form.decided || slices.ContainsFunc(l.indexed, func(x resolve.Indexed) bool { return x.Table == table })
}

// grouped returns the option Grouped of package lane, or nil if batches have a row for each row.
func (l wireLayout) grouped() *lane.Grouped {
	if l.once == nil {
		return nil
	}
	return &lane.Grouped{Once: l.once, Table: l.relation.Training.Name}
}

// candidates returns the columns that can be indexed.
func (l wireLayout) candidates() []resolve.Indexed { return l.relation.Indexed(l.outputs) }

// inLane returns the layout for package lane, given where the batches of joined ranges have each
// output.
func (l wireLayout) inLane(located []lane.Column) lane.Layout {
	out := lane.Layout{Schema: l.schema}
	for at, place := range resolve.Places(l.outputs, l.indexed) {
		if place.Indexed < 0 {
			out.Columns = append(out.Columns, located[place.Output])
		} else {
			out.Indexed = append(out.Indexed, indexedColumn(at, l.indexed[place.Indexed], located))
		}
	}
	return out
}

// indexedColumn returns the description of an indexed column for package lane.
func indexedColumn(at int, of resolve.Indexed, located []lane.Column) lane.IndexedColumn {
	x := lane.IndexedColumn{At: at}
	for _, i := range of.Outputs {
		x.Columns = append(x.Columns, located[i])
	}
	x.Index = x.Columns[0].Dictionary()
	return x
}

// decide sets the form of an undecided layout.
func (l *wireLayout) decide(form Form) {
	candidates := l.candidates()
	for _, x := range candidates {
		if slices.Contains(form.indexed, x.Name) && !x.Apart {
			l.indexed = append(l.indexed, x)
		}
	}
	l.form = formOf(candidates, l.indexed)
	l.schema = resolve.IndexedSchema(l.outputs, l.indexed)
}

// matches reports whether a batch of another ShardReader has the schema of the layout. All batches
// of a group have the same *arrow.Schema until the group's reader changes, so matches compares the
// fields of each schema only once.
func (l *wireLayout) matches(b arrow.RecordBatch) bool {
	if b.Schema() != l.matched && b.Schema().Equal(l.schema) {
		l.matched = b.Schema()
	}
	return b.Schema() == l.matched
}

// distinctIn returns the number of distinct rows of each indexed column in a batch.
func (l wireLayout) distinctIn(b arrow.RecordBatch) []int64 {
	sent := make([]int64, len(l.indexed))
	for i, x := range l.indexed {
		column := b.Column(l.schema.FieldIndices(x.Name)[0])
		sent[i] = int64(column.(*array.Dictionary).Dictionary().Len())
	}
	return sent
}

// Begin makes the stream's schema final. With wire: auto it reads the rows of the first batch, to
// decide which columns are indexed; the first Next then returns these rows. With other wire forms
// it does nothing. If the caller does not call Begin, the first Next does.
func (s *ShardReader) Begin() error {
	if !s.layout.form.decided && s.err == nil {
		s.err = s.decide()
	}
	return s.err
}

// decide chooses the form: it indexes the columns that are smaller when indexed in the first batch.
func (s *ShardReader) decide() error {
	s.back = s.beforeStep()
	if s.reader == nil {
		if err := s.open(s.ctx); err != nil {
			return err
		}
	}
	candidates := s.layout.candidates()
	indexed := make([]lane.IndexedColumn, len(candidates))
	for i, c := range candidates {
		indexed[i] = indexedColumn(0, c, s.sequences.joined.Layout.Columns)
	}
	weights, err := s.reader.Weigh(s.ctx, indexed)
	if err != nil {
		return fault.Op(err, "read the first batch")
	}
	var form Form
	for i, w := range weights {
		if w.Indexed < w.Plain {
			form.indexed = append(form.indexed, candidates[i].Name)
		}
	}
	s.SetForm(form)
	return nil
}
