package loader

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/lane"
	"github.com/penstock/penstock/loader/resolve"
)

// form describes which columns of a stream's batches are indexed. With wire: auto this
// is decided by the rows of the first batch, and then holds for the whole stream.
type form struct {
	decided bool
	indexed []resolve.Indexed
	schema  *arrow.Schema
	once    []bool  // with wire: grouped, by output: sent once per request; else nil
	sent    []int64 // by indexed column: distinct rows in the batches of earlier readers
}

// grouped returns the lane's option for values sent once per request; nil if batches
// consist of rows.
func (s *stream) grouped() *lane.Grouped {
	if s.form.once == nil {
		return nil
	}
	return &lane.Grouped{Once: s.form.once, Table: s.plan.Relation.Training.Name}
}

// mayIndex reports whether the columns of a table are indexed or may become so.
func (f form) mayIndex(table int) bool {
	return !f.decided || slices.ContainsFunc(f.indexed, func(x resolve.Indexed) bool { return x.Table == table })
}

// newForm returns the form of a reading. It is decided unless the stream has to decide
// it.
func newForm(p *resolve.Relation, r StreamOptions, outputs []resolve.Output) (form, error) {
	schema, err := p.Schema(outputs, r.Wire)
	if err != nil {
		return form{}, err
	}
	indexed, err := r.Wire.Indexed()
	if err != nil {
		return form{}, err
	}
	f := form{decided: !r.Wire.Auto(), schema: schema}
	if indexed && f.decided {
		f.indexed = p.Indexed(outputs)
	}
	if r.Wire.Grouped() {
		f.once = p.OncePerRequest(outputs)
	}
	return f, nil
}

// lanes returns the columns of the batches as options of the lane.
func (s *stream) lanes() (columns []lane.Column, indexed []lane.IndexedColumn) {
	for at, place := range resolve.Places(s.outputs, s.form.indexed) {
		if place.Indexed < 0 {
			columns = append(columns, s.ranges.columns[place.Output])
		} else {
			indexed = append(indexed, s.ranges.indexed(at, s.form.indexed[place.Indexed]))
		}
	}
	return columns, indexed
}

// indexed returns an indexed column as an option of the lane.
func (s *ranges) indexed(at int, of resolve.Indexed) lane.IndexedColumn {
	x := lane.IndexedColumn{At: at}
	for _, i := range of.Outputs {
		x.Columns = append(x.Columns, s.columns[i])
	}
	x.Index = x.Columns[0].Dictionary()
	return x
}

// Begin implements Stream.
func (s *stream) Begin() error {
	if s.form.decided || s.err != nil {
		return s.err
	}
	if s.err = s.decide(); s.err != nil {
		return s.err
	}
	return nil
}

// decide indexes the columns that would be smaller, judged by the first batch.
func (s *stream) decide() error {
	if s.reader == nil {
		if err := s.open(s.ctx); err != nil {
			return err
		}
	}
	candidates := s.plan.Relation.Indexed(s.outputs)
	indexed := make([]lane.IndexedColumn, len(candidates))
	for i, c := range candidates {
		indexed[i] = s.ranges.indexed(0, c)
	}
	weights, err := s.reader.Weigh(indexed)
	if err != nil {
		return fault.Op(err, "choose the form of the batches")
	}
	for i, w := range weights {
		if w.Indexed < w.Plain {
			s.form.indexed = append(s.form.indexed, candidates[i])
		}
	}
	s.form.decided = true
	s.form.schema = resolve.IndexedSchema(s.outputs, s.form.indexed)
	s.form.sent = make([]int64, len(s.form.indexed))
	if s.ranges.requests != nil {
		s.ranges.requests.apart = !s.form.mayIndex(resolve.RequestTable)
	}
	columns, tables := s.lanes()
	s.reader.Form(s.form.schema, columns, tables)
	return nil
}
