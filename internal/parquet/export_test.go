package parquet

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/parquet/charged"
	"github.com/penstock/penstock/internal/parquet/page"
	"github.com/penstock/penstock/internal/parquet/thrift"
)

// PageHeaders returns the start and end of each page header in a column chunk.
func PageHeaders(chunk []byte) ([][2]int, error) {
	var out [][2]int
	for t := (thrift.Reader{Rest: chunk}); len(t.Rest) > 0; {
		from := len(chunk) - len(t.Rest)
		h, _, err := page.ReadBody(&t)
		if err != nil {
			return nil, err
		}
		out = append(out, [2]int{from, len(chunk) - len(t.Rest) - int(h.Stored)})
	}
	return out, nil
}

// CheckPages walks the pages of all leaves of a file, as a reader does before decoding.
func CheckPages(f *File, content []byte) error {
	for group := range f.meta.RowGroups {
		for leaf := range f.meta.RowGroups[group].Columns {
			span := f.chunkSpan(group, leaf)
			if _, err := page.Check(f.describe(group, leaf), content[span.start:span.start+span.length], false); err != nil {
				return err
			}
		}
	}
	return nil
}

// Stored returns the stored bytes of columns in a row group, which are what Read reads
// except for small gaps. Ids that the file lacks are ignored.
func (f *Footer) Stored(rowGroup int, ids []int) int64 {
	var sum int64
	for _, id := range ids {
		field, _ := f.Field(id)
		for _, leaf := range field.Leaves {
			sum += f.chunkSpan(rowGroup, leaf).length
		}
	}
	return sum
}

// PageRows returns the rows of each page of a leaf's chunk in a file of one row group, by its
// headers; -1 for a dictionary.
func PageRows(f *File, leaf int, chunk []byte) ([]int64, error) {
	var out []int64
	for t := (thrift.Reader{Rest: chunk}); len(t.Rest) > 0; {
		h, _, err := page.ReadBody(&t)
		switch {
		case err != nil:
			return nil, err
		case !h.IsData():
			out = append(out, -1)
		case f.meta.Schema.Column(leaf).MaxRepetitionLevel() > 0:
			out = append(out, h.Rows)
		default:
			out = append(out, h.Count)
		}
	}
	return out, nil
}

// DictionaryBytes returns the decompressed size of the dictionary of a leaf in the first row group.
func DictionaryBytes(f *File, leaf int) (int, bool) {
	span := f.chunkSpan(0, leaf)
	chunk := make([]byte, span.length)
	if f.obj.ReadAt(context.Background(), memory.NewBufferBytes(chunk), span.start) != nil {
		return 0, false
	}
	h, _, err := page.ReadBody(&thrift.Reader{Rest: chunk})
	return int(h.Uncompressed), err == nil && h.Kind == page.Dictionary
}

// ViewOf returns the rows of the open row group that the pages which a reader decodes of a leaf
// have, or false if it decodes all.
func (r *Reader) ViewOf(leaf int) (from, to int64, viewed bool) {
	for _, c := range r.group.columns {
		for _, chunk := range c.chunks {
			if v := chunk.viewed; chunk.leaf == leaf && v != nil {
				return v.Row, v.Row + v.Rows, true
			}
		}
	}
	return 0, 0, false
}

// OfLibrary returns the names of the columns of the open row group that the library decodes.
func (r *Reader) OfLibrary() []string {
	out := []string{}
	for _, c := range r.group.columns {
		if c.ofLibrary != nil {
			out = append(out, c.conversion.Path)
		}
	}
	return out
}

// Leaves returns the number of leaves of a file.
func Leaves(f *File) int { return f.meta.Schema.NumColumns() }

// Chunk returns the range of a leaf's chunk in a file.
func Chunk(f *File, rowGroup, leaf int) (start, end int64) {
	s := f.chunkSpan(rowGroup, leaf)
	return s.start, s.end()
}

// AwaitFetch waits until no read ahead is running.
func (r *Reader) AwaitFetch() {
	if r.ahead.fetch != nil {
		<-r.ahead.fetch.done
	}
}

// ReadBeyond reads the first bytes of a file as the library does if a chunk is longer than in the
// footer.
func ReadBeyond(ctx context.Context, f *File, scratch memory.Allocator, length int) error {
	s := &source{ctx: ctx, file: f, scratch: new(charged.Account).NewGroup(scratch)}
	_, err := s.ReadAt(make([]byte, length), 0)
	return err
}
