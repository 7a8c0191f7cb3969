package history

import (
	"slices"
	"time"

	"github.com/penstock/penstock/loader/catalog/commit"
)

// Description describes a table in a list of tables, as JSON. A count is absent if the summary of
// the snapshot does not have it.
type Description struct {
	Table string `json:"table"`
	// Snapshot is the snapshot that main is at, or 0 if the table has no snapshots and so is empty.
	Snapshot int64     `json:"snapshot,omitempty,string"`
	Time     time.Time `json:"time,omitzero"` // of the snapshot
	// Rows and Bytes are totals for all data files. Deletes is the number of positions and values
	// in delete files. The rows that they delete are still counted in Rows.
	Rows    *int64 `json:"rows,omitempty"`
	Deletes *int64 `json:"deletes,omitempty"`
	Bytes   *int64 `json:"bytes,omitempty"`
	Files   *int64 `json:"files,omitempty"`
	// Partition are the fields of the current partition spec, such as bucket[16](request_id).
	Partition []string `json:"partition"`
	// Datasets are the server's datasets that read the table and that the client may read.
	Datasets []string `json:"datasets"`
	// Withheld is true if the client may not see the counts and times of the table. These fields
	// are then absent.
	Withheld bool `json:"withheld,omitempty"`
	// Error is why the table cannot be described; "" if it can.
	Error string `json:"error,omitempty"`
}

// Describe returns the current state of a table. If counts is false, the description has only the
// table's name and its partition fields.
func (t *Table) Describe(counts bool) Description {
	out := Description{Table: t.Name, Partition: append([]string{}, t.Partition...), Datasets: []string{}, Withheld: !counts}
	if !counts {
		return out
	}
	i := slices.IndexFunc(t.Snapshots, func(s Snapshot) bool { return s.ID == t.Refs[commit.Main].Snapshot })
	if i < 0 {
		zero := int64(0)
		out.Rows, out.Deletes, out.Bytes, out.Files = &zero, &zero, &zero, &zero
		return out
	}
	s := &t.Snapshots[i]
	out.Snapshot, out.Time = s.ID, s.Time.UTC()
	out.Rows, out.Bytes, out.Files = countOf(s, "total-records"), countOf(s, "total-files-size"), countOf(s, "total-data-files")
	positions, equal := countOf(s, "total-position-deletes"), countOf(s, "total-equality-deletes")
	if positions != nil && equal != nil {
		all := *positions + *equal
		out.Deletes = &all
	}
	return out
}
