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

// Find returns the field id at a path of names, and the number of fields that the mapping
// has in that field. It returns false if the mapping does not have the path: then the
// column is not part of the table.
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

// Digest identifies the content of the mapping, independent of its order.
func (m NameMapping) Digest() string {
	sum := sha256.Sum256([]byte(m.canonical()))
	return hex.EncodeToString(sum[:])[:digestDigits]
}

// canonical returns a text that is the same for equal mappings alone.
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
