package inputs

import (
	"context"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// nullFolder is the text that Hive writes for a null in the name of a folder.
const nullFolder = "__HIVE_DEFAULT_PARTITION__"

// folderValue is the value of a column in the name of a folder, as in day=2026-01-01.
type folderValue struct {
	column, text string
	null         bool
}

// append appends the value to a builder.
func (v folderValue) append(b array.Builder) error {
	if v.null {
		b.AppendNull()
		return nil
	}
	return appendText(b, v.text)
}

// folderValues returns the values in the names of the folders that contain a file.
func folderValues(name string) ([]folderValue, error) {
	var out []folderValue
	for part := range strings.SplitSeq(path.Dir(name), "/") {
		column, text, ok := strings.Cut(part, "=")
		if !ok || column == "" {
			continue
		}
		column, err := url.PathUnescape(column)
		if err == nil {
			text, err = url.PathUnescape(text)
		}
		if err != nil {
			return nil, fault.New(fault.Invalid, "folder %q of %s is not encoded as Spark and Hive do: %w", part, name, err).In("", name).WithRemedy("rename the folder")
		}
		if slices.ContainsFunc(out, func(v folderValue) bool { return v.column == column }) {
			return nil, fault.New(fault.Invalid, "two folders of %s have values of column %s", name, column).In("", name).WithRemedy("rename one of them")
		}
		out = append(out, folderValue{column: column, text: text, null: text == nullFolder})
	}
	return out, nil
}

// folderColumns holds the columns that the names of folders contain. For each file, it holds the
// value of each of these columns.
type folderColumns struct {
	fields []arrow.Field
	values [][]folderValue // for each file, the values of the columns
}

// folderColumns returns the columns that the names of the files' folders contain. If o.Types does
// not return the type of a column, the type is inferred from all values of the column, as in Spark,
// and is int, long, date or string.
func (o Options) folderColumns(ctx context.Context, files []File) (*folderColumns, error) {
	out := &folderColumns{}
	for i, f := range files {
		values, err := folderValues(f.Name)
		if err != nil {
			return nil, err
		}
		out.values = append(out.values, values)
		if first := out.values[0]; !slices.EqualFunc(values, first, func(a, b folderValue) bool { return a.column == b.column }) {
			return nil, fault.New(fault.Invalid, "the folders of %s and of %s have values of other columns", files[0].Name, files[i].Name).In("", f.Name).
				WithRemedy("stage files of other folders by a call of their own, or leave these columns out with --no-folder-columns")
		}
	}
	if len(out.values) == 0 || len(out.values[0]) == 0 {
		return out, nil
	}
	known, err := o.types(ctx)
	if err != nil {
		return nil, err
	}
	for i, v := range out.values[0] {
		typed, ok := typeOf(known, v.column)
		if !ok {
			typed = out.infer(i)
		}
		if err := out.check(i, typed, files); err != nil {
			return nil, err
		}
		out.fields = append(out.fields, arrow.Field{Name: v.column, Type: typed, Nullable: true})
	}
	return out, nil
}

// infer returns the first of the types int, long, date and string that fits all values of a column.
func (c *folderColumns) infer(column int) arrow.DataType {
	for _, t := range []arrow.DataType{arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64, arrow.FixedWidthTypes.Date32} {
		if c.check(column, t, nil) == nil {
			return t
		}
	}
	return arrow.BinaryTypes.String
}

// check returns an error if a value of a column cannot be read as type t. The error names the file
// that has the value, unless files is nil.
func (c *folderColumns) check(column int, t arrow.DataType, files []File) error {
	if !readable(t) {
		return fault.New(fault.Invalid, "column %s of the folders cannot be read as %s", c.values[0][column].column, t).
			WithRemedy("write the column to the files, and leave it out of the folders with --no-folder-columns")
	}
	b := array.NewBuilder(batch.Default(), t)
	defer b.Release()
	last := folderValue{}
	for i, values := range c.values {
		v := values[column]
		if v == last {
			continue
		}
		last = v
		if err := v.append(b); err != nil {
			name := ""
			if files != nil {
				name = files[i].Name
			}
			return fault.New(fault.Invalid, "%q in the folder of %s is not a value of column %s, which has type %s", v.text, name, v.column, typeName(t)).In("", name).
				WithRemedy("give the column another type with --schema, or leave it out with --no-folder-columns")
		}
	}
	return nil
}

// withFolders reads the rows of files, and adds the columns of the files' folders.
type withFolders struct {
	rows    fileRows
	files   []File
	columns *folderColumns
	schema  *arrow.Schema
	at      []int // for each column of the folders, the index of the same column in the files, or -1
	held    *budget.Reservation
}

// with returns a reader of rows that adds the columns of folders. If the files also have such a
// column, its values in each file must equal the value in the file's folder. The method owns rows
// after the call, even if it fails.
func (c *folderColumns) with(ctx context.Context, rows fileRows, files []File, memory *budget.Budget) (array.RecordReader, error) {
	if len(c.fields) == 0 {
		return rows, nil
	}
	held, err := memory.Reserve("columns of folders", 0)
	if err != nil {
		rows.Release()
		return nil, err
	}
	w := &withFolders{rows: rows, files: files, columns: c, held: held}
	fields := slices.Clone(rows.Schema().Fields())
	for i, f := range c.fields {
		found := rows.Schema().FieldIndices(f.Name)
		if len(found) == 0 {
			fields, w.at = append(fields, f), append(w.at, -1)
			continue
		}
		w.at = append(w.at, found[0])
		c.fields[i].Type = fields[found[0]].Type
		if err := c.check(i, c.fields[i].Type, files); err != nil {
			w.close()
			return nil, err
		}
	}
	w.schema = arrow.NewSchema(fields, nil)
	return batch.FromFuncContext(ctx, w.schema, w.batch, w.close), nil
}

func (w *withFolders) close() {
	w.rows.Release()
	w.held.Release()
}

// batch returns the next batch, or nil at the end.
func (w *withFolders) batch(ctx context.Context) (arrow.RecordBatch, error) {
	if !w.rows.Next() {
		return nil, w.rows.Err()
	}
	b := w.rows.RecordBatch()
	columns := slices.Clone(b.Columns())
	values := w.columns.values[w.rows.File()]
	w.held.Shrink(w.held.Held())
	for i, f := range w.columns.fields {
		constant, err := w.repeat(ctx, values[i], f.Type, int(b.NumRows()))
		if err != nil {
			return nil, err
		}
		defer constant.Release()
		if at := w.at[i]; at < 0 {
			columns = append(columns, constant)
		} else if !array.Equal(columns[at], constant) {
			name := w.files[w.rows.File()].Name
			return nil, fault.New(fault.Invalid, "%s has a column %s with other values than %q, which its folder has", name, f.Name, values[i].text).In("", name).
				WithRemedy("leave the columns of folders out with --no-folder-columns, or remove the column from the files")
		}
	}
	return array.NewRecordBatch(w.schema, columns, b.NumRows()), nil
}

// constantBytes is the maximum memory of one value, in addition to the bytes of its text.
const constantBytes = 32

// repeat returns an array that repeats one value. The memory of the array is reserved until the
// next batch is read.
func (w *withFolders) repeat(ctx context.Context, v folderValue, t arrow.DataType, rows int) (arrow.Array, error) {
	const growth = 3 // a builder holds the old buffer and one of twice the size while it grows
	if err := w.held.GrowWait(ctx, growth*int64(rows)*int64(constantBytes+len(v.text))); err != nil {
		return nil, err
	}
	b := array.NewBuilder(batch.Cleared(), t)
	defer b.Release()
	b.Reserve(rows)
	for range rows {
		if err := v.append(b); err != nil {
			return nil, fault.New(fault.Internal, "read %q as %s: %w", v.text, t, err)
		}
	}
	return b.NewArray(), nil
}
