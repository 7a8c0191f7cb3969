package tensor

import (
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
)

// Compile finds the columns of a plan in a schema, and checks that each of them can be converted as
// planned. The plan must have every column, in the schema's order. Plans that do not fit are invalid.
//
// If the schema has indexed columns, and the plan has none, the layout expands: its plan is for the plain
// batches that result if indexed columns are expanded, and it fills the blocks of these batches. The
// columns may then be in another order, since the plain schema may have one.
func Compile(schema *arrow.Schema, plan Plan) (*Layout, error) {
	l := &Layout{schema: schema}
	found, err := l.locate()
	if err == nil && len(l.entries) > 0 && !slices.ContainsFunc(plan.Columns, func(c Column) bool { return c.Entry != "" }) {
		l.expands = true
		found, err = inPlannedOrder(found, plan.Columns)
	}
	if err != nil {
		return nil, err
	}
	for i, f := range found {
		if i == len(plan.Columns) || plan.Columns[i].Name != f.Name || plan.Columns[i].Entry != f.entryName {
			return nil, misfit("column %s is not the next one in the plan", quoted(f.Name, true))
		}
		c := &column{Column: plan.Columns[i], field: f.field, child: f.child, entry: f.entry, expanded: l.expands && f.entry >= 0, offsets: -1, mask: -1, padding: true}
		if err := c.compile(f.Field, plan.Vocabularies); err != nil {
			return nil, err
		}
		l.columns = append(l.columns, c)
	}
	if len(plan.Columns) > len(found) {
		return nil, misfit("the stream has no column %s", quoted(plan.Columns[len(found)].Name, true))
	}
	packs, err := l.findPacks(plan.Packs)
	if err != nil {
		return nil, err
	}
	l.arrange(packs)
	return l, nil
}

// located is a column of the schema, or a field of an indexed column.
type located struct {
	arrow.Field
	entryName           string // of the indexed column; "" if there is none
	field, child, entry int    // see column
}

// locate returns the columns of the schema in order, with the fields of indexed columns in place of the columns. It
// sets the entries.
func (l *Layout) locate() ([]located, error) {
	var found []located
	for at, f := range l.schema.Fields() {
		rows := indexedRows(f.Type)
		if rows == nil {
			found = append(found, located{Field: f, field: at, entry: -1})
			continue
		}
		if f.Name == "" || rows.NumFields() == 0 {
			return nil, misfit("an indexed column has no name or no columns")
		}
		for child, inside := range rows.Fields() {
			found = append(found, located{inside, f.Name, at, child, len(l.entries)})
		}
		l.entries = append(l.entries, entry{name: f.Name, field: at})
	}
	return found, nil
}

// inPlannedOrder returns the columns that result if all indexed columns are expanded, in the order of a plan.
func inPlannedOrder(found []located, planned []Column) ([]located, error) {
	at := make(map[string]located, len(found))
	for _, f := range found {
		f.entryName = ""
		if _, twice := at[f.Name]; twice {
			return nil, misfit("two columns have the name %s", quoted(f.Name, true))
		}
		at[f.Name] = f
	}
	out := make([]located, 0, len(found))
	for _, c := range planned {
		f, ok := at[c.Name]
		if !ok {
			return nil, misfit("the stream has no column %s", quoted(c.Name, true))
		}
		delete(at, c.Name)
		out = append(out, f)
	}
	for _, f := range found {
		if _, left := at[f.Name]; left {
			return nil, misfit("column %s is not in the plan", quoted(f.Name, true))
		}
	}
	return out, nil
}

// findPacks returns the indexes of the columns of each pack.
func (l *Layout) findPacks(packs []Pack) ([][]int, error) {
	type key struct{ entry, name string }
	at := make(map[key]int, len(l.columns))
	for i, c := range l.columns {
		k := key{c.Entry, c.Name}
		if _, found := at[k]; found {
			return nil, misfit("two columns have the name %s", quoted(c.Name, true))
		}
		at[k] = i
	}
	var out [][]int
	for _, pack := range packs {
		if len(pack.Columns) == 0 {
			return nil, misfit("a pack has no columns")
		}
		var columns []int
		for _, name := range pack.Columns {
			i, found := at[key{pack.Entry, name}]
			if !found {
				return nil, misfit("there is no column %s to be packed", quoted(name, true))
			}
			c := l.columns[i]
			if !c.padding || c.Form.jagged() || len(columns) > 0 && c.DType != l.columns[columns[0]].DType {
				return nil, misfit("column %s cannot be in a pack, is already packed, or has another dtype", quoted(name, true))
			}
			c.padding = false
			columns = append(columns, i)
		}
		out = append(out, columns)
	}
	return out, nil
}

// indexedRows returns the struct of an indexed column, nil for other columns.
func indexedRows(t arrow.DataType) *arrow.StructType {
	d, ok := t.(*arrow.DictionaryType)
	if !ok || d.IndexType.ID() != arrow.INT32 {
		return nil
	}
	rows, _ := d.ValueType.(*arrow.StructType)
	return rows
}

// compile checks a column against its field.
func (c *column) compile(f arrow.Field, vocabularies []*Vocabulary) error {
	name := quoted(f.Name, true)
	element, form := elementOf(f.Type)
	if form != c.Form {
		return misfit("column %s of type %s does not have the planned form", name, f.Type)
	}
	if list, ok := f.Type.(*arrow.FixedSizeListType); ok && int(list.Len()) != c.Width || !ok && c.Width != 0 {
		return misfit("column %s of type %s does not have the width %d", name, f.Type, c.Width)
	}
	leaf, dictionary := leafOf(element)
	c.leaf, c.source = leaf, c.Source.known()
	if c.source == nil || c.source.id != leaf.ID() || dictionary != c.Dictionary {
		return misfit("column %s has the type %s, not %s", name, f.Type, c.Source)
	}
	if d, ok := leaf.(arrow.DecimalType); ok {
		c.scale = int(d.GetScale())
		if c.Conversion == Unscaled && d.GetPrecision() > 18 {
			return misfit("column %s of type %s may not fit into an int64", name, leaf)
		}
	}
	c.result = c.Conversion.result(c.source)
	if c.result == 0 || c.DType != c.result && !castable(c.result, c.DType) {
		return misfit("column %s of type %s cannot become %s", name, f.Type, dtypeText(c.DType))
	}
	if err := c.compileCodes(name, vocabularies); err != nil {
		return err
	}
	return c.compileNulls(name)
}

func (c *column) compileCodes(name string, vocabularies []*Vocabulary) error {
	if (c.Conversion == Hash) != (c.Buckets != 0) || c.Buckets < 0 || c.Buckets > math.MaxInt32 {
		return misfit("column %s has %d buckets", name, c.Buckets)
	}
	if c.Conversion != Lookup {
		return nil
	}
	if c.Vocabulary < 0 || c.Vocabulary >= len(vocabularies) {
		return misfit("column %s has no vocabulary", name)
	}
	c.vocabulary = vocabularies[c.Vocabulary]
	if (c.vocabulary.texts != nil) != (c.source.kind == texts) {
		return misfit("the vocabulary of column %s has values of another type", name)
	}
	return nil
}

// compileNulls checks that there is a rule for each kind of null, and a fill for each rule that needs one.
func (c *column) compileNulls(name string) error {
	ofRows := c.Nulls == Corrupt || c.Nulls == Refused || (c.Nulls == Empty) == c.Form.jagged() && (c.Nulls == Filled || c.Nulls == Empty)
	ofElements := c.ElementNulls == Corrupt || c.ElementNulls == Refused || c.ElementNulls == Filled
	if c.Form == Values {
		ofElements = c.ElementNulls == 0
	}
	if !ofRows || !ofElements {
		return misfit("column %s has a rule for nulls that its form does not support", name)
	}
	if c.Nulls == Filled && len(c.Fill) != c.DType.Size() || c.ElementNulls == Filled && len(c.ElementFill) != c.DType.Size() {
		return misfit("column %s has a fill that is not one element", name)
	}
	return nil
}

// elementOf returns the type of the values of a column, or of the elements of its lists, and its form.
func elementOf(t arrow.DataType) (arrow.DataType, Form) {
	switch t := t.(type) {
	case *arrow.ListType:
		return t.Elem(), Lists
	case *arrow.LargeListType:
		return t.Elem(), LargeLists
	case *arrow.FixedSizeListType:
		return t.Elem(), FixedLists
	default:
		return t, Values
	}
}

// leafOf returns the type of the values below extension types and at most one dictionary, and whether
// there is a dictionary.
func leafOf(t arrow.DataType) (arrow.DataType, bool) {
	t = storageOf(t)
	if d, ok := t.(*arrow.DictionaryType); ok {
		return storageOf(d.ValueType), true
	}
	return t, false
}

// storageOf returns the type that extension types store.
func storageOf(t arrow.DataType) arrow.DataType {
	for {
		e, ok := t.(arrow.ExtensionType)
		if !ok {
			return t
		}
		t = e.StorageType()
	}
}

func dtypeText(d DType) string {
	if d == 0 {
		return "a tensor of no dtype"
	}
	return d.String()
}

func misfit(format string, args ...any) error {
	return fault.New(fault.Invalid, "a tensor plan does not fit the stream: "+format, args...).
		WithRemedy("make the plan from the schema of the stream")
}
