package foreign

import (
	"context"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	ownparquet "github.com/penstock/penstock/internal/parquet"
)

// decodedFile is a file that package parquet decodes, which takes less than half of the library's
// processor time. The stored bytes of a row group are in memory while it is decoded.
type decodedFile struct {
	*ownparquet.File
	ids    []int // the ids that the columns were given, in the order of the file
	schema *arrow.Schema
}

// newDecodedFile returns a local file with the given schema, or nil if the library decodes it: if a
// column has a type that is not decoded, or if the file has a structure that package parquet does
// not accept.
func newDecodedFile(ctx context.Context, path string, content Content, schema *arrow.Schema, limit *budget.Budget) *decodedFile {
	if _, local := content.(localFile); !local || slices.ContainsFunc(schema.Fields(), func(f arrow.Field) bool { return !isDecoded(f.Type) }) {
		return nil
	}
	object := contentObject{content, path}
	footer, err := ownparquet.ReadFooter(ctx, object, ownparquet.FooterLimits{Budget: limit})
	if err != nil || len(footer.Fields()) != schema.NumFields() {
		return nil
	}
	out := &decodedFile{schema: schema}
	ids := map[string]int{}
	for i, f := range footer.Fields() {
		if wanted := schema.Field(i); f.Name != wanted.Name || f.Nullable != wanted.Nullable || !arrow.TypeEqual(f.Type, wanted.Type) {
			return nil
		}
		ids[f.Name] = 2 * (i + 1)
		out.ids = append(out.ids, ids[f.Name])
	}
	footer, err = footer.ApplyNameMapping(func(names []string) (id, inside int, ok bool) {
		if id, ok = ids[names[0]]; len(names) > 1 { // the element of a list
			id++
		}
		return id, 0, ok
	})
	if err != nil {
		return nil
	}
	if out.File, err = ownparquet.Open(ctx, object, ownparquet.Options{Footer: footer}); err != nil {
		return nil
	}
	return out
}

// isDecoded reports whether columns of a type are decoded by package parquet.
func isDecoded(t arrow.DataType) bool {
	if list, ok := t.(*arrow.ListType); ok {
		return isDecodedValue(list.Elem())
	}
	return isDecodedValue(t)
}

func isDecodedValue(t arrow.DataType) bool {
	switch t := t.(type) {
	case *arrow.BooleanType, *arrow.Int32Type, *arrow.Int64Type, *arrow.Float32Type, *arrow.Float64Type, *arrow.StringType, *arrow.BinaryType, *arrow.Date32Type:
		return true
	case *arrow.TimestampType:
		return t.Unit == arrow.Microsecond
	}
	return false
}

// contentObject adapts a Content to store.Object.
type contentObject struct {
	Content
	location string
}

// ReadAt implements store.Object.
func (o contentObject) ReadAt(ctx context.Context, p *memory.Buffer, off int64) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, err := io.ReadFull(io.NewSectionReader(o.Content, off, int64(p.Len())), p.Bytes()); err != nil {
		return fault.New(fault.Unavailable, "%w", err).In("", o.location).WithRemedy("check the disk")
	}
	return nil
}

// Location implements store.Object.
func (o contentObject) Location() string { return o.location }

// has reports whether package parquet decodes a row group. f may be nil. The library decodes row
// groups that take more than most bytes in the file, or have an encoding that package parquet does
// not accept.
func (f *decodedFile) has(ctx context.Context, group int, most int64) bool {
	if f == nil || f.RowGroups()[group].Bytes > most {
		return false
	}
	in, err := f.read(ctx, group, 1, 0, nil)
	if err != nil {
		return false
	}
	in.Release() // it has read nothing
	return true
}

// read returns a reader of the rows of a row group from the given one on.
func (f *decodedFile) read(ctx context.Context, group int, rows, from int64, admit func(n, batch int64) error) (*ownparquet.Reader, error) {
	return f.Read(ctx, ownparquet.ReadOptions{
		Fields: f.ids, Schema: f.schema, RowGroups: []int{group}, From: f.RowGroups()[group].FirstRow + from, BatchRows: int(rows), Admit: admit,
	})
}

// decoded is like some, for a row group that package parquet decodes.
func (g *rowGroup) decoded(ctx context.Context, held *budget.Reservation, rows, after int64) (sent int64, err error) {
	var refused error
	in, err := g.of.decoded.read(ctx, g.number, rows, after, func(n, batch int64) error {
		switch {
		case n < 0:
			g.giveBack(held, -n)
			return nil
		case refused != nil:
		case rows > 1 && batch > g.most:
			refused = tooLargeError{}
		default:
			refused = g.reserve(ctx, held, n)
		}
		return refused
	})
	if err != nil {
		return 0, err
	}
	defer in.Release()
	for in.Next() { //nolint:contextcheck // the reader has the context of its read
		b := in.RecordBatch()
		if err := g.send(ctx, held, b, in.Admitted()); err != nil {
			return sent, err
		}
		sent += b.NumRows()
	}
	err = in.Err()
	switch {
	case refused != nil:
		return sent, refused
	case fault.KindOf(err) == fault.Corrupt:
		return sent, g.of.undecodable(err)
	}
	return sent, err
}
