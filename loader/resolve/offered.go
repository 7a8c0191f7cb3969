package resolve

import (
	"fmt"
	"slices"
)

// NotOffered says of a name that is no column of the dataset which staging table has a
// column of that name, and how it becomes one: the end of a sentence, or "". For a key it
// also returns the training column that equals it where a row matched.
func (r *Relation) NotOffered(name string) (why, equal string) {
	for _, s := range r.Staging {
		if _, ok := s.Pinned.Field(name); !ok || !s.Join.Adds() {
			continue
		}
		k := slices.IndexFunc(s.Keys, func(k Key) bool { return k.Staging.Name == name })
		if k < 0 {
			return fmt.Sprintf("; %s has one that it does not offer under this name: see the entry's columns and prefix", s.Name), ""
		}
		return fmt.Sprintf("; it is a key of %s, and offered where the entry's columns name it", s.Name), s.Keys[k].Training.Name
	}
	return "", ""
}
