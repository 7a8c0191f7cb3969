package exchange

import (
	"slices"
	"strings"
)

// Partitioned returns those partition fields of a folder that writers encode differently in
// manifests: fields of types that Avro names, and fields whose names Avro's grammar does not allow.
// Writers choose such names for fields with a transform.
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
