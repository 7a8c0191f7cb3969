package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/loader/statistics/entries"
)

// entriesText describes a dataset.
func entriesText(r *entries.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "dataset %s  training table %s  %d rows", r.Dataset, r.Training, r.Rows)
	if len(r.Partitions) > 0 {
		fmt.Fprintf(&b, "  %s by %s", fault.Count(len(r.Partitions), "partition"), r.Partition)
	}
	b.WriteByte('\n')
	writeSample(&b, r.Sample, r.Left)
	if len(r.Columns) > 0 {
		b.WriteByte('\n')
		writeSummaries(&b, r.Columns)
	}
	for _, e := range r.Entries {
		writeStagingEntry(&b, e)
	}
	return b.String()
}

// shownRates is the number of partitions with the lowest match rates that are shown.
const shownRates = 3

// writeStagingEntry describes a staging entry.
func writeStagingEntry(b *strings.Builder, e entries.Entry) {
	fmt.Fprintf(b, "\nentry %s  table %s\n", e.Name, e.Table)
	if e.Promoted {
		b.WriteString("  its values are columns of the training table, and it is unknown which rows had a match\n")
	}
	if m := e.Matches; m != nil {
		fmt.Fprintf(b, "  %d of %d training rows match (%s); %d have a null in the key, and %d match several staging rows\n",
			m.Matched, m.Rows, percent(m.MatchRate), m.NullKeys, m.Duplicates)
	}
	lowest := slices.SortedStableFunc(slices.Values(e.Partitions), func(a, b entries.PartitionMatch) int { return cmp.Compare(a.MatchRate, b.MatchRate) })
	if len(lowest) > 1 {
		texts := make([]string, 0, shownRates)
		for _, p := range lowest[:min(len(lowest), shownRates)] {
			texts = append(texts, fmt.Sprintf("%s (%s)", p.Partition, percent(p.MatchRate)))
		}
		fmt.Fprintf(b, "  the lowest match rates: %s\n", strings.Join(texts, ", "))
	}
	if k := e.Keys; k != nil {
		fmt.Fprintf(b, "  %d staging rows, %d keys: %d keys have several rows, %d match no training row; %d rows have a null in the key or the time\n",
			k.Rows, k.Keys, k.DuplicateKeys, k.OrphanKeys, k.NullRows)
	}
	if e.Age != nil && len(e.Age.Quantiles) > 0 {
		of := func(v *stats.Value) string { return strings.TrimSpace(cell(v) + " " + e.AgeUnit) }
		fmt.Fprintf(b, "  staging rows are older than their training rows by %s (median), %s (99 %%), %s at most\n",
			of(&e.Age.Quantiles[len(stats.Quantiles)/2]), of(&e.Age.Quantiles[len(stats.Quantiles)-1]), of(e.Age.Max)) //nolint:mnd // the median
	}
	if len(e.Columns) > 0 {
		b.WriteByte('\n')
		writeSummaries(b, e.Columns)
	}
}
