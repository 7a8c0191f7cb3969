package tablediff

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/extsort"
	"github.com/penstock/penstock/loader/plan"
)

// KeyChanges compares the keys of the rows of the files that differ. Rows of files that both snapshots
// have count as rows before and as rows after. A key with nulls is compared
// like any other key. Added, Gone, Changed, Same and Repeated count each key once.
type KeyChanges struct {
	Columns []string `json:"columns"`
	// RowsBefore and RowsAfter count the rows of the files that differ, without deleted rows.
	RowsBefore int64 `json:"rows_before"`
	RowsAfter  int64 `json:"rows_after"`
	Added      int64 `json:"added"`   // keys that only rows after have
	Gone       int64 `json:"gone"`    // keys that only rows before have
	Changed    int64 `json:"changed"` // keys with one row before and one after, with different values
	Same       int64 `json:"same"`    // keys with one row before and one after, with equal values
	// Repeated counts keys that both rows before and rows after have, and that have several rows on
	// at least one side. It is not known which of these rows belong together, so their values are
	// not compared.
	Repeated int64 `json:"repeated"`
	// ByColumn has the columns with different values, in the order of the schema.
	ByColumn []ColumnCount `json:"by_column"`
	// NotCompared are columns whose types cannot be compared.
	NotCompared []string `json:"not_compared,omitempty"`
	// AddedKeys, GoneKeys and ChangedKeys are the first few keys, in the order of the key.
	AddedKeys   []string     `json:"added_keys"`
	GoneKeys    []string     `json:"gone_keys"`
	ChangedKeys []ChangedKey `json:"changed_keys"`
}

// ColumnCount is the number of Changed keys with different values in a column.
type ColumnCount struct {
	Column string `json:"column"`
	Keys   int64  `json:"keys"`
}

// ChangedKey is a key and the columns with different values.
type ChangedKey struct {
	Key     string   `json:"key"`
	Columns []string `json:"columns"`
}

// The number of keys of each kind that a result shows, and the maximum number of characters of each.
const (
	shownKeys   = 3
	maxShownKey = 60
)

// The memory for sorting is a share of a call's budget, up to a limit.
const (
	sortShare     = 4 // the reciprocal of the share
	maxSortMemory = 256 << 20
)

// compareRows reads the rows of the files that differ, and compares their keys. columns has the ids
// of the columns to read.
func (c *comparing) compareRows(ctx context.Context, of differing, columns []int) error {
	out := &KeyChanges{
		Columns: fieldNames(c.key), ByColumn: []ColumnCount{}, NotCompared: c.notCompared,
		AddedKeys: []string{}, GoneKeys: []string{}, ChangedKeys: []ChangedKey{},
	}
	sorter, err := c.newSorter()
	if err != nil {
		return err
	}
	defer sorter.Release()
	reading := rowReading{comparing: c, to: sorter, columns: columns}
	both := c.mayShareKeys(of)
	for _, f := range slices.Concat(of.before, of.after, both) {
		reading.all += f.Rows
	}
	if out.RowsBefore, err = reading.side(ctx, c.before, of.before, sideBefore); err != nil {
		return err
	}
	if out.RowsAfter, err = reading.side(ctx, c.after, of.after, sideAfter); err != nil {
		return err
	}
	if _, err = reading.side(ctx, c.after, both, sideBoth); err != nil {
		return err
	}
	sorted, err := sorter.Finish(ctx)
	if err != nil {
		return err
	}
	defer sorted.Release()
	if err := c.compareKeys(ctx, sorted, out); err != nil {
		return err
	}
	c.result.Keys = out
	return nil
}

// The values of the side column, which distinguishes rows before from rows after. Rows of files that
// both snapshots have are on both sides.
const (
	sideBefore = iota
	sideAfter
	sides

	sideBoth = sides
)

// rowSchema returns the schema of the rows to sort: the columns of the key, the side, and the values.
func (c *comparing) rowSchema() *arrow.Schema {
	side := arrow.Field{Name: "side", Type: arrow.PrimitiveTypes.Int32}
	fields := make([]arrow.Field, 0, len(c.key)+1+len(c.values))
	for _, f := range c.key {
		fields = append(fields, f.Arrow())
	}
	fields = append(fields, side)
	for _, f := range c.values {
		fields = append(fields, f.Arrow())
	}
	for i := range fields { // names are not needed, and the side's name could be that of a column
		fields[i].Name, fields[i].Nullable = strconv.Itoa(i), true
	}
	return arrow.NewSchema(fields, nil)
}

// newSorter returns a sorter of rows by key and side.
func (c *comparing) newSorter() (*extsort.Sorter, error) {
	rows := c.Rows
	o := extsort.Options{Budget: rows.Budget, Memory: rows.Memory, Disk: rows.Disk, Threads: rows.Threads, WorkingMemory: maxSortMemory}
	if limit := rows.Budget.Limit(); limit > 0 {
		o.WorkingMemory = min(limit/int64(rows.Calls)/sortShare, maxSortMemory)
	}
	var layout extsort.Layout
	for i := range len(c.key) + 1 {
		layout.Sort = append(layout.Sort, extsort.SortColumn{Column: i})
	}
	return extsort.New(c.rowSchema(), layout, o)
}

// rowReading reads the rows of the files that differ.
type rowReading struct {
	*comparing
	to        *extsort.Sorter
	columns   []int
	read, all int64 // rows
}

// side adds the rows of the files of one side to the sorter, and returns their number. Of files that
// both snapshots have, it reads only the key.
func (r *rowReading) side(ctx context.Context, t *catalog.Table, files []catalog.File, side int32) (int64, error) {
	if len(files) == 0 {
		return 0, nil
	}
	source := plan.Source{Table: t, Planned: r.columns}
	for _, f := range files {
		source.Files = append(source.Files, plan.FileRange{File: f, To: f.Rows})
	}
	read := r.key
	if side != sideBoth {
		read = slices.Concat(r.key, r.values)
	}
	rows, err := r.Read(ctx, source, read)
	if err != nil {
		return 0, err
	}
	defer rows.Release()
	n := int64(0)
	for rows.Next() {
		b := rows.RecordBatch()
		if err := r.add(ctx, b, side); err != nil {
			return 0, err
		}
		n, r.read = n+b.NumRows(), r.read+b.NumRows()
		if r.request.Progress != nil {
			r.request.Progress(r.read, r.all)
		}
	}
	return n, rows.Err()
}

// add adds the rows of a batch.
func (r *rowReading) add(ctx context.Context, b arrow.RecordBatch, side int32) error {
	held, err := r.Rows.Budget.ReserveFor(ctx, "rows to compare", 0)
	if err != nil {
		return err
	}
	defer held.Release()
	schema, bytes := r.rowSchema(), b.NumRows()*int64(arrow.Int32SizeBytes)
	missing := schema.Fields()[min(int(b.NumCols())+1, schema.NumFields()):]
	for _, f := range missing {
		bytes += nullBytes(f.Type, b.NumRows())
	}
	if err := held.GrowWait(ctx, bytes); err != nil {
		return err
	}
	numbers := array.NewInt32Builder(memory.DefaultAllocator)
	defer numbers.Release()
	numbers.Reserve(int(b.NumRows()))
	for range b.NumRows() {
		numbers.UnsafeAppend(side)
	}
	column := numbers.NewArray()
	defer column.Release()
	columns := slices.Insert(slices.Clone(b.Columns()), len(r.key), column)
	for _, f := range missing {
		empty := batch.Nulls(f.Type, int(b.NumRows()), memory.DefaultAllocator)
		defer empty.Release()
		columns = append(columns, empty)
	}
	rows := array.NewRecordBatch(schema, columns, b.NumRows())
	defer rows.Release()
	return r.to.Add(ctx, rows)
}

// fieldNames returns the names of columns.
func fieldNames(fields []catalog.Field) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.Name
	}
	return out
}

// keyText formats the key of a row for people.
func keyText(b arrow.RecordBatch, columns, row int) string {
	var values []string
	for i := range columns {
		values = append(values, b.Column(i).ValueStr(row))
	}
	return strings.Clone(fault.Shorten(strings.Join(values, ", "), maxShownKey)) // the values point into the batch
}
