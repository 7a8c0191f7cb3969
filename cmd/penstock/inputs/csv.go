package inputs

import (
	"context"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// csvRowsOf reads the rows of a CSV file.
type csvRowsOf struct {
	*textFile
	in *csv.Reader
}

// csv returns the rows of a CSV file. The first line of the file names the columns, and o.Types
// returns the types of the columns.
//
// csv returns an error of kind Invalid if a text is not a value of its column's type, if a line
// does not have as many fields as the first line, or if a column has no type. An error about a text
// has the text's position.
func (o Options) csv(ctx context.Context, f File) (array.RecordReader, error) {
	file, err := o.textFile(ctx, f)
	if err != nil {
		return nil, err
	}
	r := &csvRowsOf{textFile: file}
	if err := r.begin(ctx, o); err != nil {
		r.close()
		return nil, err
	}
	return batch.FromFuncContext(ctx, r.builder.Schema(), r.batch, r.close), nil
}

// begin reads the first line and creates the builder.
func (r *csvRowsOf) begin(ctx context.Context, o Options) error {
	r.in, r.limit.left = csv.NewReader(r.limit), textRowBytes
	names, err := r.in.Read()
	if errors.Is(err, io.EOF) {
		return fault.New(fault.Invalid, "%s is empty: its first line has no names of columns", r.name).In("", r.name).WithRemedy("write the names of the columns as the first line")
	}
	if err != nil {
		return r.broken(err)
	}
	names[0] = strings.TrimPrefix(names[0], "\ufeff")
	known, err := o.types(ctx)
	if err != nil {
		return err
	}
	var fields []arrow.Field
	var without []string
	for i, name := range names {
		typed, ok := typeOf(known, name)
		switch {
		case slices.Contains(names[:i], name):
			return fault.New(fault.Invalid, "two columns of %s have the name %q", r.name, name).In("", r.name).WithRemedy("the first line has the names of the columns")
		case !ok:
			without = append(without, name)
			continue
		case !readable(typed):
			return fault.New(fault.Invalid, "column %q of %s has type %s, which cannot be read from texts", name, r.name, typed).In("", r.name).WithRemedy("write the rows as Parquet or Arrow")
		}
		fields = append(fields, arrow.Field{Name: name, Type: typed, Nullable: true})
	}
	if len(without) > 0 {
		return fault.New(fault.Invalid, "neither the table nor --schema gives a type for these columns of %s: %s", r.name, strings.Join(without, ", ")).In("", r.name).
			WithRemedy("give their types, as in --schema '%s: long'; the first line of the file has the names of the columns", without[0])
	}
	if err := r.held.GrowWait(ctx, int64(len(fields))*textRows*textValue); err != nil {
		return err
	}
	r.in.ReuseRecord = true
	r.builder = array.NewRecordBuilder(batch.Cleared(), arrow.NewSchema(fields, nil))
	return nil
}

// broken converts an error of the CSV reader to the error for a file that cannot be read.
func (r *csvRowsOf) broken(err error) error {
	if e := (*fault.Error)(nil); errors.As(err, &e) {
		return e
	}
	return fault.New(fault.Invalid, "%s cannot be read as CSV: %w", r.name, err).In("", r.name).
		WithRemedy("enclose fields that contain commas, quotes or line breaks in double quotes, and give every line as many fields as the first")
}

// batch returns the next batch, or nil at the end.
func (r *csvRowsOf) batch(ctx context.Context) (arrow.RecordBatch, error) {
	begin, rows := r.in.InputOffset(), 0
	for rows < textRows && r.in.InputOffset()-begin < textBytes {
		r.limit.left = textRowBytes
		record, err := r.in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, r.broken(err)
		}
		if err := r.append(record); err != nil {
			return nil, err
		}
		rows++
	}
	if rows == 0 || ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return r.builder.NewRecordBatch(), nil
}

// append appends a row. An empty field is null.
func (r *csvRowsOf) append(record []string) error {
	for i, text := range record {
		b := r.builder.Field(i)
		if text == "" {
			b.AppendNull()
			continue
		}
		if err := appendText(b, text); err != nil || !utf8.ValidString(text) {
			line, column := r.in.FieldPos(i)
			const shown = 64
			return fault.New(fault.Invalid, "%s, line %d, byte %d: %.*q is not a value of column %s, which has type %s",
				r.name, line, column, shown, text, r.builder.Schema().Field(i).Name, typeName(b.Type())).In("", r.name).
				WithRemedy("correct the value, or give the column another type with --schema")
		}
	}
	return nil
}
