package deletes

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/loader/catalog"
)

const wordBits = 64

// Rows is the deleted rows of one data file. It is used by one goroutine.
type Rows struct {
	file   catalog.File
	needs  []*cache.Need[*loaded]
	pins   []*release.Handle // of needs
	loaded []*loaded

	positions []*bitmap
	values    []*values
	bits      []uint64
	key       []byte // scratch memory of byValue
}

// add adds the deletes of a unit that apply to the file.
func (r *Rows) add(u unit, l *loaded) error {
	if l.values != nil {
		r.values = append(r.values, l.values)
		return nil
	}
	set := l.positions[r.file.Location]
	if set == nil {
		return nil
	}
	if last := set.highest(); last >= r.file.Rows {
		return fault.New(fault.Corrupt, "%s in %s deletes row %d of a file of %d rows", u.file.Kind, u.file.Location, last, r.file.Rows).
			WithRemedy("the table's metadata and its files do not match: roll back to an earlier snapshot")
	}
	r.positions = append(r.positions, set)
	return nil
}

// Release releases the deletes. It is idempotent.
func (r *Rows) Release() {
	for _, l := range r.loaded {
		l.Release()
	}
	for i, n := range r.needs {
		r.pins[i].Release()
		n.Close()
	}
	r.loaded, r.needs, r.pins, r.positions, r.values = nil, nil, nil, nil, nil
}

// Keep returns those indices in pass whose rows in a batch are not deleted. pass must be ascending.
// Keep overwrites dst with the result; dst may be the same slice as pass. first is the row number
// in the file of the batch's first row. column returns the column of a field id.
func (r *Rows) Keep(dst, pass []int32, first, rows int64, column func(id int) arrow.Array) ([]int32, error) {
	dst = append(dst[:0], pass...)
	dst = r.byPosition(dst, first, rows)
	for _, v := range r.values {
		var err error
		if dst, err = r.byValue(dst, v, column); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (r *Rows) byPosition(pass []int32, first, rows int64) []int32 {
	if len(r.positions) == 0 {
		return pass
	}
	words := int(rows+wordBits-1) / wordBits
	r.bits = slices.Grow(r.bits[:0], words)[:words]
	clear(r.bits)
	for _, set := range r.positions {
		set.mark(r.bits, first, rows)
	}
	return slices.DeleteFunc(pass, func(row int32) bool { return r.bits[row/wordBits]>>(row%wordBits)&1 == 1 })
}

func (r *Rows) byValue(pass []int32, v *values, column func(id int) arrow.Array) ([]int32, error) {
	columns := make([]arrow.Array, len(v.columns))
	for i, c := range v.columns {
		columns[i] = column(c.ID)
	}
	kept := pass[:0]
	for _, row := range pass {
		var err error
		if r.key, err = appendKey(r.key[:0], columns, int(row)); err != nil {
			return pass, err
		}
		if youngest, deleted := v.youngest[string(r.key)]; !deleted || youngest <= r.file.Sequence {
			kept = append(kept, row)
		}
	}
	return kept, nil
}
