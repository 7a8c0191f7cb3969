package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// NameMapping says which field ids the columns of a file mean that was written without
// any, by their names: of a struct's fields, and of what is in a list or a map, under
// the names element, key and value. It is immutable.
type NameMapping []MappedField

// MappedField is a field of a table, and the names that files may have for it.
type MappedField struct {
	ID     int
	Names  []string
	Fields NameMapping
}

// Find returns the field id that a path of names leads to, and how many fields the mapping
// names inside of that field; false if the mapping has no such path, and the column is none
// of the table's.
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

// Digest names the mapping by what it says, in whatever order it says it.
func (m NameMapping) Digest() string {
	sum := sha256.Sum256([]byte(m.canonical()))
	return hex.EncodeToString(sum[:])[:digestDigits]
}

// canonical is a text of the mapping that equal ones share, and no others.
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
