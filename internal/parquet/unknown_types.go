package parquet

import (
	"encoding/binary"
	"errors"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet/thrift"
)

// The format gets new types over time, and the library refuses a footer with a type that it does
// not know, whichever columns are read. So the annotations with unknown types are removed before
// the library decodes the footer. Penstock keeps the numbers of the columns that had them: these columns have no
// bounds, because the order of their values is not known, and they are only read as their physical
// type.

const (
	// The ids of the fields of a schema element, in a footer.
	elementPhysical  = 1
	elementConverted = 6
	elementLogical   = 10

	// The last physical and the last converted type of the format that the library knows.
	lastPhysical  = 7
	lastConverted = 21

	// The ids of those members of the union of logical types that have fields of their own.
	logicalTime       = 7
	logicalTimestamp  = 8
	logicalUnassigned = 9
	logicalGeography  = 18
	logicalLast       = 18

	timeUnit           = 2 // field of logicalTime and logicalTimestamp, a union
	lastTimeUnit       = 3
	geographyAlgorithm = 2
	lastAlgorithm      = 4
)

// unknownTypes are the columns of a footer that have types unknown to the library.
type unknownTypes struct {
	elements int          // of the schema that were read
	leaves   int          // primitive columns that were read
	logical  map[int]bool // leaves with an annotation that was removed
	physical map[int]bool // leaves whose physical type is unknown
	groups   bool         // whether a struct, list or map had such an annotation
}

// any reports whether there is an unknown type.
func (u *unknownTypes) any() bool { return len(u.logical) > 0 || len(u.physical) > 0 || u.groups }

// knownTypes returns a footer without the types that the library does not know, or the given footer
// if it has no such types. It returns an error if columns are nested too deeply; it must run before
// any code that recurses into columns.
func knownTypes(footer []byte) ([]byte, unknownTypes, error) {
	u := unknownTypes{logical: map[int]bool{}, physical: map[int]bool{}}
	t, done := thrift.Reader{Rest: footer}, errors.New("the schema is read")
	out, copied, around := []byte(nil), 0, nesting(nil)
	err := t.Fields(func(id int64, kind byte) error {
		if id != footerSchema || kind != thrift.List {
			return t.Skip(kind, maxFooterDepth)
		}
		err := t.List(thrift.Struct, func() error {
			from := len(footer) - len(t.Rest)
			e, err := readElement(&t, footer)
			if err == nil {
				err = around.add(e.children)
			}
			if err != nil || !u.add(e) {
				return err
			}
			out = append(out, footer[copied:from]...)
			out = e.appendKnown(out, footer)
			copied = len(footer) - len(t.Rest)
			return nil
		})
		if err == nil {
			return done
		}
		return err
	})
	if err != nil && !errors.Is(err, done) {
		return nil, u, err
	}
	if !u.any() {
		return footer, u, nil
	}
	return append(out, footer[copied:]...), u, nil
}

// schemaElement is an element of a footer's schema.
type schemaElement struct {
	fields                             []elementField
	children                           int64
	unknownPhysical, unknownAnnotation bool
}

// elementField is a field of an element: its value is at [from, to) of the footer.
type elementField struct {
	id       int64
	kind     byte
	from, to int
}

// readElement reads an element of the schema of a footer.
func readElement(t *thrift.Reader, footer []byte) (e schemaElement, err error) {
	err = t.Fields(func(id int64, kind byte) error {
		from, number, known := len(footer)-len(t.Rest), int64(0), true
		var err error
		switch {
		case kind == thrift.I32 && (id == elementPhysical || id == elementConverted || id == schemaChildren):
			err = t.Number(&number)
		case kind == thrift.Struct && id == elementLogical:
			known, err = knownLogical(t)
		default:
			err = t.Skip(kind, maxFooterDepth)
		}
		switch id {
		case elementPhysical:
			e.unknownPhysical = number < 0 || number > lastPhysical
		case schemaChildren:
			e.children = number
		case elementConverted:
			e.unknownAnnotation = e.unknownAnnotation || number < 0 || number > lastConverted
		case elementLogical:
			e.unknownAnnotation = e.unknownAnnotation || !known
		}
		e.fields = append(e.fields, elementField{id: id, kind: kind, from: from, to: len(footer) - len(t.Rest)})
		return err
	})
	return e, err
}

// knownLogical reads a logical type and reports whether the library knows it.
func knownLogical(t *thrift.Reader) (known bool, err error) {
	err = t.Fields(func(id int64, kind byte) error {
		member, err := true, error(nil)
		switch {
		case kind != thrift.Struct || id < 1 || id > logicalLast || id == logicalUnassigned:
			member, err = false, t.Skip(kind, maxFooterDepth)
		case id == logicalTime || id == logicalTimestamp:
			member, err = knownUnit(t)
		case id == logicalGeography:
			member, err = knownAlgorithm(t)
		default:
			err = t.Skip(kind, maxFooterDepth)
		}
		known = known || member
		return err
	})
	return known, err
}

// knownUnit reads the type of a time or timestamp.
func knownUnit(t *thrift.Reader) (known bool, err error) {
	err = t.Fields(func(id int64, kind byte) error {
		if id != timeUnit || kind != thrift.Struct {
			return t.Skip(kind, maxFooterDepth)
		}
		return t.Fields(func(id int64, kind byte) error {
			known = known || id >= 1 && id <= lastTimeUnit
			return t.Skip(kind, maxFooterDepth)
		})
	})
	return known, err
}

// knownAlgorithm reads the type of geography, whose algorithm may be missing.
func knownAlgorithm(t *thrift.Reader) (known bool, err error) {
	known = true
	err = t.Fields(func(id int64, kind byte) error {
		if id != geographyAlgorithm || kind != thrift.I32 {
			return t.Skip(kind, maxFooterDepth)
		}
		var algorithm int64
		err := t.Number(&algorithm)
		known = algorithm >= 0 && algorithm <= lastAlgorithm
		return err
	})
	return known, err
}

// add counts an element and reports whether it has an unknown type.
func (u *unknownTypes) add(e schemaElement) bool {
	u.elements++
	isLeaf := e.children == 0 && u.elements > 1
	switch {
	case !isLeaf:
		u.groups = u.groups || e.unknownAnnotation
	case e.unknownPhysical:
		u.physical[u.leaves] = true
	case e.unknownAnnotation:
		u.logical[u.leaves] = true
	}
	if isLeaf {
		u.leaves++
	}
	return e.unknownAnnotation || isLeaf && e.unknownPhysical
}

// appendKnown appends the element without its annotations, and without an unknown physical type.
func (e schemaElement) appendKnown(out, footer []byte) []byte {
	for _, f := range e.fields {
		if f.id >= elementLogical || f.id == elementConverted || f.id == elementPhysical && e.unknownPhysical {
			continue
		}
		out = binary.AppendVarint(append(out, f.kind), f.id) // the long form of a field's header
		out = append(out, footer[f.from:f.to]...)
	}
	return append(out, 0)
}

// refuse returns Invalid if the physical type of a leaf is unknown.
func (u *unknownTypes) refuse(leaf int, name string) error {
	if !u.physical[leaf] {
		return nil
	}
	return fault.New(fault.Invalid, "column %s is stored as a physical type that this version does not support", name).
		WithRemedy("rewrite the file with a type of the table format, or use a later version of Penstock")
}

// CopyColumns returns Invalid if a copy of the file's columns, with a footer of this version,
// would lose their types.
func (f *Footer) CopyColumns() error {
	if !f.unknown.any() {
		return nil
	}
	return fault.New(fault.Invalid, "a column has a type that this version does not support, so it cannot be copied").
		WithRemedy("rewrite the file without the new type, or use a later version of Penstock")
}
