package lane

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// packed is a column of the result, or a field of such a column, whose rows are lists of float32.
// Each list is packed from several columns of numbers.
type packed struct {
	field    arrow.Field
	of       *Made
	segments [][]batch.Segment // by column
}

func (p *packed) size(g *batch.Gatherer) (int64, error) {
	return g.PackedSize(p.segments), nil
}

func (p *packed) column(g *batch.Gatherer) (arrow.Array, error) {
	names := make([]string, len(p.of.Columns))
	for i := range names {
		names[i] = p.of.Schema.Field(i).Name
	}
	column, err := g.Pack(p.field.Type, names, p.segments, p.of.Fill)
	return column, fault.Op(err, "pack column %q", p.field.Name)
}

func (*packed) release() {}
