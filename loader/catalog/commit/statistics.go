package commit

import (
	"context"
	"maps"
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

// StatisticsKeeper keeps statistics of snapshots with the tables of one catalog. The comment of Committer also applies to it.
type StatisticsKeeper interface {
	// KeepStatistics makes a statistics file the statistics of a snapshot, and returns its location. It has the given blobs, and
	// the blobs of other programs in the snapshot's file of before, unchanged. It does not have Penstock's blobs of before, nor
	// a sketch of a column of which another program has left one. If another program sets the snapshot's statistics at the same time, a
	// catalog that writes metadata itself may lose the other program's file.
	KeepStatistics(ctx context.Context, keep SnapshotStatistics) (location string, err error)
}

// SnapshotStatistics are statistics of a snapshot.
type SnapshotStatistics struct {
	Table    string
	UUID     string // of the table; another table of the same name is not changed
	Snapshot int64
	Report   StatisticsBlob
	Sketches []StatisticsBlob // each of one column
	// Time is when the statistics were made, and Rows is the number of rows that they describe.
	Time time.Time
	Rows int64
	// CreatedBy names the program and its version.
	CreatedBy string
}

// StatisticsBlob is a blob of a statistics file.
type StatisticsBlob struct {
	Fields     []int // ids of columns
	Properties map[string]string
	Content    []byte
}

// ReportBlob is the type of the blob with Penstock's report, as JSON.
const ReportBlob = "penstock-stats-v1"

// The properties of Penstock's blobs. Those of other programs may have properties of the same names, but not CreatedByUs.
const (
	BlobCreatedBy = "created-by"
	CreatedByUs   = "penstock"
	BlobRows      = "rows"
	BlobTime      = "time"
	// BlobDistinct is the number of distinct values of a sketch, as the specification of Puffin files names it.
	BlobDistinct = "ndv"
)

// Check returns Invalid for statistics that contradict themselves.
func (s SnapshotStatistics) Check() error {
	if s.Table == "" || s.Snapshot == 0 {
		return fault.InvalidField("snapshot", "statistics to keep need a table and a snapshot")
	}
	for _, b := range s.Sketches {
		if len(b.Fields) != 1 {
			return fault.InvalidField("sketches", "a sketch is of %s", fault.Count(len(b.Fields), "column"))
		}
	}
	return nil
}

// BlobProperties returns the properties of one of the blobs: those that all of them have, and its own.
func (s SnapshotStatistics) BlobProperties(of StatisticsBlob) map[string]string {
	out := map[string]string{
		BlobCreatedBy: CreatedByUs, BlobRows: strconv.FormatInt(s.Rows, 10), BlobTime: s.Time.UTC().Format(time.RFC3339),
	}
	maps.Copy(out, of.Properties)
	return out
}
