package inputs

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/klauspost/compress/zstd"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

// Limits for files of text. A batch has at most textRows rows, and gets no more rows when it has
// textBytes bytes of text. A row has at most textRowBytes bytes. The read buffer has textBuffer
// bytes. While a batch is built, a value of a fixed width takes at most textValue bytes. A
// decompressor takes at most unzipBytes bytes, and its zstd window has at most zstdWindow bytes.
const (
	textRows     = 8192
	textBytes    = 1 << 20
	textRowBytes = 4 << 20
	textBuffer   = 1 << 20
	textValue    = 48
	unzipBytes   = 24 << 20
	zstdWindow   = 8 << 20
)

// textFile is an open file of text, which may be compressed.
type textFile struct {
	name    string
	limit   *rowLimit
	held    *budget.Reservation
	builder *array.RecordBuilder // nil until the columns are known
	closers []func()
}

// rowLimit reads a file, and returns an error if a row is too long. After an unclosed quote, for
// example, the rest of the file would be one row.
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

// textFile opens a file, and reserves the memory that reading its rows needs. The caller closes the
// textFile.
func (o Options) textFile(ctx context.Context, f File) (*textFile, error) {
	held, err := o.Budget.Reserve("a file of text to stage", 0)
	if err != nil {
		return nil, err
	}
	t := &textFile{name: f.Name, limit: &rowLimit{}, held: held, closers: []func(){held.Release}}
	content, err := o.content(ctx, f)
	if err == nil {
		t.closers = append(t.closers, func() { _ = content.Close() })
		err = held.GrowWait(ctx, textBuffer+2*textBytes+5*textRowBytes)
	}
	if err == nil {
		t.limit.Reader, err = t.unzipped(ctx, bufio.NewReaderSize(content, textBuffer))
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// close closes the file and releases the memory.
func (t *textFile) close() {
	if t.builder != nil {
		t.builder.Release()
	}
	for i := range t.closers {
		t.closers[len(t.closers)-1-i]()
	}
}

// unzipped decompresses a file whose name ends with .gz or .zst, and returns other files unchanged.
func (t *textFile) unzipped(ctx context.Context, in io.Reader) (io.Reader, error) {
	if !strings.HasSuffix(t.name, ".gz") && !strings.HasSuffix(t.name, ".zst") {
		return in, nil
	}
	if err := t.held.GrowWait(ctx, unzipBytes); err != nil {
		return nil, err
	}
	corrupt := func(err error) error {
		return fault.New(fault.Corrupt, "%s cannot be decompressed: %w", t.name, err).In("", t.name).WithRemedy("write the file again")
	}
	if strings.HasSuffix(t.name, ".gz") {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, corrupt(err)
		}
		return z, nil
	}
	z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
	if err != nil {
		return nil, corrupt(err)
	}
	t.closers = append(t.closers, z.Close)
	return z, nil
}
