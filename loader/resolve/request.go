package resolve

import (
	"fmt"
	"slices"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/loader/catalog"
)

// request binds the training columns that are constant within a request, and the key of requests.
func (b *binder) request(r *Relation) {
	names := r.Dataset.Training.RequestLevel
	if len(names) == 0 {
		return
	}
	for i, name := range names {
		f, ok := b.column(r.Training, name, fmt.Sprintf("training.request_level[%d]", i))
		if !ok {
			continue
		}
		at := slices.IndexFunc(r.Outputs, func(o Output) bool { return o.Field.ID == f.ID })
		r.Outputs[at].Request = true
	}
	for i, name := range r.Dataset.Key {
		f, ok := r.Training.Field(name)
		if ok && !bucket.Supported(f.Type) {
			b.fault(fmt.Sprintf("key[%d]", i), "", "requests cannot be identified by column %s.%s of type %s; use another key, or omit training.request_level",
				r.Training.Name, f.Name, f.Type)
		}
		r.Request = append(r.Request, f)
	}
	if len(r.Dataset.Key) == 0 {
		b.fault("training.request_level", "", "the dataset has no key, which tells requests apart; name its columns as the dataset's key")
		r.Request = []catalog.Field{}
	}
}

// OncePerRequest reports for each output whether all rows of a request have the same value. They
// have if the output is part of the request key or a request-level column. They also have if the
// output is a column of a staging table that is joined only by such columns, and to at most one
// row.
func (r *Relation) OncePerRequest(outputs []Output) []bool {
	once := make([]bool, len(outputs))
	for i, o := range outputs {
		once[i] = r.oncePerRequest(o)
	}
	return once
}

func (r *Relation) oncePerRequest(o Output) bool {
	if o.Made() {
		return !slices.ContainsFunc(o.Parts, func(c Output) bool { return !r.oncePerRequest(c) })
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
