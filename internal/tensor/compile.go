package tensor

import (
	"math"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
)

// Compile finds the columns of a plan in a schema, and checks that each of them can be converted as
// planned. The plan must have every column, in the schema's order. Plans that do not fit are invalid.
func Compile(schema *arrow.Schema, plan Plan) (*Layout, error) {
	l := &Layout{schema: schema}
	rest := plan.Columns
	take := func(f arrow.Field, entryName string) (*column, error) {
		if len(rest) == 0 || rest[0].Name != f.Name || rest[0].Entry != entryName {
			return nil, misfit("column %s is not the next one in the plan", quoted(f.Name, true))
		}
		c := &column{Column: rest[0], entry: -1, offsets: -1, mask: -1, padding: true}
		rest = rest[1:]
		return c, c.compile(f, plan.Vocabularies)
	}
	for at, f := range schema.Fields() {
		rows := indexedRows(f.Type)
		if rows == nil {
			c, err := take(f, "")
			if err != nil {
				return nil, err
			}
			c.field = at
			l.columns = append(l.columns, c)
			continue
		}
		if f.Name == "" || rows.NumFields() == 0 {
			return nil, misfit("an indexed column has no name or no columns")
		}
		l.entries = append(l.entries, entry{name: f.Name, field: at})
		for child, f := range rows.Fields() {
			c, err := take(f, schema.Field(at).Name)
			if err != nil {
				return nil, err
			}
			c.field, c.child, c.entry = at, child, len(l.entries)-1
			l.columns = append(l.columns, c)
		}
	}
	if len(rest) > 0 {
		return nil, misfit("the stream has no column %s", quoted(rest[0].Name, true))
	}
	packs, err := l.findPacks(plan.Packs)
	if err != nil {
		return nil, err
	}
	l.arrange(packs)
	return l, nil
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
