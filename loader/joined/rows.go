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
