package commits

import (
	"maps"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"

	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
)

// removing has the files that a change removes, and those of them that were not found yet.
type removing struct {
	files, deletes map[string]bool // all, by location
	left           map[string]bool // locations of data files that were not found yet
	leftDeletes    map[string]bool // locations of delete files that were not found yet
}

func newRemoving(change commit.Change) *removing {
	out := &removing{files: map[string]bool{}, deletes: map[string]bool{}}
	for _, location := range change.Remove {
		out.files[location] = true
	}
	for _, location := range change.RemoveDeletes {
		out.deletes[location] = true
	}
	out.left, out.leftDeletes = maps.Clone(out.files), maps.Clone(out.deletes)
	return out
}

// none reports whether the change removes no files.
func (r *removing) none() bool { return len(r.files)+len(r.deletes) == 0 }

// concerns reports whether a manifest may have entries of files to remove.
func (r *removing) concerns(m iceberg.ManifestFile) bool {
	if m.ManifestContent() == iceberg.ManifestContentDeletes {
		// Only format version 3 has deletion vectors, which are removed with their data files.
		return len(r.deletes) > 0 || len(r.files) > 0 && m.Version() >= metadata.LineageVersion
	}
	return len(r.left) > 0
}

// takes reports whether a file is removed. A deletion vector is removed with its data file.
func (r *removing) takes(d iceberg.DataFile) bool {
	if d.ContentType() == iceberg.EntryContentData {
		return r.left[d.FilePath()]
	}
	of := d.ReferencedDataFile()
	return r.deletes[d.FilePath()] || of != nil && isVector(d) && r.files[*of]
}

// took records that a file was removed.
func (r *removing) took(d iceberg.DataFile) {
	if d.ContentType() == iceberg.EntryContentData {
		delete(r.left, d.FilePath())
	} else {
		delete(r.leftDeletes, d.FilePath())
	}
}

// missing returns the locations of the files that were not found.
func (r *removing) missing() []string {
	return append(slices.Sorted(maps.Keys(r.left)), slices.Sorted(maps.Keys(r.leftDeletes))...)
}

// isVector reports whether a delete file is a deletion vector.
func isVector(d iceberg.DataFile) bool {
	return d.ContentType() == iceberg.EntryContentPosDeletes && strings.EqualFold(string(d.FileFormat()), string(iceberg.PuffinFile))
}
