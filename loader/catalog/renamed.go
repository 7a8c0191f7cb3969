package catalog

import "strings"

// Renamed returns a table with other names of top-level columns, by field id, and of the columns inside them. A column with the
// name "" is left out of Fields, and the columns inside it out of Nested.
func (t *Table) Renamed(names map[int]string) *Table {
	out := *t
	out.Fields, out.Nested = nil, nil
	renamed := map[string]string{} // the first parts of the names of nested columns
	for _, f := range t.Fields {
		name, changed := names[f.ID]
		if changed {
			renamed[f.Name] = name
			f.Name = name
		}
		if !changed || name != "" {
			out.Fields = append(out.Fields, f)
		}
	}
	for _, f := range t.Nested {
		if f.Name = nestedName(f.Name, renamed); f.Name != "" {
			out.Nested = append(out.Nested, f)
		}
	}
	return &out
}

// nestedName returns the name of a nested column after top-level columns were renamed. It returns "" if the top-level column has
// no name.
func nestedName(name string, renamed map[string]string) string {
	for old, is := range renamed {
		rest, inside := strings.CutPrefix(name, old+".")
		switch {
		case inside && is == "":
			return ""
		case inside:
			return is + "." + rest
		}
	}
	return name
}
