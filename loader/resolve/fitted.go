package resolve

import (
	"slices"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// lists sets the fitted lists of the relation.
func (b *binder) lists(r *Relation) {
	r.lists = r.Dataset.Lists()
	for _, f := range r.Dataset.Fitted {
		if f.List == nil {
			b.fault(fault.FieldPath("fitted", f.Name), "", "the values of %s were not read: only datasets of the config file have fitted lists", f.Name)
		}
	}
}

// listNames refuses fitted lists with the name of an output, since expressions could mean either.
func (b *binder) listNames(r *Relation) {
	for _, f := range r.Dataset.Fitted {
		if k := slices.IndexFunc(r.Outputs, func(o Output) bool { return o.Name == f.Name }); k >= 0 {
			b.fault(fault.FieldPath("fitted", f.Name), "", "%q is the name of this list and of a column of %s; give the list another name", f.Name, r.origin(r.Outputs[k]))
		}
	}
}

// WithLists returns a query's filter with the dataset's fitted lists in the places of their names.
func (r *Relation) WithLists(f dataset.Filter) (dataset.Filter, error) {
	of, err := f.Expr().WithLists(r.lists)
	if err != nil {
		return f, fault.Fields(faultsAt(err, "filter"))
	}
	if of == f.Expr() {
		return f, nil
	}
	return dataset.FilterOf(of), nil
}
