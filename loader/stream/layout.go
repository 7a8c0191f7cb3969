package stream

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/resolve"
)

// wireLayout describes which columns of a stream's batches are indexed. With wire: auto this
// is decided by the rows of the first batch, and then holds for the whole stream.
type wireLayout struct {
	decided bool
	indexed []resolve.Indexed
	form    Form // the same, by name
	schema  *arrow.Schema
	once    []bool // with wire: grouped, by output: sent once per request; else nil
}

// newLayout returns the layout of a stream. It is decided unless the stream has to decide
// it.
func newLayout(of ReadSpec) (wireLayout, error) {
	p, wire := of.Plan.Relation, of.Reading.Wire
	schema, err := p.Schema(of.Outputs, wire)
	if err != nil {
		return wireLayout{}, err
	}
	indexed, err := wire.Indexed()
	if err != nil {
		return wireLayout{}, err
	}
	l := wireLayout{decided: !wire.Auto(), schema: schema}
	if indexed && l.decided {
		l.indexed = p.Indexed(of.Outputs)
	}
	if l.decided {
		l.form = formOf(p.Indexed(of.Outputs), l.indexed)
	}
	if wire.Grouped() {
		l.once = p.OncePerRequest(of.Outputs)
	}
	return l, nil
}

// mayIndex reports whether the columns of a table are indexed or may become so.
func (l wireLayout) mayIndex(table int) bool {
	return !l.decided || slices.ContainsFunc(l.indexed, func(x resolve.Indexed) bool { return x.Table == table })
}

// grouped returns the lane's option for values sent once per request; nil if batches
// consist of rows.
func (s *ShardReader) grouped() *lane.Grouped {
	if s.layout.once == nil {
		return nil
	}
	return &lane.Grouped{Once: s.layout.once, Table: s.shard.Plan.Relation.Training.Name}
}

// columns returns the columns of the batches as options of the lane.
func (s *ShardReader) columns() (columns []lane.Column, indexed []lane.IndexedColumn) {
	located := s.sequences.joined.Layout.Columns
	for at, place := range resolve.Places(s.shard.Outputs, s.layout.indexed) {
		if place.Indexed < 0 {
			columns = append(columns, located[place.Output])
		} else {
			indexed = append(indexed, s.indexed(at, s.layout.indexed[place.Indexed]))
		}
	}
	return columns, indexed
}

// indexed returns an indexed column as an option of the lane.
func (s *ShardReader) indexed(at int, of resolve.Indexed) lane.IndexedColumn {
	x := lane.IndexedColumn{At: at}
	for _, i := range of.Outputs {
		x.Columns = append(x.Columns, s.sequences.joined.Layout.Columns[i])
	}
	x.Index = x.Columns[0].Dictionary()
	return x
}

// Begin determines what the stream's schema depends on. With wire: auto it reads the rows
// of the first batch, which the first Next then returns; with other forms it does nothing.
// The first Next calls it.
func (s *ShardReader) Begin() error {
	if !s.layout.decided && s.err == nil {
		s.err = s.decide()
	}
	return s.err
}

// decide indexes the columns that would be smaller, judged by the first batch.
func (s *ShardReader) decide() error {
	s.back = s.beforeStep()
	if s.reader == nil {
		if err := s.open(s.ctx); err != nil {
			return err
		}
	}
	candidates := s.shard.Plan.Relation.Indexed(s.shard.Outputs)
	indexed := make([]lane.IndexedColumn, len(candidates))
	for i, c := range candidates {
		indexed[i] = s.indexed(0, c)
	}
	weights, err := s.reader.Weigh(indexed)
	if err != nil {
		return fault.Op(err, "choose the form of the batches")
	}
	var form Form
	for i, w := range weights {
		if w.Indexed < w.Plain {
			form.indexed = append(form.indexed, candidates[i].Name)
		}
	}
	s.setForm(form)
	return nil
}

// setForm decides the layout.
func (s *ShardReader) setForm(form Form) {
	s.layout.decided = true
	candidates := s.shard.Plan.Relation.Indexed(s.shard.Outputs)
	for _, x := range candidates {
		if slices.Contains(form.indexed, x.Name) && !x.Apart {
			s.layout.indexed = append(s.layout.indexed, x)
		}
	}
	s.layout.form = formOf(candidates, s.layout.indexed)
	s.layout.schema = resolve.IndexedSchema(s.shard.Outputs, s.layout.indexed)
	s.earlier.Distinct = make([]int64, len(s.layout.indexed))
	if s.reader == nil {
		return
	}
	if !s.layout.mayIndex(resolve.RequestTable) {
		s.sequences.joined.Layout.SendRequestsApart()
	}
	columns, tables := s.columns()
	s.reader.SetLayout(s.layout.schema, columns, tables)
}
