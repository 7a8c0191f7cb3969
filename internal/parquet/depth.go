package parquet

import "errors"

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

// nesting has, for each element of a schema that contains the next element, the number of its
// children that are still to come.
type nesting []int64

// add adds the next element. It returns an error if the element's children would be nested too deeply.
func (n *nesting) add(children int64) error {
	left := *n
	for len(left) > 0 && left[len(left)-1] == 0 {
		left = left[:len(left)-1]
	}
	if len(left) > 0 {
		left[len(left)-1]--
	}
	if children > 0 {
		left = append(left, children)
	}
	*n = left
	if len(left) > maxSchemaDepth {
		return errDeep
	}
	return nil
}
