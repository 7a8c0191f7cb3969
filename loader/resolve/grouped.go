package resolve

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
)

// OncePerRequest reports for each output whether all rows of a request have the same value. This is
// so for the key of requests, for request-level columns, and for columns of staging tables that are
// joined only by such columns and to at most one row.
func (r *Relation) OncePerRequest(outputs []Output) []bool {
	once := make([]bool, len(outputs))
	for i, o := range outputs {
		once[i] = r.oncePerRequest(o)
	}
	return once
}

func (r *Relation) oncePerRequest(o Output) bool {
	if o.Dense != nil {
		return !slices.ContainsFunc(o.Dense.Columns, func(c Output) bool { return !r.oncePerRequest(c) })
	}
	if slices.ContainsFunc(o.Overlays, func(over Overlay) bool { return !r.joinedOnce(over.Table) }) {
		return false
	}
	if o.Table == TrainingTable {
		return r.ofRequest(o.Field.ID)
	}
	return r.joinedOnce(o.Table)
}

// ofRequest reports whether a training column is part of the request key, or request-level.
func (r *Relation) ofRequest(field int) bool {
	for _, name := range slices.Concat(r.Dataset.Key, r.Dataset.Training.RequestLevel) {
		if f, ok := r.Training.Field(name); ok && f.ID == field {
			return true
		}
	}
	return false
}

// joinedOnce reports whether all rows of a request match the same row of a staging table, or all
// match no row.
func (r *Relation) joinedOnce(table int) bool {
	s := r.Staging[table]
	if s.Time != nil || s.Align != nil || s.Duplicates.Multiply() {
		return false
	}
	return !slices.ContainsFunc(s.Keys, func(k Key) bool { return !r.ofRequest(k.Training.ID) })
}

// groupedSchema returns the schema of batches with one row for each request.
func (r *Relation) groupedSchema(outputs []Output) *arrow.Schema {
	once := r.OncePerRequest(outputs)
	fields := make([]arrow.Field, len(outputs))
	for i, o := range outputs {
		if fields[i] = o.arrowField(); !once[i] {
			item := fields[i]
			item.Name = "element"
			fields[i] = arrow.Field{Name: o.Name, Type: arrow.ListOfField(item)}
		}
	}
	return arrow.NewSchema(fields, nil)
}
