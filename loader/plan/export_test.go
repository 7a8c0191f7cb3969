package plan

import "github.com/penstock/penstock/loader/catalog"

// SplitRows is the target number of rows of a split.
const SplitRows = splitRows

// ByCommit compares files by when they were written.
var ByCommit = byCommit

// ArrivalOf returns what is known of the order in which files were written.
func ArrivalOf(files []catalog.File) *Arrival {
	out := &Arrival{files: map[string]catalog.File{}}
	for _, f := range files {
		out.files[f.Location] = f
	}
	return out
}
