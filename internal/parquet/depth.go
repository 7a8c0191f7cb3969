package parquet

import "errors"

const (
	// footerSchema is the field of a footer that lists its schema, parents before their
	// children, and schemaChildren that of an element of it that counts these.
	footerSchema   = 2
	schemaChildren = 5

	// schemaDepth is how deep columns may lie inside each other. Where they are decoded,
	// each level takes stack, of which a process has so much and no more.
	schemaDepth = 256
)

var errDeep = errors.New("columns lie too deep inside each other")

// checkDepth sees that no column of a footer lies too deep inside others, before
// anybody follows them.
func checkDepth(footer []byte) error {
	t, read := thrift{rest: footer}, errors.New("the schema is read")
	err := t.fields(func(id int64, kind byte) error {
		if id != footerSchema || kind != thriftList {
			return t.skip(kind, footerDepth)
		}
		var left []int64 // children to come, of each column around the next
		err := t.list(thriftStruct, func() error {
			children, err := t.children()
			for len(left) > 0 && left[len(left)-1] == 0 {
				left = left[:len(left)-1]
			}
			if len(left) > 0 {
				left[len(left)-1]--
			}
			if children > 0 {
				left = append(left, children)
			}
			if len(left) > schemaDepth {
				return errDeep
			}
			return err
		})
		if err == nil {
			return read // what follows is longer, and of no interest
		}
		return err
	})
	if errors.Is(err, read) {
		return nil
	}
	return err
}

// children reads an element of a schema, and returns how many children it has.
func (t *thrift) children() (n int64, err error) {
	err = t.fields(func(id int64, kind byte) error {
		if id == schemaChildren && kind == thriftI32 {
			return t.number(&n)
		}
		return t.skip(kind, footerDepth)
	})
	return n, err
}
