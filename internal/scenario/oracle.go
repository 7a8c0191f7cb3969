package scenario

import (
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/scenario/cell"
	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/dataset"
)

// Expectation is the expected result of a read of a whole case.
type Expectation struct {
	Columns []string
	Types   []arrow.DataType         // types of the columns
	Request []bool                   // which columns are constant within a request
	Own     int                      // number of columns that are the training table's
	Rows    [][]any                  // joined rows, in the order of the training rows in their files
	Fails   string                   // why the read must fail; "" if it must succeed
	Unbound string                   // why the read must fail during planning (Fails is then set, too); "" otherwise
	Counts  map[string]joiner.Counts // by staging entry, as in a report
	Unread  []string                 // staging entries that a stream must not read, in their order
	Seen    Coverage

	// dropped compares the rows if some may be left over. It is nil if no rows may be left over.
	dropped func(want, got []string, shards []Shard) Difference
}

// cells has the values of a row by the names of its columns.
type cells map[string]any

// fileRow is a row and its file.
type fileRow struct {
	cells
	file *stored
}

// oracle joins with nested loops, following the text of the rules. It shares no code with
// the product.
type oracle struct {
	*Case
	training []fileRow
	staging  [][]fileRow
	files    [][]stored                  // per staging entry
	names    []string                    // names of the training columns
	types    map[string]arrow.DataType   // types of the training columns
	offered  map[string]arrow.DataType   // of all columns that a query may select
	before   []*cell.Filter              // conditions of the query's filter on stored training columns only
	after    []*cell.Filter              // the other conditions of the query's filter
	where    *cell.Filter                // condition of the sample
	headers  [][]string                  // column names of each staging table
	stored   []map[string]arrow.DataType // column types of each staging table
	spans    map[*stored]map[string]*span
	computed map[string]formula // by column
	Expectation
}

// newOracle makes an oracle without rows, for the columns of a case.
func newOracle(c *Case) *oracle {
	o := &oracle{
		Case: c, names: namesOf(c.Training.Header), types: typesOf(c.Training.Header), spans: map[*stored]map[string]*span{},
		Expectation: Expectation{Seen: Coverage{}, Counts: map[string]joiner.Counts{}},
	}
	for _, t := range c.Staging {
		o.headers, o.stored = append(o.headers, namesOf(t.Header)), append(o.stored, typesOf(t.Header))
	}
	o.offered = o.offers()
	o.divide()
	return o
}

// Expect joins a case with nested loops and returns the rows of the whole read. The joined rows of
// each training row are in the order that the read must have.
func (c *Case) Expect(w *World) Expectation {
	o := newOracle(c)
	o.training = w.rowsOf(c.Training)
	for i, t := range c.Staging {
		o.headers[i] = w.byID(t.Name, o.headers[i])
		filter, types := o.filter(c.Dataset.Staging[i].Filter), typesOf(t.Header)
		rows := slices.DeleteFunc(w.rowsOf(t), func(row fileRow) bool {
			return !o.noted("a staging filter", filter.Passes(cell.Row{Cells: row.cells, Types: types}))
		})
		if c.Dataset.Staging[i].Duplicates == rule.DuplicatesAll {
			slices.SortStableFunc(rows, bySequence)
		}
		o.staging = append(o.staging, rows)
		o.files = append(o.files, w.stored[t.Name])
	}
	for i, entry := range c.Dataset.Staging {
		if !o.used(i) && !mayDecide(entry) {
			o.Unread = append(o.Unread, entry.Name)
		}
	}
	outputs := o.results()
	for _, out := range outputs {
		o.describe(out)
		if out.dense != nil && o.tableOf(*out.dense) == 0 || out.dense == nil && slices.Contains(o.inputs()[0], out.Column.Column) {
			o.Own++
		}
	}
	for _, row := range o.survivors() {
		for _, joined := range o.joined(row) {
			if !o.noted("a filter after the joins", passAll(o.after, cell.Row{Cells: joined, Types: o.offered})) {
				continue
			}
			values := make([]any, len(outputs))
			for i, out := range outputs {
				values[i] = o.valueOf(out, joined)
			}
			o.Rows = append(o.Rows, values)
		}
	}
	return o.Expectation
}

// rowsOf returns the rows of a table in the order of its files.
func (w *World) rowsOf(t Table) []fileRow {
	names := namesOf(t.Header)
	var rows []fileRow
	for i := range w.stored[t.Name] {
		file := &w.stored[t.Name][i]
		for _, values := range file.rows {
			row := fileRow{cells: cells{}, file: file}
			for k, name := range names {
				row.cells[name] = values[k]
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// noted returns passes. If it is false, noted counts a dropped row.
func (o *oracle) noted(by string, passes bool) bool {
	if !passes {
		o.Seen["dropped by "+by]++
	}
	return passes
}

// namesOf returns the column names of a header.
func namesOf(header string) []string {
	var names []string
	for column := range strings.FieldsSeq(header) {
		name, _, _ := strings.Cut(column, ":")
		names = append(names, name)
	}
	return names
}

// typesOf returns the column types of a header.
func typesOf(header string) map[string]arrow.DataType {
	fields, _ := Fields(header) // cannot fail: the tables were made from this header
	types := map[string]arrow.DataType{}
	for _, f := range fields {
		types[f.Name] = f.Type
	}
	return types
}

// survivors returns the training rows that reach the joins.
func (o *oracle) survivors() []fileRow {
	var rows []fileRow
	filter := o.filter(o.Dataset.Training.Filter)
	for _, row := range o.training {
		known := cell.Row{Cells: row.cells, Types: o.types}
		if o.noted("the training filter", filter.Passes(known)) && o.noted("a filter before the joins", passAll(o.before, known)) && o.sampled(known) {
			rows = append(rows, row)
		}
	}
	return o.distinct(rows)
}

// joined returns the joined rows of a training row: none, one, or with `duplicates: all`
// the product of the matches of all entries, with those of the first entry outermost.
func (o *oracle) joined(row fileRow) []cells {
	results, dropped := []cells{row.cells}, false
	for i, entry := range o.Dataset.Staging {
		found := o.matches(i, row)
		o.count(i, row, found)
		switch entry.Join {
		case rule.Inner, rule.Semi:
			dropped = dropped || len(found) == 0
		case rule.Anti:
			dropped = dropped || len(found) > 0
		case rule.Left, rule.Overlay:
		}
		if entry.Join == rule.Semi || entry.Join == rule.Anti {
			continue
		}
		var next []cells
		for _, result := range results {
			for _, match := range o.chosen(entry, found) {
				next = append(next, o.with(i, result, match))
			}
		}
		results = next
	}
	if dropped {
		o.Seen["dropped by a join"]++
		return nil
	}
	if len(results) > 1 {
		o.Seen["multiplied"]++
	}
	return results
}

// count updates the counts of an entry and detects errors.
func (o *oracle) count(i int, row fileRow, found []cells) {
	entry := o.Dataset.Staging[i]
	c := o.Counts[entry.Name]
	defer func() { o.Counts[entry.Name] = c }()
	c.Rows++
	filtering := entry.Join == rule.Semi || entry.Join == rule.Anti
	if slices.ContainsFunc(entry.Key, func(k dataset.KeyPair) bool { return row.cells[k.Training] == nil }) {
		c.NullKeys++
		o.Seen["null key"]++
	}
	if len(found) == 0 {
		c.Missing++
		o.Seen["missing "+entry.Missing.String()+" "+entry.Join.String()]++
		if slices.ContainsFunc(entry.Defaults, func(d dataset.Default) bool { return o.reads(d.Column) }) {
			c.Defaulted++
		}
		if entry.Missing == rule.MissingError && !filtering {
			o.Fails = "a key is missing in " + entry.Name
		}
		return
	}
	c.Matched++
	o.Seen["matched "+entry.Join.String()]++
	if len(found) > 1 {
		c.Duplicates++
		o.Seen["duplicates "+entry.Duplicates.String()]++
		switch {
		case filtering:
		case entry.Duplicates == rule.DuplicatesError && !o.used(i):
			o.Seen["duplicates of which no value is asked for"]++
		case entry.Duplicates == rule.DuplicatesError:
			o.Fails = "a key is duplicate in " + entry.Name
		case entry.Duplicates != rule.DuplicatesAll:
			c.Resolved++
		}
	}
}

// reads reports whether the query selects a column, or filters by it after the joins.
func (o *oracle) reads(name string) bool {
	of := func(c dataset.Column) bool { return slices.Contains(o.leaves(c.Column), name) }
	return o.Query.Columns == nil || slices.ContainsFunc(o.packed(), of) || slices.ContainsFunc(o.after, func(t *cell.Filter) bool { return slices.Contains(t.Columns(), name) }) ||
		slices.ContainsFunc(o.Query.Columns, of)
}

// used reports whether the query selects, or filters by, a column that an entry adds or overlays,
// or the entry's matched_as column.
func (o *oracle) used(i int) bool {
	matched := o.Dataset.Staging[i].MatchedAs
	return matched != "" && o.reads(matched) ||
		slices.ContainsFunc(o.shown(i), func(c dataset.Column) bool { return o.reads(c.Output()) })
}

// mayDecide reports whether an entry may drop or repeat rows, or fail because keys are missing.
func mayDecide(entry dataset.Staging) bool {
	return entry.Join != rule.Left && entry.Join != rule.Overlay || entry.Missing == rule.MissingError ||
		entry.Duplicates == rule.DuplicatesAll || entry.MinMatch > 0
}

// chosen returns the staging rows that are joined to a training row. If there is no match, it
// returns a nil row.
func (o *oracle) chosen(entry dataset.Staging, found []cells) []cells {
	switch {
	case len(found) == 0:
		return []cells{nil}
	case entry.Duplicates == rule.DuplicatesAll:
		return found
	case entry.Duplicates == rule.DuplicatesLast:
		return found[len(found)-1:]
	default:
		return found[:1]
	}
}

// with returns a row with the columns of an entry added or overlaid.
func (o *oracle) with(i int, row, match cells) cells {
	entry := o.Dataset.Staging[i]
	result := maps.Clone(row)
	for _, column := range o.shown(i) {
		name := column.Output()
		v := shaped(o.stored[i][column.Column], match[column.Column], column)
		switch {
		case slices.Contains(o.names, name) && (match == nil || v == nil && entry.Nulls == rule.NullsKeep):
			o.Seen["overlay keeps"]++
		case slices.Contains(o.names, name):
			o.Seen["overlay replaces"]++
			result[name] = v
		case match == nil:
			result[name] = defaultOf(entry, name, o.offered[name])
		default:
			result[name] = v
		}
	}
	if entry.MatchedAs != "" {
		result[entry.MatchedAs] = match != nil
	}
	return result
}

// defaultOf returns the value of a column for rows without a match.
func defaultOf(entry dataset.Staging, name string, dt arrow.DataType) any {
	for _, d := range entry.Defaults {
		if n, whole := d.Value.(int64); whole && d.Column == name {
			return castValue(plainTypes["long"], n, dt)
		}
		if d.Column == name {
			return d.Value
		}
	}
	return nil
}

// shown returns the columns that an entry adds or overlays, with their output names.
func (o *oracle) shown(i int) []dataset.Column {
	entry := o.Dataset.Staging[i]
	if entry.Join == rule.Semi || entry.Join == rule.Anti {
		return nil
	}
	var columns []dataset.Column
	for _, name := range o.headers[i] {
		if !slices.ContainsFunc(entry.Key, func(k dataset.KeyPair) bool { return k.Staging == name }) {
			columns = append(columns, dataset.Column{Column: name})
		}
	}
	if entry.Columns != nil {
		columns = slices.Clone(entry.Columns)
	}
	for k := range columns {
		if columns[k].Name == "" {
			columns[k].Name = entry.Prefix + columns[k].Column
		}
	}
	return columns
}

// inputs returns the columns that a query may select: the training table's, then those
// that each entry adds.
func (o *oracle) inputs() [][]string {
	inputs := [][]string{o.names}
	for i, entry := range o.Dataset.Staging {
		var names []string
		for _, column := range o.shown(i) {
			if !slices.Contains(o.names, column.Output()) {
				names = append(names, column.Output())
			}
		}
		if entry.MatchedAs != "" {
			names = append(names, entry.MatchedAs)
		}
		inputs = append(inputs, names)
	}
	return o.withComputed(inputs)
}

// offers returns the types of the columns that a query may select.
func (o *oracle) offers() map[string]arrow.DataType {
	types := maps.Clone(o.types)
	for i, entry := range o.Dataset.Staging {
		for _, column := range o.shown(i) {
			types[column.Output()] = shapedType(o.stored[i][column.Column], column)
		}
		if entry.MatchedAs != "" {
			types[entry.MatchedAs] = arrow.FixedWidthTypes.Boolean
		}
	}
	o.offerComputed(types)
	return types
}
