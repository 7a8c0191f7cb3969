package explain

import (
	"fmt"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// readSize is the size of files of one table, and of the columns that are read from them.
type readSize struct {
	all     int64 // the size of whole files
	columns int64 // the size of the columns that are read; if the column sizes of a file are unknown, the size of the whole file
	whole   int   // how many files have unknown column sizes
	known   int   // how many files have known column sizes
}

// add counts a file.
func (s *readSize) add(f catalog.File, known map[string]int64) {
	s.all += f.Bytes
	if size, ok := known[f.Location]; ok {
		s.columns += min(size, f.Bytes)
		s.known++
		return
	}
	s.columns += f.Bytes
	s.whole++
}

// sizeOfFiles returns the size of files of a table. table is the index of a staging entry, or
// resolve.TrainingTable.
func sizeOfFiles(sizes *plan.ColumnSizes, table int, files []catalog.File) readSize {
	var s readSize
	for _, f := range files {
		s.add(f, sizes.Of(table))
	}
	return s
}

// sizeOfGroups returns the total size of the file groups of a staging entry that at least one split
// needs. Each group counts once.
func sizeOfGroups(p *plan.Plan, sizes *plan.ColumnSizes, entry int) readSize {
	var s readSize
	seen := map[int]bool{resolve.NoGroup: true}
	for _, split := range p.Splits {
		number := split.Groups[entry]
		if seen[number] {
			continue
		}
		seen[number] = true
		for _, f := range p.Staging[entry].Groups[number].Files {
			s.add(f, sizes.Of(entry))
		}
	}
	return s
}

// String describes the size for people.
func (s readSize) String() string {
	switch {
	case s.known == 0:
		return fault.Size(s.all) + " with all columns"
	case s.whole == 0:
		return fmt.Sprintf("about %s of %s for its columns", fault.Size(s.columns), fault.Size(s.all))
	}
	return fmt.Sprintf("up to %s of %s for its columns, %s counted whole", fault.Size(s.columns), fault.Size(s.all), plan.Counted(s.whole, "file"))
}

// brief is like String, for a line of a drawing.
func (s readSize) brief() string {
	if s.known == 0 || s.whole == 0 {
		return s.String()
	}
	return fmt.Sprintf("up to %s of %s, %s whole", fault.Size(s.columns), fault.Size(s.all), plan.Counted(s.whole, "file"))
}

// short describes the size in a few words.
func (s readSize) short() string {
	switch {
	case s.known == 0:
		return fault.Size(s.all)
	case s.whole == 0:
		return "about " + fault.Size(s.columns)
	}
	return "up to " + fault.Size(s.columns)
}

// plus returns the sum of s and other.
func (s readSize) plus(other readSize) readSize {
	return readSize{s.all + other.all, s.columns + other.columns, s.whole + other.whole, s.known + other.known}
}
