package dataset

// Dense selects a column that packs several numeric columns into rows of float32
// (docs/spec/wire.md).
type Dense struct {
	Name    string
	Columns []Column // output names of the dataset, shaped but not renamed; at least one
	Fill    *float32 // replaces nulls; nil: a null is an error
}

// Selection is the selection of columns in a stream.
type Selection struct {
	Columns []Column // nil: all columns that Dense does not pack
	Dense   []Dense
}

// Selection returns the columns that the reading selects.
func (r Reading) Selection() Selection { return Selection{Columns: r.Columns, Dense: r.Dense} }

// denseForm is the JSON form of dense columns: an object from their names, in the order
// of the columns.
type denseForm []Dense

// MarshalJSON keeps the order, which a map would lose, and writes columns without a fill
// in the short form.
func (f denseForm) MarshalJSON() ([]byte, error) {
	o := newObject()
	for _, one := range f {
		var value any = one.Columns
		if one.Fill != nil {
			value = struct {
				Columns []Column `json:"columns"`
				Fill    float32  `json:"fill"`
			}{one.Columns, *one.Fill}
		}
		o.put(one.Name, value)
	}
	return o.bytes(), nil
}
