package plan

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader/dataset"
)

// Schema returns the schema of the stream for the columns that a query asks for,
// and for the form of its batches; of auto, which each stream decides, that of the
// plain ones. It needs nothing but the plan: no file is opened.
func (p *Plan) Schema(columns dataset.Selection, wire dataset.Wire) (*arrow.Schema, error) {
	outputs, err := p.Relation.Choose(columns)
	if err != nil {
		return nil, err
	}
	return p.Relation.Schema(outputs, wire)
}

// Cursor returns the plan's part of every cursor of its streams; shard, step,
// rows and positions are the stream's.
func (p *Plan) Cursor() dataset.Cursor {
	return dataset.Cursor{
		Version: dataset.CursorVersion, Plan: p.ID, Algorithm: Algorithm, Rows: p.Rows,
	}
}
