package plan

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader/dataset"
)

// Schema returns the schema of a stream, given the columns that a query selects and the wire form
// of its batches. For wire: auto, it returns the schema of the plain form, since each stream
// decides the form separately. It does not open files.
func (b *Bound) Schema(columns dataset.Selection, wire dataset.Wire) (*arrow.Schema, error) {
	outputs, err := b.Relation.Choose(columns)
	if err != nil {
		return nil, err
	}
	return b.Relation.Schema(outputs, wire)
}

// Cursor returns the fields that all cursors of the plan's streams share. The stream
// sets shard, step, rows and positions.
func (p *Plan) Cursor() dataset.Cursor {
	return dataset.Cursor{
		Version: dataset.CursorVersion, Plan: p.ID, Algorithm: p.Algorithm, Rows: p.Rows,
	}
}
