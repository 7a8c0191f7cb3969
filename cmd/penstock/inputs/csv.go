package inputs

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/klauspost/compress/zstd"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// Bounds of CSV files, in this order: rows and bytes of a batch, bytes of a row, bytes of the read
// buffer, bytes per fixed-width value while a batch is built, and the memory and the zstd window of
// a decompressor.
const (
	csvRows     = 8192
	csvBytes    = 1 << 20
	csvRowBytes = 4 << 20
	csvBuffer   = 1 << 20
	csvValue    = 48
	unzipBytes  = 24 << 20
	zstdWindow  = 8 << 20
)

// csvRowsOf reads the rows of a CSV file.
type csvRowsOf struct {
	name    string
	in      *csv.Reader
	limit   *rowLimit
	builder *array.RecordBuilder
	close   func()
}

// rowLimit reads a file and fails in a row that is too long: after an unclosed quote, for example,
// the rest of the file is one row.
type rowLimit struct {
	io.Reader
	left int64
}

var errLongRow = errors.New("the row is longer than 4 MiB; it may have an unclosed quote")

// Read implements io.Reader.
func (l *rowLimit) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errLongRow
	}
	n, err := l.Reader.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// csv returns the rows of a CSV file, whose first line names the columns. o.Types returns the types
// of the columns.
//
// Errors: Invalid for a text that is not a value of its column's type (the error has its position),
// for a line with another number of fields than the first line, and for columns without a type.
func (o Options) csv(ctx context.Context, f File) (_ array.RecordReader, err error) {
	held, err := o.Budget.Reserve("a CSV file to stage", 0)
	if err != nil {
		return nil, err
	}
	content, err := o.content(ctx, f)
	if err != nil {
		held.Release()
		return nil, err
	}
	r := &csvRowsOf{name: f.Name, limit: &rowLimit{}}
	var unzip func()
	r.close = func() {
		if unzip != nil {
			unzip()
		}
		_ = content.Close()
		if r.builder != nil {
			r.builder.Release()
		}
		held.Release()
	}
	if err = held.GrowWait(ctx, csvBuffer+2*csvBytes+5*csvRowBytes); err == nil {
		r.limit.Reader, unzip, err = unzipped(ctx, f.Name, bufio.NewReaderSize(content, csvBuffer), held)
	}
	if err == nil {
		err = r.begin(ctx, o, held)
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return batch.FromFuncContext(ctx, r.builder.Schema(), r.batch, r.close), nil
}

// unzipped decompresses a file whose name ends with .gz or .zst, and returns other files unchanged.
// The returned function, unless nil, closes the decompressor.
func unzipped(ctx context.Context, name string, in io.Reader, held *budget.Reservation) (io.Reader, func(), error) {
	if !strings.HasSuffix(name, ".gz") && !strings.HasSuffix(name, ".zst") {
		return in, nil, nil
	}
	if err := held.GrowWait(ctx, unzipBytes); err != nil {
		return nil, nil, err
	}
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, nil, fault.New(fault.Corrupt, "%s cannot be decompressed: %w", name, err).In("", name).WithRemedy("write the file again")
		}
		return z, nil, nil
	}
	z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
	if err != nil {
		return nil, nil, fault.New(fault.Corrupt, "%s cannot be decompressed: %w", name, err).In("", name).WithRemedy("write the file again")
	}
	return z, z.Close, nil
}

// begin reads the first line and creates the builder.
func (r *csvRowsOf) begin(ctx context.Context, o Options, held *budget.Reservation) error {
	r.in, r.limit.left = csv.NewReader(r.limit), csvRowBytes
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
		typed, ok := known[name]
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
	if err := held.GrowWait(ctx, int64(len(fields))*csvRows*csvValue); err != nil {
		return err
	}
	r.in.ReuseRecord = true
	r.builder = array.NewRecordBuilder(batch.Cleared(), arrow.NewSchema(fields, nil))
	return nil
}

// broken returns the error of a file that cannot be read.
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
	for rows < csvRows && r.in.InputOffset()-begin < csvBytes {
		r.limit.left = csvRowBytes
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
