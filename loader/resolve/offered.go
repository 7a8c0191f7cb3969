package resolve

import (
	"fmt"
	"slices"
)

// NotOffered returns, for a name that is not a column of the dataset, which staging table has a
// column of that name and how to offer it: the end of a sentence, or "". For a key it also
// returns the training column, which is equal where a row matched.
func (r *Relation) NotOffered(name string) (why, equal string) {
	for i, s := range r.Staging {
		f, ok := s.Pinned.Field(name)
		if !ok || !s.Join.Adds() || r.hides(i, f) {
			continue
		}
		k := slices.IndexFunc(s.Keys, func(k Key) bool { return k.Staging.Name == name })
		if k < 0 {
			return fmt.Sprintf("; %s has one that it does not offer under this name: see the entry's columns and prefix", s.Name), ""
		}
		equal := s.Keys[k].Training
		if r.hides(TrainingTable, equal) { // its values are those of a withheld column, and often so is its name
			continue
		}
		return fmt.Sprintf("; it is a key of %s; name it in the entry's columns to offer it", s.Name), equal.Name
	}
	return "", ""
}
