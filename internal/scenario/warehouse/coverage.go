package warehouse

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/scenario"
)

// Coverage counts the properties and outcomes of a case. It distinguishes changed columns that were
// read ("read: …") and changed columns that were not read while other columns were ("beside: …").
func (w *Written) Coverage(out Outcome) scenario.Coverage {
	seen := scenario.Coverage{}
	if out.Refused != "" {
		seen["refused"]++
		seen["refused: "+out.Refused]++
		if _, how, ok := strings.Cut(out.Refused, ", "); ok {
			seen["refused, "+how]++
		}
	}
	reads := w.Reads()
	for table, h := range w.Histories {
		seen.Add(h.coverage())
		if out.Refused != "" {
			continue
		}
		for _, x := range h.Changes {
			what := "beside: "
			if slices.Contains(reads[table], x.Column) {
				what = "read: "
			}
			seen[what+string(x.Kind)]++
			if x.Late {
				seen[what+"late"]++
			}
			if x.Default != "" {
				seen[what+"default"]++
			}
		}
		if slices.ContainsFunc(w.columns[table].lacked, func(name string) bool { return slices.Contains(reads[table], name) }) {
			seen["read: by partitions alone"]++
		}
		for what := range w.columns[table].parted {
			seen["read: partitions by "+what]++
		}
		w.stored(table, reads[table], seen)
		if w.World.Erased(table) {
			for _, e := range h.Erased {
				seen["read: "+string(e.By)]++
			}
		}
		if w.columns[table].withoutIDs > 0 {
			seen["read: by names"]++
		}
		if w.World.Unordered(table) {
			seen["beside: an order that is not known"]++
		}
	}
	if rows := w.Expect(w.World).Rows; out.Refused == "" && len(rows) > 0 {
		seen["rows"]++
	}
	for _, t := range w.tables() {
		if len(t.Specs) > 1 {
			seen["several specs"]++
		}
	}
	return seen
}

// stored counts the columns that were read and that some file stores in a form other than
// Iceberg's. It counts them by form and by the role of the column.
func (w *Written) stored(table string, reads []string, seen scenario.Coverage) {
	role := "staging"
	if table == w.Training.Name {
		role = "training"
	}
	filters := filtered(w.Case, table)
	for name, forms := range w.columns[table].stores {
		if !slices.Contains(reads, name) {
			continue
		}
		for _, f := range forms {
			seen["read: stored as "+string(f)]++
			seen["read: "+role+", stored as "+string(f)]++
			if slices.Contains(filters, name) {
				seen["read: filter, stored as "+string(f)]++
			}
			if slices.Contains(w.Dataset.Key, name) {
				seen["read: key, stored as "+string(f)]++
			}
		}
	}
}

func (h History) coverage() scenario.Coverage {
	seen := scenario.Coverage{fmt.Sprintf("format %d", h.Format): 1}
	if h.Upgrade > 0 {
		seen["format 1, then 2"]++
	}
	if len(h.Lost) > 1 {
		seen["several commits"]++
	}
	if h.Merged > 0 {
		seen["manifests merged"]++
	}
	for _, lost := range h.Lost {
		if lost {
			seen["snapshots expired"]++
			break
		}
	}
	return seen
}
