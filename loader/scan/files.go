package scan

import (
	"slices"

	"github.com/penstock/penstock/loader/plan"
)

// files says which file each row came from that a reader gave.
type files struct {
	of      []plan.FileRange
	given   int64
	borders []border
}

// border is where the rows of a file begin among those that were given.
type border struct {
	row  int64
	file int
}

// add counts rows of a file that are given.
func (f *files) add(file int, rows int64) {
	if last := len(f.borders) - 1; last < 0 || f.borders[last].file != file {
		f.borders = append(f.borders, border{row: f.given, file: file})
	}
	f.given += rows
}

// at returns the location of a row's file.
func (f *files) at(row int64) string {
	if row < 0 || row >= f.given {
		return ""
	}
	at, found := slices.BinarySearchFunc(f.borders, row, func(b border, row int64) int {
		return int(min(max(b.row-row, -1), 1))
	})
	if !found {
		at--
	}
	return f.of[f.borders[at].file].File.Location
}
