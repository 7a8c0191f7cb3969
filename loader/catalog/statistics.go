package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

// KeptStatistics are statistics of a snapshot that Penstock kept with the table, as JSON.
type KeptStatistics struct {
	Snapshot int64     `json:"snapshot,string"`
	Time     time.Time `json:"time,omitzero"`  // when they were made
	Rows     *int64    `json:"rows,omitempty"` // of the snapshot, without deleted rows; nil: unknown
}

// String describes the statistics.
func (k KeptStatistics) String() string {
	rows := "an unknown number of rows"
	if k.Rows != nil {
		rows = fault.Count(*k.Rows, "row")
	}
	return fmt.Sprintf("of snapshot %d, %s, made at %s", k.Snapshot, rows, k.Time.Format(time.RFC3339))
}

// LastKept returns the statistics that were made last; nil if there are none.
func LastKept(all []KeptStatistics) *KeptStatistics {
	if len(all) == 0 {
		return nil
	}
	last := slices.MaxFunc(all, func(a, b KeptStatistics) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Snapshot, b.Snapshot))
	})
	return &last
}
