package inputs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// When a batch has jsonValues values or more, it gets no more rows. If an object does not have a
// field, the null of this field counts as a value.
const jsonValues = 256 << 10

// jsonLines reads the rows of a file of JSON lines: one object per line.
type jsonLines struct {
	*textFile
	in      *bufio.Reader
	columns []arrow.Field
	refused map[string]arrow.DataType // the types of the columns that cannot be read from JSON, by the column's name
	line    int                       // the number of the current line
	values  int64                     // the number of values of the current batch
	charged int64                     // the number of values whose memory is reserved
}

// jsonLines returns the rows of a file of JSON lines. The rows have the columns that o.Types
// returns, except columns whose type cannot be read from JSON, and promoted columns: a row without a field has a null there, and
// nulls would count as promoted values. With --schema, rows can have these columns.
//
// jsonLines returns an error of kind Invalid if a line is not one JSON object, if a field is not
// one of these columns, or if a value does not have the type of its column. The error names the
// line.
func (o Options) jsonLines(ctx context.Context, f File) (array.RecordReader, error) {
	known, err := o.types(ctx)
	if err != nil {
		return nil, err
	}
	r := &jsonLines{refused: map[string]arrow.DataType{}}
	for _, column := range known {
		if column.Metadata.FindKey(Promoted) >= 0 {
			continue
		}
		if readableJSON(column.Type) {
			r.columns = append(r.columns, arrow.Field{Name: column.Name, Type: column.Type, Nullable: true})
		} else {
			r.refused[column.Name] = column.Type
		}
	}
	if len(r.columns) == 0 {
		return nil, fault.New(fault.Invalid, "neither the table nor --schema gives the types of the columns of %s", f.Name).In("", f.Name).
			WithRemedy("give the columns and their types, as in --schema 'id: long, price: decimal(9,2)'")
	}
	if r.textFile, err = o.textFile(ctx, f); err != nil {
		return nil, err
	}
	r.in = bufio.NewReaderSize(r.limit.Reader, textRowBytes)
	r.builder = array.NewRecordBuilder(batch.Cleared(), arrow.NewSchema(r.columns, nil))
	return batch.FromFuncContext(ctx, r.builder.Schema(), r.batch, r.close), nil
}

// readableJSON reports whether JSON can be read as values of a type.
func readableJSON(t arrow.DataType) bool {
	switch t := t.(type) {
	case *arrow.ListType:
		return readableJSON(t.Elem())
	case *arrow.MapType:
		return readableJSON(t.KeyType()) && readableJSON(t.ItemType())
	case *arrow.StructType:
		return !slices.ContainsFunc(t.Fields(), func(f arrow.Field) bool { return !readableJSON(f.Type) })
	case *arrow.BinaryType, *arrow.FixedSizeBinaryType:
		return true
	}
	return readable(t)
}

// batch returns the next batch, or nil at the end.
func (r *jsonLines) batch(ctx context.Context) (arrow.RecordBatch, error) {
	rows, read := 0, 0
	for r.values = 0; rows < textRows && read < textBytes && r.values < jsonValues; rows++ {
		line, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := r.row(ctx, line); err != nil {
			return nil, err
		}
		read += len(line)
	}
	if rows == 0 || ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return r.builder.NewRecordBatch(), nil
}

// next returns the next line that is not blank, or io.EOF. The line is valid until the next call.
func (r *jsonLines) next() ([]byte, error) {
	for {
		line, err := r.in.ReadSlice('\n')
		if r.line++; r.line == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		line = bytes.TrimSpace(line)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, r.broken("is longer than 4 MiB")
		case err != nil && !errors.Is(err, io.EOF):
			return nil, fault.New(fault.Corrupt, "%s cannot be read: %w", r.name, err).In("", r.name).WithRemedy("write the file again")
		case len(line) > 0:
			return line, nil
		case err != nil:
			return nil, io.EOF
		}
	}
}

// broken returns the error for the current line.
func (r *jsonLines) broken(format string, args ...any) error {
	return fault.New(fault.Invalid, "%s, line %d: the line "+format, append([]any{r.name, r.line}, args...)...).In("", r.name).
		WithRemedy("write one JSON object per line, with the names of columns as fields")
}

// row appends a row.
func (r *jsonLines) row(ctx context.Context, line []byte) error {
	row := newJSONRow(line, func(values int) error {
		if r.values += int64(values); r.values <= r.charged {
			return nil
		}
		more := r.values - r.charged + textRows
		r.charged += more
		return r.held.GrowWait(ctx, more*textValue)
	})
	err := row.whole(r.columns, r.builder.Field)
	value, invalid := errors.AsType[*jsonValueError](err)
	switch {
	case !invalid:
		return err
	case value.syntax != "":
		return r.broken("%s", value.syntax)
	case value.unknown:
		return r.unknown(value.path)
	}
	return fault.New(fault.Invalid, "%s, line %d: %s is not a value of column %s, which has type %s", r.name, r.line, value.text, value.path, typeName(value.of)).
		In("", r.name).WithRemedy("correct the value, or give the column another type with --schema")
}

// unknown returns the error for a field that is not a column.
func (r *jsonLines) unknown(path string) error {
	if t, ok := r.refused[path]; ok {
		return fault.New(fault.Invalid, "%s, line %d: column %s has type %s, which cannot be read from JSON", r.name, r.line, path, t).In("", r.name).
			WithRemedy("write the rows as Parquet or Arrow")
	}
	var names []string
	for _, column := range r.columns {
		names = append(names, column.Name)
	}
	meant := ""
	if near := fault.Nearest(path, names); near != "" {
		meant = "; did you mean " + near + "?"
	}
	return fault.New(fault.Invalid, "%s, line %d: neither the table nor --schema has a column %q%s", r.name, r.line, path, meant).In("", r.name).
		WithRemedy("leave the field out, or give the type of the column with --schema")
}
