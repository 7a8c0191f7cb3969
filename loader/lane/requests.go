package lane

import (
	"hash/maphash"
	"strings"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// Requests describes a dictionary column of the ranges' batches that refers to rows of the same
// batch. Its dictionary has the training columns that are constant within a request, and the key
// that identifies requests. In the indexed column of the result, the dictionary has one row for
// each request. It is an error if the rows of a request differ in these columns.
type Requests struct {
	Index int    // of the column
	Key   []int  // fields of its struct
	Table string // for errors
}

// requestRows finds the requests of a batch by their keys. Each row with a null in its key is a
// separate request.
type requestRows struct {
	*Requests
	fields []int // the fields of the struct that are sent
	seed   maphash.Seed
	table  []keyEntry   // open addressing; its length is a power of two
	rows   []requestRow // for each slot: the first row of its request
	of     []requestFields
	last   int32 // the slot of the last row without a null in its key; -1: there was no such row
}

// keyEntry is a request. The zero entry is free.
type keyEntry struct {
	hash uint64
	slot int32 // one more than the position among the distinct rows
}

// requestRow is a row of a dictionary.
type requestRow struct {
	number int32 // index of the dictionary in requestRows.of
	row    int32
}

// requestFields are the columns of one dictionary.
type requestFields struct {
	names        []string // of all fields of its struct
	keys, values []arrow.Array
}

func newRequestRows(of *Requests, columns []Column) *requestRows {
	r := &requestRows{Requests: of, seed: maphash.MakeSeed()}
	for _, c := range columns {
		r.add(c)
	}
	return r
}

// add adds the fields of which a column is made.
func (r *requestRows) add(c Column) {
	if c.Made == nil {
		r.fields = append(r.fields, c.Field)
		return
	}
	for _, one := range c.Made.Columns {
		r.add(one)
	}
}

// requestBytes returns how many bytes it takes to find the requests of a number of rows.
func requestBytes(rows int64) int64 {
	return tableSize(rows)*int64(unsafe.Sizeof(keyEntry{})) + rows*int64(unsafe.Sizeof(requestRow{}))
}

// begin starts a new batch.
func (r *requestRows) begin(size int) {
	if len(r.table) == size {
		clear(r.table)
	} else {
		r.table = make([]keyEntry, size)
	}
	clear(r.of)
	r.rows, r.of, r.last = r.rows[:0], r.of[:0], -1
}

// next begins the rows of another dictionary.
func (r *requestRows) next(values *array.Struct) {
	var of requestFields
	for _, f := range values.DataType().(*arrow.StructType).Fields() {
		of.names = append(of.names, f.Name)
	}
	for _, k := range r.Key {
		of.keys = append(of.keys, values.Field(k))
	}
	for _, k := range r.fields {
		of.values = append(of.values, values.Field(k))
	}
	r.of = append(r.of, of)
}

// requestSlot is like slot, but identifies a row of the current dictionary by its request. If
// another row of the request was added before, it returns the slot of that row, after a check that
// the columns that are sent have the same values in both rows.
func (d *distinctRows) requestSlot(row uint64, place int32) (int32, error) {
	r := d.requests
	here := requestRow{number: int32(len(r.of) - 1), row: place}
	if r.isNull(here) {
		slot := d.slot(row, place)
		if int(slot) == len(r.rows) {
			r.rows = append(r.rows, here)
		}
		return slot, nil
	}
	if r.last >= 0 && r.same(r.rows[r.last], here) {
		return r.last, r.check(r.rows[r.last], here)
	}
	hash := r.hash(here)
	mask := uint64(len(r.table) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		switch e := &r.table[at]; {
		case e.slot == 0:
			r.last = int32(len(d.rows))
			*e = keyEntry{hash: hash, slot: r.last + 1}
			d.rows, r.rows = append(d.rows, place), append(r.rows, here)
			return r.last, nil
		case e.hash == hash && r.same(r.rows[e.slot-1], here):
			r.last = e.slot - 1
			return r.last, r.check(r.rows[r.last], here)
		}
	}
}

func (r *requestRows) isNull(at requestRow) bool {
	for _, k := range r.of[at.number].keys {
		if k.IsNull(int(at.row)) {
			return true
		}
	}
	return false
}

// hash returns a hash of a row's key. The key must not have nulls.
func (r *requestRows) hash(at requestRow) uint64 {
	hash := uint64(0)
	for _, k := range r.of[at.number].keys {
		hash = hash*spread + batch.HashRow(r.seed, k, int(at.row))
	}
	return hash
}

// same reports whether two rows belong to the same request. Their keys must not have nulls.
func (r *requestRows) same(a, b requestRow) bool {
	return sameRow(r.of[a.number].keys, int(a.row), r.of[b.number].keys, int(b.row)) < 0
}

// sameRow returns the first column in which two rows differ, or -1.
func sameRow(a []arrow.Array, i int, b []arrow.Array, j int) int {
	for k := range a {
		if !batch.SameRow(a[k], i, b[k], j) {
			return k
		}
	}
	return -1
}

// check fails if the columns that are sent differ between two rows of one request.
func (r *requestRows) check(a, b requestRow) error {
	of := r.of[b.number]
	differs := sameRow(r.of[a.number].values, int(a.row), of.values, int(b.row))
	if differs < 0 {
		return nil
	}
	name := of.names[r.fields[differs]]
	key := make([]string, len(r.Key))
	for i, k := range r.Key {
		key[i] = of.names[k] + " = " + shorten(batch.Text(of.keys[i], int(b.row)))
	}
	return fault.New(fault.Invalid, "column %s of table %s is declared request_level, but the rows of request %s have different values",
		name, r.Table, strings.Join(key, ", ")).In(r.Table, "").
		WithRemedy("remove %s from training.request_level, or repair the rows of that request", name)
}

// maxText is the maximum number of bytes of a key's value that an error shows.
const maxText = 100

// shorten truncates a text.
func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}
