package joined

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
)

// SourceRows are the rows of one source.
type SourceRows interface {
	array.RecordReader
	// Begin starts to read the rows before the first Next.
	Begin()
	// Files returns a function that names the file of each returned row, counted from
	// 0. The function remains valid after Release and retains nothing else of the rows:
	// build sides keep it for their lifetime, and other streams may use it by then.
	Files() func(row int64) string
}

// SourceScan opens a source: the rows that pass its filter, in the order of its files, with
// the given columns, in that order and under their own names. It reads nothing before
// Begin or the first Next.
type SourceScan func(ctx context.Context, source plan.Source, columns []catalog.Field) (SourceRows, error)

// SharedReads holds the stored bytes that some scans of a stream share, so that scans in the same
// row group read them once. Its owner closes it.
type SharedReads interface {
	// Expect announces a scan, and returns the source to open it with. The bytes that it will
	// need are kept, as long as there is memory, until it has read them or its Shared is Done.
	Expect(source plan.Source) plan.Source
	// Close releases all bytes that no open scan uses.
	Close()
}

// separateReads is a SharedReads whose scans share nothing.
type separateReads struct{}

func (separateReads) Expect(source plan.Source) plan.Source { return source }

func (separateReads) Close() {}

// derivedRows are rows derived one for one from those of a scan.
type derivedRows struct {
	array.RecordReader
	of SourceRows
}

// Begin implements SourceRows.
func (d derivedRows) Begin() { d.of.Begin() }

// Files implements SourceRows.
func (d derivedRows) Files() func(row int64) string { return d.of.Files() }

// withFiles makes rows an input of the joiner, which uses their Files to name files in
// errors.
func withFiles(open func(ctx context.Context) (SourceRows, error)) joiner.Input {
	var files func(row int64) string
	return joiner.Input{
		Open: func(ctx context.Context) (array.RecordReader, error) {
			rows, err := open(ctx)
			if err != nil {
				return nil, err
			}
			files = rows.Files()
			return rows, nil
		},
		File: func(row int64) string { return files(row) },
	}
}
