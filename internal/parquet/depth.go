package parquet

import (
	"errors"

	"github.com/penstock/penstock/internal/parquet/thrift"
)

const (
	// footerSchema is the field id of the schema in a footer: a list of elements, parents
	// before children. schemaChildren is the field id of an element's number of children.
	footerSchema   = 2
	schemaChildren = 5

	// maxSchemaDepth is the maximum nesting of columns. Decoding recurses once per level,
	// and exhausting the stack ends the process.
	maxSchemaDepth = 256
)

var errDeep = errors.New("columns are nested too deeply")

// checkDepth returns an error if a footer nests columns too deeply. It runs before
// anything recurses into them.
func checkDepth(footer []byte) error {
	t, read := thrift.Reader{Rest: footer}, errors.New("the schema is read")
	err := t.Fields(func(id int64, kind byte) error {
		if id != footerSchema || kind != thrift.List {
			return t.Skip(kind, maxFooterDepth)
		}
		var left []int64 // children to come of each column around the next one
		err := t.List(thrift.Struct, func() error {
			children, err := readChildren(&t)
			for len(left) > 0 && left[len(left)-1] == 0 {
				left = left[:len(left)-1]
			}
			if len(left) > 0 {
				left[len(left)-1]--
			}
			if children > 0 {
				left = append(left, children)
			}
			if len(left) > maxSchemaDepth {
				return errDeep
			}
			return err
		})
		if err == nil {
			return read // the rest of the footer is longer and not needed
		}
		return err
	})
	if errors.Is(err, read) {
		return nil
	}
	return err
}

// readChildren reads a schema element and returns its number of children.
func readChildren(t *thrift.Reader) (n int64, err error) {
	err = t.Fields(func(id int64, kind byte) error {
		if id == schemaChildren && kind == thrift.I32 {
			return t.Number(&n)
		}
		return t.Skip(kind, maxFooterDepth)
	})
	return n, err
}
