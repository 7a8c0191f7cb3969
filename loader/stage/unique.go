package stage

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/conform"
	"github.com/penstock/penstock/internal/sortkey"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/extsort"
)

// The memory for sorting keys is a share of a call's budget, up to a limit.
const (
	keyMemoryShare = 16 // the reciprocal of the share
	maxKeyMemory   = 64 << 20
)

// keyCheck finds rows with equal values in some columns. It sorts these columns separately, which
// makes equal keys adjacent.
type keyCheck struct {
	uniqueColumns
	call   *staging
	schema *arrow.Schema // schema of the columns and, if aligned, of the partition's number
	sorter *extsort.Sorter
	sorted *extsort.Sorted // set by finish
	bounds keyBounds       // set by finish
	parts  partitionNumbers
	seen   map[string]bool // locations of files of the table whose keys were compared
	// allowed are the repeated keys that were found, if the call allows them; nil: none was found.
	allowed *repeatedKeys
}

// partitionNumbers numbers partitions by the values of their coarse fields.
type partitionNumbers struct {
	byText   map[string]int32
	byNumber map[int32]int32 // by the partition's number in the sort, which differs for each bucket
}

// partitionColumn is the name of the column that has the number of a row's partition.
const partitionColumn = "partition"

// conformed returns the schema of the sorted rows.
func conformed(t *datafile.Target) (*arrow.Schema, error) {
	c, err := conform.New(t.Fitted)
	if err != nil {
		return nil, err
	}
	return c.Schema(), nil
}

// newKeyChecks makes the checks of a call. The caller releases them.
func (c *staging) newKeyChecks() ([]*keyCheck, error) {
	var out []*keyCheck
	for _, u := range c.unique() {
		k := &keyCheck{uniqueColumns: u, call: c, seen: map[string]bool{}, parts: partitionNumbers{map[string]int32{}, map[int32]int32{}}}
		schema, err := conformed(c.target)
		if err == nil {
			k.schema = k.columnsOf(schema)
			k.sorter, err = k.newSorter(nil)
		}
		if err != nil {
			releaseChecks(out)
			return nil, err
		}
		out = append(out, k)
	}
	return out, nil
}

func releaseChecks(checks []*keyCheck) {
	for _, k := range checks {
		k.sorter.Release()
		if k.sorted != nil {
			k.sorted.Release()
		}
	}
}

// columnsOf returns the schema of the columns to sort, given the schema of the rows.
func (k *keyCheck) columnsOf(rows *arrow.Schema) *arrow.Schema {
	var fields []arrow.Field
	for _, at := range k.columns {
		fields = append(fields, rows.Field(at))
	}
	if k.aligned {
		fields = append(fields, arrow.Field{Name: partitionColumn, Type: arrow.PrimitiveTypes.Int32})
	}
	return arrow.NewSchema(fields, nil)
}

// newSorter returns a sorter of keys. If set is not nil, keys outside it are dropped.
func (k *keyCheck) newSorter(set extsort.KeySet) (*extsort.Sorter, error) {
	rows := k.call.options.Rows
	o := extsort.Options{Budget: rows.Budget, Memory: rows.Memory, Disk: rows.Disk, WorkingMemory: maxKeyMemory, Keys: set}
	if limit := rows.Budget.Limit(); limit > 0 {
		o.WorkingMemory = min(limit/int64(rows.Calls)/keyMemoryShare, maxKeyMemory)
	}
	var layout extsort.Layout
	for i := range k.schema.NumFields() {
		if i < len(k.columns) {
			layout.Key = append(layout.Key, i)
		}
		layout.Sort = append(layout.Sort, extsort.SortColumn{Column: i})
	}
	return extsort.New(k.schema, layout, o)
}

// add adds the keys of rows.
func (k *keyCheck) add(ctx context.Context, rows extsort.AddedRows) error {
	columns := make([]arrow.Array, 0, k.schema.NumFields())
	for _, at := range k.columns {
		columns = append(columns, rows.Columns[at])
	}
	if k.aligned {
		numbers := k.numbers(rows)
		defer numbers.Release()
		columns = append(columns, numbers)
	}
	b := array.NewRecordBatch(k.schema, columns, int64(len(rows.Partitions)))
	defer b.Release()
	return k.sorter.Add(ctx, b)
}

// numbers returns the partition number of each row.
func (k *keyCheck) numbers(rows extsort.AddedRows) arrow.Array {
	state := k.call.target.State
	spec := state.Table.Specs[state.Spec]
	b := array.NewInt32Builder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(len(rows.Partitions))
	for _, p := range rows.Partitions {
		number, known := k.parts.byNumber[p]
		if !known {
			number = k.parts.number(coarseValues(spec, spec, rows.Values(p)))
			k.parts.byNumber[p] = number
		}
		b.Append(number)
	}
	return b.NewArray()
}

func (p partitionNumbers) number(text string) int32 {
	number, known := p.byText[text]
	if !known {
		number = int32(len(p.byText))
		p.byText[text] = number
	}
	return number
}

// finish sorts the added keys. It fails if several rows have the same key and the call does not allow this.
func (k *keyCheck) finish(ctx context.Context) (err error) {
	if k.sorted, err = k.sorter.Finish(ctx); err != nil {
		return err
	}
	found := &repeatedKeys{check: k}
	keys, err := k.open(ctx, k.sorted)
	if err != nil {
		return err
	}
	defer keys.release()
	var last, key []byte
	counted := false
	for ok, err := keys.next(ctx); ok || err != nil; ok, err = keys.next(ctx) {
		if err != nil {
			return err
		}
		key = keys.at.Append(key[:0], keys.row)
		if last == nil || string(last) != string(key) {
			last, key, counted = key, last, false
			k.bounds.add(keys)
			continue
		}
		if !counted {
			found.add(keys)
			counted = true
		}
	}
	return found.err()
}

// keyCursor iterates over sorted keys, and skips keys with a null. The caller releases it.
type keyCursor struct {
	check *keyCheck
	rows  *extsort.PartitionReader // nil: there are no rows
	spec  *sortkey.KeySpec
	batch arrow.RecordBatch
	at    *sortkey.RowKeys
	held  *budget.Reservation // reserved for at
	row   int
}

// open returns a cursor before the first key.
func (k *keyCheck) open(ctx context.Context, sorted *extsort.Sorted) (*keyCursor, error) {
	c := &keyCursor{check: k}
	var err error
	if c.spec, err = sortkey.NewKeySpec(k.schema.Fields(), make([]sortkey.ColumnOrder, k.schema.NumFields())); err != nil {
		return nil, err
	}
	if len(sorted.Partitions()) == 0 {
		return c, nil
	}
	if c.held, err = k.call.options.Rows.Budget.ReserveFor(ctx, "the keys of the rows to write", 0); err != nil {
		return nil, err
	}
	if c.rows, err = sorted.Open(ctx, 0); err != nil {
		c.held.Release()
		return nil, err
	}
	return c, nil
}

// next moves to the next key. It returns false at the end.
func (c *keyCursor) next(ctx context.Context) (bool, error) {
	for c.rows != nil {
		if c.row++; c.batch == nil || c.row >= int(c.batch.NumRows()) {
			if ok, err := c.nextBatch(ctx); !ok {
				return false, err
			}
		}
		if !slices.ContainsFunc(c.batch.Columns(), func(a arrow.Array) bool { return a.IsNull(c.row) }) {
			return true, nil
		}
	}
	return false, nil
}

// nextBatch moves to the first row of the next batch. It returns false at the end.
func (c *keyCursor) nextBatch(ctx context.Context) (bool, error) {
	c.at = nil
	if !c.rows.Next() {
		return false, c.rows.Err()
	}
	c.batch, c.row = c.rows.RecordBatch(), 0
	if more := c.batch.NumRows()*c.spec.RowBytes() - c.held.Held(); more > 0 {
		if err := c.held.GrowWait(ctx, more); err != nil {
			return false, err
		}
	}
	var err error
	c.at, err = c.spec.Keys(c.batch.Columns())
	return err == nil, err
}

func (c *keyCursor) release() {
	if c.rows != nil {
		c.rows.Release()
		c.held.Release()
	}
}
