package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// NameMapping maps the names of columns to field ids, for files without field ids. The
// fields in lists and maps have the names element, key and value. It is immutable.
type NameMapping []MappedField

// MappedField is a field of a table with the names that files may use for it.
type MappedField struct {
	ID     int
	Names  []string
	Fields NameMapping
}

// Find returns the id of the field at a path of names, and the number of fields that the mapping
// has inside this field. It returns false if the mapping does not have the path: a file's column at
// this path is then not a column of the table.
func (m NameMapping) Find(path []string) (id, inside int, ok bool) {
	for i, name := range path {
		at := slices.IndexFunc(m, func(f MappedField) bool { return slices.Contains(f.Names, name) })
		if at < 0 {
			return 0, 0, false
		}
		if i == len(path)-1 {
			return m[at].ID, len(m[at].Fields), true
		}
		m = m[at].Fields
	}
	return 0, 0, false
}

// digestDigits is how many hexadecimal digits name a mapping in a pin.
const digestDigits = 16

// Digest identifies the content of the mapping. It does not depend on the order of the mapping's
// fields and names.
func (m NameMapping) Digest() string {
	sum := sha256.Sum256([]byte(m.canonical()))
	return hex.EncodeToString(sum[:])[:digestDigits]
}

// canonical returns a text that is the same for two mappings if and only if they are equal.
func (m NameMapping) canonical() string {
	fields := make([]string, len(m))
	for i, f := range m {
		names := slices.Clone(f.Names)
		slices.Sort(names)
		fields[i] = fmt.Sprintf("%d %q %s", f.ID, slices.Compact(names), f.Fields.canonical())
	}
	slices.Sort(fields)
	return "{" + strings.Join(fields, "; ") + "}"
}
