package datafile

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
)

// matching matches the columns of the input to the columns of a table, by name.
type matching struct {
	schema *arrow.Schema // the schema of the input, converted to types that tables can have
	raw    *arrow.Schema // the original schema of the input
	evolve bool
	target *Target
	faults []fault.Field
}

// columns finds the source of each column of the files. It reports all columns that do not fit.
func (m *matching) columns() error {
	known, paths := map[string]bool{}, pathsOf{}
	for _, f := range m.target.State.Table.Fields {
		known[f.Name] = true
		paths.add(f.Name, f.Type)
		switch old := m.replacedBy(f); {
		case old != "":
			m.fail(f.Name, "its values come from the overlay "+strconv.Quote(m.target.State.Table.Origins[f.ID].Entry)+", which was promoted, and the rows would not get them: name the column "+
				old+" in the input, so that datasets join the overlay for these rows, or give both columns")
		case !m.leavesOut(f):
			m.column(f)
		}
	}
	numbers := fieldNumbers{last: m.target.State.LastColumn, version: m.target.State.Version}
	for i, f := range m.schema.Fields() {
		if len(m.schema.FieldIndices(f.Name)) > 1 {
			m.fail(f.Name, "the input has two columns of this name")
			continue
		}
		if known[f.Name] {
			continue
		}
		if !m.evolve {
			m.faults = append(m.faults, fault.Field{
				Field: "columns", Message: "the table has no column " + strconv.Quote(f.Name), Nearest: fault.Nearest(f.Name, m.target.State.Table.Names()),
			})
			continue
		}
		if refused := newName(f, i, append(m.target.State.Table.Names(), fieldNames(m.schema.Fields())...), paths); refused != "" {
			m.fail(f.Name, refused)
			continue
		}
		if m.partitioned(f.Name) {
			m.fail(f.Name, "a partition field of the table has this name")
			continue
		}
		column, typed, err := numbers.column(f, m.raw.Field(i))
		if err != nil {
			m.fail(f.Name, fault.As(err).Message)
			continue
		}
		m.target.Added = append(m.target.Added, column)
		if column.Type == uuidType {
			m.target.uuids = append(m.target.uuids, column.ID)
		}
		m.target.columns = append(m.target.columns, targetColumn{field: identified(f.Name, typed, column.ID, true), id: column.ID, from: i})
	}
	if len(m.faults) == 0 {
		return nil
	}
	return fault.As(fault.Fields(m.faults)).In(m.target.State.Table.Name, "").
		WithRemedy("cast, rename or leave out these columns; with evolve, columns that the table does not have are added to it")
}

// replacedBy returns the name of the column that a promoted overlay replaced, if the input has values under the name of the
// promoted column alone: most inputs have the same columns as before the promotion. Otherwise it returns "".
func (m *matching) replacedBy(f catalog.Field) (old string) {
	if replaced, ok := m.target.State.Table.ByID(m.target.State.Table.Origins[f.ID].Replaces); ok && m.schema.HasField(f.Name) && !m.schema.HasField(replaced.Name) {
		return replaced.Name
	}
	return ""
}

// leavesOut reports whether the files do not have a column of the table: it was promoted from an entry, and the input has no column
// of that entry. Datasets with the entry join rows of files without its columns; nulls would count as the entry's values.
func (m *matching) leavesOut(f catalog.Field) bool {
	t := m.target.State.Table
	o := t.Origins[f.ID]
	return o.Promotion != "" && !slices.ContainsFunc(t.Fields, func(other catalog.Field) bool {
		of := t.Origins[other.ID]
		return of.Promotion == o.Promotion && of.Entry == o.Entry && (m.schema.HasField(other.Name) || m.arranges(other.ID))
	})
}

// arranges reports whether the table is partitioned or sorted by a column.
func (m *matching) arranges(id int) bool {
	s := m.target.State
	return slices.ContainsFunc(s.Table.Specs[s.Spec], func(f catalog.PartitionField) bool { return f.Source == id }) ||
		slices.ContainsFunc(s.Table.SortOrders[s.SortOrder], func(f catalog.SortField) bool { return f.Source == id })
}

// pandasIndex matches the columns in which pandas and pyarrow store an index without a name.
var pandasIndex = regexp.MustCompile(`^__index_level_\d+__$`)

// newName returns why the name of a new column is refused, or "". others are the names of the other
// columns, and paths has the paths of the preceding columns.
func newName(f arrow.Field, at int, others []string, paths pathsOf) string {
	if f.Name == "" {
		return "column " + strconv.Itoa(at+1) + " of the input has no name"
	}
	if pandasIndex.MatchString(f.Name) {
		return "it is the index of a pandas data frame: write the frame without it, with index=False in to_parquet or preserve_index=False in from_pandas"
	}
	if other := alike(f.Name, others); other != "" {
		return otherCase(other)
	}
	return paths.add(f.Name, f.Type)
}

// alike returns another name that differs from a name only in case, or "".
func alike(name string, others []string) string {
	for _, other := range others {
		if other != name && strings.EqualFold(other, name) {
			return other
		}
	}
	return ""
}

// otherCase returns why a column is refused if its name differs from another name only in case.
func otherCase(other string) string {
	return "its name differs from " + strconv.Quote(other) + " only in case, which Spark and other engines do not tell apart by default"
}

func fieldNames(fields []arrow.Field) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.Name
	}
	return out
}

// partitioned reports whether a partition field of the table has a given name. Other engines refuse
// to load a table if a column has the name of a partition field.
func (m *matching) partitioned(name string) bool {
	for _, spec := range m.target.State.Table.Specs {
		if slices.ContainsFunc(spec, func(p catalog.PartitionField) bool { return p.Name == name }) {
			return true
		}
	}
	return false
}

func (m *matching) fail(column, message string) {
	m.faults = append(m.faults, fault.Field{Field: "columns", Message: "column " + strconv.Quote(column) + ": " + message})
}

// column matches a column of the table.
func (m *matching) column(f catalog.Field) {
	typed := f.Type
	if f.Stored != nil {
		typed = f.Stored
	}
	out := targetColumn{field: identified(f.Name, typed, f.ID, !f.Required), id: f.ID, from: -1}
	at := m.schema.FieldIndices(f.Name)
	if len(at) > 0 {
		out.from = at[0]
	}
	switch {
	case len(at) == 0 && slices.Contains(m.target.State.WriteDefaults, f.ID):
		m.fail(f.Name, "the table gives rows without it a default, which this version does not write, and the input does not have it")
		return
	case len(at) == 0 && f.Required:
		m.fail(f.Name, "the table requires it, and the input does not have it")
		return
	case f.Type.ID() == arrow.NULL && len(at) == 0:
		return // the type is not supported; the files omit the column, so it is null
	case f.Type.ID() == arrow.NULL:
		m.fail(f.Name, "its type in the table is not supported by this version")
		return
	case len(at) == 0:
	case SameShape(m.schema.Field(at[0]).Type, f.Type):
	case widens(m.raw.Field(at[0]).Type, f.Type), readsAsUUIDs(m.raw.Field(at[0]).Type, f):
		out.cast = f.Type
	default:
		m.fail(f.Name, otherType(m.raw.Field(at[0]).Type, f))
		return
	}
	m.target.columns = append(m.target.columns, out)
}

// otherType returns why a column of a type cannot become a column of the table.
func otherType(from arrow.DataType, f catalog.Field) string {
	to := f.Type.String()
	if isUUIDColumn(f) {
		to = uuidType
	}
	return "the input has type " + from.String() + ", the table " + to
}

// widens reports whether to is of the same kind as from and can represent all of its values.
func widens(from, to arrow.DataType) bool {
	return from.ID() == arrow.INT32 && to.ID() == arrow.INT64 || from.ID() == arrow.FLOAT32 && to.ID() == arrow.FLOAT64
}

// SameShape reports whether two types are equal apart from differences that do not affect arrays:
// the names of a list's elements, and which nested fields may be null.
func SameShape(a, b arrow.DataType) bool {
	switch a := a.(type) {
	case *arrow.ListType:
		b, ok := b.(*arrow.ListType)
		return ok && SameShape(a.Elem(), b.Elem())
	case *arrow.MapType:
		b, ok := b.(*arrow.MapType)
		return ok && SameShape(a.KeyType(), b.KeyType()) && SameShape(a.ItemType(), b.ItemType())
	case *arrow.StructType:
		b, ok := b.(*arrow.StructType)
		if !ok || a.NumFields() != b.NumFields() {
			return false
		}
		for i, f := range a.Fields() {
			if f.Name != b.Field(i).Name || !SameShape(f.Type, b.Field(i).Type) {
				return false
			}
		}
		return true
	default:
		return arrow.TypeEqual(a, b)
	}
}
