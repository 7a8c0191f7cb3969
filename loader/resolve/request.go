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
