package resolve

import (
	"fmt"
	"maps"
	"slices"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/fault"
)

// maxFaults is the number of faults of a query's columns that are listed, and for which reasons and nearest names are sought. A hostile
// query has thousands, and each search takes time.
const maxFaults = 100

// Explain adds a hint to the error of binding a filter or an expression to the relation's outputs,
// for each used name that is a column of a staging table which the table's entry does not offer. The nearest
// name may be that of a fitted list.
func (r *Relation) Explain(err error, used []string) error {
	faults := slices.Clone(fault.As(err).Faults)
	lists := slices.Sorted(maps.Keys(r.lists))
	unknown := map[string]string{} // names by the messages that say that they are unknown
	for _, name := range used {
		unknown[expr.UnknownColumn(name)] = name
	}
	for i := range faults[:min(len(faults), maxFaults)] {
		f := &faults[i]
		name, ok := unknown[f.Message]
		if !ok {
			continue
		}
		if fault.Nearest(name, lists) != "" {
			f.Nearest = fault.Nearest(name, slices.Concat(names(r.Outputs), lists))
		}
		why, equal := r.NotOffered(name)
		f.Message += why
		if equal != "" {
			f.Nearest = equal
		}
	}
	return fault.Fields(faults)
}

// NotOffered explains a name that is not a column of the dataset. If a staging table has a column
// of that name, why is the end of a sentence that says which table it is, and how to offer the
// column. Otherwise why is "". If the column is a key, equal is the name of the training column
// with which it is compared, and which has the same value in each row with a match.
//
// For a client that may not read all columns, why is the same for columns that are withheld, that are not offered, and that do not exist.
func (r *Relation) NotOffered(name string) (why, equal string) {
	limited := len(r.Withheld()) > 0
	for i, s := range r.Staging {
		f, ok := s.Pinned.Field(name)
		if !ok || !s.Join.Adds() || r.hides(i, f) {
			continue
		}
		k := slices.IndexFunc(s.Keys, func(k Key) bool { return k.Staging.Name == name })
		if k < 0 && limited {
			continue
		}
		if k < 0 {
			return fmt.Sprintf("; %s has one that it does not offer under this name: see the entry's columns and prefix", s.Name), ""
		}
		equal := s.Keys[k].Training
		if r.hides(TrainingTable, equal) { // the key has the values of a withheld column, and often the same name
			continue
		}
		return fmt.Sprintf("; it is a key of %s; name it in the entry's columns to offer it", s.Name), equal.Name
	}
	if limited {
		return ", or the server's policy withholds it from this client", ""
	}
	return "", ""
}
