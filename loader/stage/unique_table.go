package stage

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/expr"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/sortkey"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/extsort"
	"github.com/penstock/penstock/loader/keyset"
	"github.com/penstock/penstock/loader/plan"
)

// setShare is the reciprocal of the share of a call's budget for the set of new keys.
const setShare = 8

// compareWithTable fails if files of the table, other than the removed ones, have keys of the new
// rows, and the call does not allow this. It reads the key columns of the files that may have such keys according to their partitions
// and the bounds of the first column. Files that were compared before are not read again.
func (c *staging) compareWithTable(ctx context.Context, state *commit.TableState, removed []string, parts []extsort.Partition) error {
	if c.creates != nil || !state.Table.HasSnapshot() || len(parts) == 0 {
		return nil
	}
	for _, k := range c.checks {
		if k.allowed != nil {
			continue // repeated keys are known already
		}
		if err := k.compareWithTable(ctx, state, removed, parts); err != nil {
			return fault.Op(err, "compare the keys with those of the table")
		}
	}
	return nil
}

func (k *keyCheck) compareWithTable(ctx context.Context, state *commit.TableState, removed []string, parts []extsort.Partition) error {
	fields, ok := k.fields(state.Table)
	if !ok || len(k.sorted.Partitions()) == 0 {
		return nil
	}
	ids := catalog.FieldIDs(fields)
	files, err := k.call.tables.Files(ctx, state.Table, ids, ids)
	if err != nil {
		return err
	}
	least, most := k.bounds.values()
	t := touchedParts{state: state, fields: fields, check: k, parts: parts, least: least, most: most}
	files = slices.DeleteFunc(files, func(f catalog.File) bool {
		return k.seen[f.Location] || slices.Contains(removed, f.Location) || !t.mayHaveKeys(f)
	})
	if len(files) == 0 {
		return nil
	}
	found, err := k.readKeys(ctx, state, fields, files)
	if err != nil {
		return err
	}
	defer found.Release()
	if err := k.compare(ctx, found); err != nil {
		return err
	}
	for _, f := range files {
		k.seen[f.Location] = true
	}
	return nil
}

// fields returns the table's fields for the columns; false if the table lacks some of them.
func (k *keyCheck) fields(table *catalog.Table) ([]catalog.Field, bool) {
	var out []catalog.Field
	for _, at := range k.columns {
		f, ok := table.ByID(k.call.target.FieldID(at))
		if !ok {
			return nil, false
		}
		out = append(out, f)
	}
	return out, true
}

// keyBounds are the least and greatest value of the first column, if it has integers or texts.
type keyBounds struct {
	least, most boundedValue
	known       bool // keys were added
	unbounded   bool // values of the column's type are not compared
}

// add adds the first value of a key. Keys are added in ascending order.
func (b *keyBounds) add(c *keyCursor) {
	if b.unbounded = b.unbounded || !b.most.set(c); b.unbounded || b.known {
		return
	}
	b.known = true
	b.least.set(c)
}

// values returns the bounds, or nil if they are unknown.
func (b *keyBounds) values() (least, most *expr.Value) {
	if !b.known {
		return nil, nil
	}
	return b.least.value(), b.most.value()
}

// boundedValue is a copy of a key's first value.
type boundedValue struct {
	integer int64
	text    []byte // nil for an integer
}

// set copies the first value of a key. It returns false if bounds of its type are not compared.
func (v *boundedValue) set(c *keyCursor) bool {
	switch a := c.batch.Column(0).(type) {
	case *array.Int32:
		v.integer = int64(a.Value(c.row))
	case *array.Int64:
		v.integer = a.Value(c.row)
	case *array.String:
		v.text = append(v.text[:0], a.Value(c.row)...)
		if v.text == nil {
			v.text = []byte{}
		}
	default:
		return false
	}
	return true
}

func (v *boundedValue) value() *expr.Value {
	out := expr.Int(v.integer)
	if v.text != nil {
		out = expr.Bytes(v.text)
	}
	return &out
}

// touchedParts determines which files may have keys of the new rows.
type touchedParts struct {
	state       *commit.TableState
	fields      []catalog.Field // key columns of the table
	check       *keyCheck
	parts       []extsort.Partition // partitions of the new rows; nil: unknown
	least, most *expr.Value         // bounds of the first key column of the new rows; nil: unknown
}

// mayHaveKeys reports whether a file may have keys of the new rows.
func (t *touchedParts) mayHaveKeys(f catalog.File) bool {
	spec, of := t.state.Table.Specs[t.state.Spec], t.state.Table.Specs[f.Spec]
	for i, p := range spec {
		at := of.SameField(p)
		if at < 0 || !slices.ContainsFunc(t.fields, func(f catalog.Field) bool { return f.ID == p.Source }) {
			continue
		}
		if f.Partition[at] == nil {
			return false // every key in the file has a null
		}
		value := partitionValue(f.Partition[at])
		if len(t.parts) > 0 && !slices.ContainsFunc(t.parts, func(new extsort.Partition) bool { return partitionValue(new.Values[i]) == value }) {
			return false
		}
	}
	if t.check.aligned && covers(of, spec) {
		if _, touched := t.check.parts.byText[coarseValues(spec, of, f.Partition)]; !touched {
			return false
		}
	}
	r, known := f.Ranges[t.fields[0].ID]
	return !known || !outside(r, t.least, t.most)
}

// partitionValue returns a text that identifies a partition value.
func partitionValue(v any) string { return fmt.Sprintf("%T %[1]v", v) }

// outside reports whether a range has no value between least and most.
func outside(r expr.Range, least, most *expr.Value) bool {
	if least == nil {
		return false
	}
	if order, ok := r.Lower.Compare(*most); r.HasLower && ok && order > 0 {
		return true
	}
	order, ok := r.Upper.Compare(*least)
	return r.HasUpper && ok && order < 0
}

// readKeys reads the keys of files, and sorts those that may equal new keys.
func (k *keyCheck) readKeys(ctx context.Context, state *commit.TableState, fields []catalog.Field, files []catalog.File) (*extsort.Sorted, error) {
	set, err := k.set(ctx)
	if err != nil {
		return nil, err
	}
	var keys extsort.KeySet
	if set != nil {
		defer set.Release()
		keys = set
	}
	sorter, err := k.newSorter(keys)
	if err != nil {
		return nil, err
	}
	defer sorter.Release()
	table := *state.Table
	table.Name = k.call.shown
	for _, f := range files {
		if err := k.readFile(ctx, &table, fields, f, sorter); err != nil {
			return nil, err
		}
	}
	return sorter.Finish(ctx)
}

// set returns the set of the new keys, or nil if it does not fit in its share of the budget.
// Without the set, all keys of the files are sorted.
func (k *keyCheck) set(ctx context.Context) (*keyset.DistinctKeys, error) {
	rows := k.call.options.Rows
	limit := rows.Budget.Limit()
	if limit > 0 {
		limit /= int64(rows.Calls) * setShare
	}
	set, err := keyset.New(rows.Budget, "the keys of the rows to write", limit)
	if fault.KindOf(err) == fault.Exhausted {
		return nil, nil //nolint:nilnil // no set fits, as the function defines it
	}
	if err != nil {
		return nil, err
	}
	keys, err := k.sorted.Open(ctx, 0)
	if err != nil {
		set.Release()
		return nil, err
	}
	defer keys.Release()
	for err == nil && keys.Next() {
		err = k.addTo(ctx, set, keys.RecordBatch())
	}
	if err == nil {
		err = keys.Err()
	}
	switch {
	case err == nil:
		set.Freeze()
		return set, nil
	case fault.KindOf(err) == fault.Exhausted:
		err = nil
	}
	set.Release()
	return nil, err
}

// addTo adds the keys of a batch to a set.
func (k *keyCheck) addTo(ctx context.Context, set *keyset.DistinctKeys, b arrow.RecordBatch) error {
	n := len(k.columns)
	of := array.NewRecordBatch(arrow.NewSchema(k.schema.Fields()[:n], nil), b.Columns()[:n], b.NumRows())
	defer of.Release()
	return set.Add(ctx, of)
}

// readFile adds the keys of a file to a sorter.
func (k *keyCheck) readFile(ctx context.Context, table *catalog.Table, fields []catalog.Field, f catalog.File, to *extsort.Sorter) error {
	source := plan.Source{Table: table, Planned: catalog.FieldIDs(fields), Files: []plan.FileRange{{File: f, To: f.Rows}}}
	rows, err := k.call.options.Read(ctx, source, fields)
	if err != nil {
		return err
	}
	defer rows.Release()
	for rows.Next() {
		b := rows.RecordBatch()
		columns := slices.Clone(b.Columns())
		if k.aligned {
			number := k.numberOf(table, f, int(b.NumRows()))
			defer number.Release()
			columns = append(columns, number)
		}
		keys := array.NewRecordBatch(k.schema, columns, b.NumRows())
		err := to.Add(ctx, keys)
		keys.Release()
		if err != nil {
			return err
		}
	}
	return rows.Err()
}

// numberOf returns an array that repeats the number of a file's partition for each row. If the file
// lacks a value for a coarse field, the number is -1, which no partition of the new rows has.
func (k *keyCheck) numberOf(table *catalog.Table, f catalog.File, rows int) arrow.Array {
	number := int32(-1)
	spec, of := table.Specs[k.call.target.State.Spec], table.Specs[f.Spec]
	if covers(of, spec) {
		number = k.parts.byText[coarseValues(spec, of, f.Partition)]
	}
	b := array.NewInt32Builder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(rows)
	for range rows {
		b.Append(number)
	}
	return b.NewArray()
}

// compare fails if any of the new keys is in found.
func (k *keyCheck) compare(ctx context.Context, found *extsort.Sorted) error {
	ours, err := k.open(ctx, k.sorted)
	if err != nil {
		return err
	}
	defer ours.release()
	theirs, err := k.open(ctx, found)
	if err != nil {
		return err
	}
	defer theirs.release()
	out := &repeatedKeys{check: k, stored: true}
	more, err := ours.next(ctx)
	others := false
	if err == nil {
		others, err = theirs.next(ctx)
	}
	for err == nil && more && others {
		switch order := sortkey.Compare(ours.at, ours.row, theirs.at, theirs.row); {
		case order < 0:
			more, err = ours.next(ctx)
		case order > 0:
			others, err = theirs.next(ctx)
		default:
			out.add(ours)
			more, err = ours.next(ctx) // the new keys are distinct
		}
	}
	if err != nil {
		return err
	}
	return out.err()
}
