package joined

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
)

// SourceRows reads the rows of one source.
type SourceRows interface {
	array.RecordReader
	// Begin starts to read the rows already before the first Next.
	Begin()
	// Files returns a function that names the file of each returned row, given the row's number
	// from 0. The function remains valid after Release, and does not keep the rows in memory. Build
	// sides keep the function for their lifetime, so other streams may call it later.
	Files() func(row int64) string
}

// SourceScan opens the rows of a source that pass the source's filter. The rows come in the order
// of the source's files. They have the given columns, in the given order and under the columns' own
// names. Nothing is read before Begin or the first Next.
type SourceScan func(ctx context.Context, source plan.Source, columns []catalog.Field) (SourceRows, error)

// SharedReads holds stored bytes for several scans of a stream, so that scans of the same row group
// read its bytes only once. The code that creates a SharedReads closes it.
type SharedReads interface {
	// Expect announces a scan, and returns the source with which the scan is opened later. As long
	// as there is memory, bytes that the scan will need are kept until the scan has read them, or
	// until Done of the returned source's Shared is called.
	Expect(source plan.Source) plan.Source
	// Close releases all bytes that no open scan uses.
	Close()
}

// separateReads is a SharedReads whose scans share nothing.
type separateReads struct{}

func (separateReads) Expect(source plan.Source) plan.Source { return source }

func (separateReads) Close() {}

// derivedRows are rows that are derived from the rows of a scan, with Begin and Files of that scan.
type derivedRows struct {
	array.RecordReader
	of SourceRows
}

// Begin implements SourceRows.
func (d derivedRows) Begin() { d.of.Begin() }

// Files implements SourceRows.
func (d derivedRows) Files() func(row int64) string { return d.of.Files() }

// withFiles makes rows an input of package joiner, which uses the rows' Files to name files in
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
