package write

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"

	"github.com/penstock/penstock/internal/fault"
)

// encode encodes the rows of conformed columns.
func (w *DataWriter) encode(ctx context.Context, columns []arrow.ArrayData, count int64) error {
	for at := int64(0); at < count; {
		room, err := w.room()
		if err != nil {
			return err
		}
		n := rowsWithin(columns, at, min(count-at, room, stepRows))
		if err := w.step(columns, int(at), int(at+n)); err != nil {
			return err
		}
		at, w.open = at+n, w.open+n
		stored := int64(0)
		for _, e := range w.group {
			stored += e.stored()
		}
		if n == room || w.base == nil && stored >= w.opts.RowGroupBytes {
			if err := w.endGroup(ctx); err != nil {
				return err
			}
		}
	}
	return w.reserve(w.held())
}

// rowsWithin returns how many of n rows take at most approximately stepBytes. It returns at least
// 1.
func rowsWithin(columns []arrow.ArrayData, at, n int64) int64 {
	for n > 1 {
		size := int64(0)
		for _, c := range columns {
			size += rowBytes(c, int(at), int(at+n))
		}
		if size <= stepBytes {
			break
		}
		n = max(1, min(n-1, n*stepBytes/size))
	}
	return n
}

// room returns how many more rows the open row group takes.
func (w *DataWriter) room() (int64, error) {
	if w.base == nil {
		return w.opts.rowGroupRows - w.open, nil
	}
	groups, done := w.base.Rows(), len(w.file.Splits())
	if done == len(groups) {
		return 0, fault.New(fault.Invalid, "the new columns have more rows than the file").
			WithRemedy("write exactly one row for each row of the file, in its order")
	}
	return groups[done] - w.open, nil
}

// startGroup starts a row group if there is none.
func (w *DataWriter) startGroup() error {
	if w.group != nil {
		return nil
	}
	group := make([]*columnEncoder, len(w.columns))
	for i, n := range w.columns {
		var err error
		if group[i], err = newEncoder(n, w.settings[i]); err != nil {
			return err
		}
	}
	w.group = group
	return nil
}

// step encodes the rows [from, to) in the open row group.
func (w *DataWriter) step(columns []arrow.ArrayData, from, to int) error {
	if err := w.startGroup(); err != nil {
		return err
	}
	more := int64(0)
	for i, c := range columns {
		more += 6 * rowBytes(c, from, to) * int64(len(w.settings[i].encodings))
	}
	if err := w.reserve(w.held() + more); err != nil {
		return err
	}
	return w.each(len(columns), func(i int) error { return w.group[i].write(columns[i], from, to) })
}

// endGroup writes the open row group.
func (w *DataWriter) endGroup(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sorting, err := w.appendBase(ctx)
	if err != nil {
		return err
	}
	for i, e := range w.group {
		// Closing the encoder copies its pages.
		if err := w.reserve(w.held() + 4*e.stored() + dictionaryBytes); err != nil {
			return err
		}
		chunks, err := e.close()
		if err != nil {
			return err
		}
		for _, c := range chunks {
			if err := w.file.Append(ctx, c); err != nil {
				return err
			}
		}
		e.setting = setting{}
		w.group[i] = nil
	}
	rows := w.open
	w.group, w.open = nil, 0
	if err := w.file.EndGroup(ctx, rows, sorting); err != nil {
		return err
	}
	return w.reserve(w.held())
}

// appendBase copies the chunks of the base's next row group, if there is a base, and returns the
// order that the new row group declares.
func (w *DataWriter) appendBase(ctx context.Context) ([]parquet.SortingColumn, error) {
	if w.base == nil {
		return w.sorting, nil
	}
	group := len(w.file.Splits())
	if err := w.reserve(w.held() + w.base.Held(group)); err != nil {
		return nil, err
	}
	chunks, sorting, err := w.base.Group(ctx, group)
	if err != nil {
		return nil, err
	}
	for _, c := range chunks {
		if err := w.file.Append(ctx, c); err != nil {
			return nil, err
		}
	}
	return sorting, nil
}
