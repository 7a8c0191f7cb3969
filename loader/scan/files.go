package scan

import (
	"slices"

	"github.com/penstock/penstock/loader/plan"
)

// files records the file of each row that a reader returned.
type files struct {
	of     []plan.FileRange
	rows   int64 // returned so far
	starts []scanStart
}

// scanStart is the first returned row of a file.
type scanStart struct {
	row  int64
	file int
}

// add counts rows that were returned from a file.
func (f *files) add(file int, rows int64) {
	if last := len(f.starts) - 1; last < 0 || f.starts[last].file != file {
		f.starts = append(f.starts, scanStart{row: f.rows, file: file})
	}
	f.rows += rows
}

// at returns the location of the file of a row, or "" if the row was not returned.
func (f *files) at(row int64) string {
	if row < 0 || row >= f.rows {
		return ""
	}
	at, found := slices.BinarySearchFunc(f.starts, row, func(b scanStart, row int64) int {
		return int(min(max(b.row-row, -1), 1))
	})
	if !found {
		at--
	}
	return f.of[f.starts[at].file].File.Location
}
