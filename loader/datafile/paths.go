package datafile

import (
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
)

// pathsOf maps the paths of columns and of their nested fields, such as place.lat, l.element or
// m.value, to the column. Other engines find fields by their paths, and refuse to load a table in
// which two fields have the same path.
type pathsOf map[string]string

// add adds the paths of a column. It returns a reason if the column is refused, and "" otherwise.
func (p pathsOf) add(column string, t arrow.DataType) string {
	made := appendPaths(nil, column, t)
	for _, path := range made {
		if other, ok := p[path]; ok && other != column {
			return "other engines do not tell it or its field " + strconv.Quote(path) + " apart from column " + strconv.Quote(other) + " or a field of it"
		}
	}
	for _, path := range made {
		p[path] = column
	}
	return ""
}

func appendPaths(to []string, path string, t arrow.DataType) []string {
	to = append(to, path)
	switch t := t.(type) {
	case *arrow.ListType:
		return appendPaths(to, path+".element", t.Elem())
	case *arrow.MapType:
		return appendPaths(appendPaths(to, path+".key", t.KeyType()), path+".value", t.ItemType())
	case *arrow.StructType:
		for _, f := range t.Fields() {
			to = appendPaths(to, path+"."+f.Name, f.Type)
		}
	}
	return to
}
