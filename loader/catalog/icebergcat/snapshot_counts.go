package icebergcat

import (
	"fmt"
	"strconv"

	icetable "github.com/apache/iceberg-go/table"

	"github.com/penstock/penstock/loader/catalog/commit"
)

// snapshotCounts are the numbers in a snapshot's summary.
type snapshotCounts struct {
	added, removed struct{ files, rows, bytes int64 }
	partitions     map[string]bool
}

func (c *snapshotCounts) add(f commit.DataFile) {
	c.added.files, c.added.rows, c.added.bytes = c.added.files+1, c.added.rows+f.Rows, c.added.bytes+f.Bytes
	c.change(f.Spec, f.Partition)
}

func (c *snapshotCounts) change(spec int, partition any) {
	if c.partitions == nil {
		c.partitions = map[string]bool{}
	}
	c.partitions[fmt.Sprint(spec, partition)] = true
}

// describe writes the numbers into a summary. Totals are those of the parent, changed; where
// the parent has none, they are left out.
func (c *snapshotCounts) describe(out map[string]string, parent *icetable.Snapshot) {
	for name, n := range map[string]int64{
		"added-data-files": c.added.files, "added-records": c.added.rows, "added-files-size": c.added.bytes,
		"deleted-data-files": c.removed.files, "deleted-records": c.removed.rows, "removed-files-size": c.removed.bytes,
		"changed-partition-count": int64(len(c.partitions)),
	} {
		if n > 0 {
			out[name] = strconv.FormatInt(n, 10)
		}
	}
	for name, by := range map[string]int64{
		"total-data-files": c.added.files - c.removed.files, "total-records": c.added.rows - c.removed.rows,
		"total-files-size": c.added.bytes - c.removed.bytes, "total-delete-files": 0, "total-position-deletes": 0, "total-equality-deletes": 0,
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
