package exchange

import (
	"slices"
	"strings"
)

// Partitioned says by what the tables of a folder are partitioned that writers spell in
// ways of their own in manifests: types that Avro knows by a name, and names that Avro's
// grammar does not have. Writers give the fields with a transform such names.
func (f *Folder) Partitioned() []string {
	var out []string
	for _, t := range f.Case.Tables() {
		for _, commit := range t.Commits {
			var decimals []string
			for _, field := range fieldsOf(t.Specs[commit.Spec]) {
				transform, _, transformed := strings.Cut(field, "(")
				if transformed {
					out = append(out, "names beyond ASCII")
				}
				for word := range strings.FieldsSeq(t.Header) {
					c := columnOf(word)
					if c.Name == sourceOf(field) && strings.HasPrefix(c.Type, "decimal") && (!transformed || transform == "truncate") {
						decimals = append(decimals, c.Type)
					}
				}
			}
			if len(decimals) > 0 {
				out = append(out, "decimals")
			}
			n := len(decimals)
			slices.Sort(decimals)
			if len(slices.Compact(decimals)) < n {
				out = append(out, "decimals of one type")
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
