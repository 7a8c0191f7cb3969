package commits

import (
	"fmt"
	"strconv"

	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// snapshotCounts has the numbers for a snapshot's summary.
type snapshotCounts struct {
	added, removed fileCounts
	partitions     map[string]bool
}

// fileCounts has the numbers of files and the sums of their rows, bytes and deletes.
type fileCounts struct {
	files, rows, bytes   int64 // bytes are of data and delete files
	deletes, vectors     int64 // delete files, and how many of these are deletion vectors
	positions, equality  int64 // deleted positions, and equality deletes
	ofPositions, ofEqual int64 // Parquet files of position deletes, and files of equality deletes
}

func (c *snapshotCounts) add(f commit.DataFile) {
	c.added.files, c.added.rows, c.added.bytes = c.added.files+1, c.added.rows+f.Rows, c.added.bytes+f.Bytes
	c.change(f.Spec, f.Partition)
}

// addDeletes counts an added delete file or deletion vector. For each vector in a file, it counts
// the bytes of this vector.
func (c *snapshotCounts) addDeletes(d catalog.DeleteFile) {
	c.added.delete(d.Kind, d.Rows, d.Size())
	c.change(d.Spec, d.Partition)
}

// remove counts a removed file.
func (c *snapshotCounts) remove(d iceberg.DataFile) {
	c.change(int(d.SpecID()), d.Partition())
	switch {
	case d.ContentType() == iceberg.EntryContentData:
		c.removed.files, c.removed.rows, c.removed.bytes = c.removed.files+1, c.removed.rows+d.Count(), c.removed.bytes+d.FileSizeBytes()
	case isVector(d):
		size := d.FileSizeBytes()
		if n := d.ContentSizeInBytes(); n != nil {
			size = *n
		}
		c.removed.delete(catalog.DeletionVector, d.Count(), size)
	case d.ContentType() == iceberg.EntryContentEqDeletes:
		c.removed.delete(catalog.EqualityDeletes, d.Count(), d.FileSizeBytes())
	default:
		c.removed.delete(catalog.PositionDeletes, d.Count(), d.FileSizeBytes())
	}
}

// delete counts a delete file.
func (c *fileCounts) delete(kind catalog.DeleteKind, rows, bytes int64) {
	c.deletes, c.bytes = c.deletes+1, c.bytes+bytes
	switch kind {
	case catalog.PositionDeletes:
		c.ofPositions, c.positions = c.ofPositions+1, c.positions+rows
	case catalog.DeletionVector:
		c.vectors, c.positions = c.vectors+1, c.positions+rows
	case catalog.EqualityDeletes:
		c.ofEqual, c.equality = c.ofEqual+1, c.equality+rows
	}
}

func (c *snapshotCounts) change(spec int, partition any) {
	if c.partitions == nil {
		c.partitions = map[string]bool{}
	}
	c.partitions[fmt.Sprint(spec, partition)] = true
}

// describe writes the numbers into a summary. It computes the totals from those of the parent. It
// leaves out a total that the parent's summary does not have.
func (c *snapshotCounts) describe(out map[string]string, parent *icetable.Snapshot) {
	added, removed := c.added, c.removed
	for name, n := range map[string]int64{
		"added-data-files": added.files, "added-records": added.rows, "added-files-size": added.bytes,
		"deleted-data-files": removed.files, "deleted-records": removed.rows, "removed-files-size": removed.bytes,
		"added-delete-files": added.deletes, "removed-delete-files": removed.deletes,
		"added-position-delete-files": added.ofPositions, "removed-position-delete-files": removed.ofPositions,
		"added-dvs": added.vectors, "removed-dvs": removed.vectors,
		"added-position-deletes": added.positions, "removed-position-deletes": removed.positions,
		"removed-equality-delete-files": removed.ofEqual, "removed-equality-deletes": removed.equality,
		"changed-partition-count": int64(len(c.partitions)),
	} {
		if n > 0 {
			out[name] = strconv.FormatInt(n, 10)
		}
	}
	for name, by := range map[string]int64{
		"total-data-files": added.files - removed.files, "total-records": added.rows - removed.rows,
		"total-files-size": added.bytes - removed.bytes, "total-delete-files": added.deletes - removed.deletes,
		"total-position-deletes": added.positions - removed.positions, "total-equality-deletes": added.equality - removed.equality,
	} {
		before := int64(0)
		if parent != nil {
			if parent.Summary == nil {
				continue
			}
			n, err := strconv.ParseInt(parent.Summary.Properties[name], 10, 64)
			if err != nil {
				continue
			}
			before = n
		}
		out[name] = strconv.FormatInt(before+by, 10)
	}
}
