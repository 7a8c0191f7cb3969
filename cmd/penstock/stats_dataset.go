package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/drift"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/stats"
	"github.com/penstock/penstock/loader/statistics"
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
		writeStagingEntry(&b, e, r.Against)
	}
	return b.String()
}

// shownRates is the number of partitions with the lowest match rates that are shown.
const shownRates = 3

// lowRate is how far a match rate is below the median of all partitions if it is shown.
const lowRate = 0.02

// lowRates returns the match rates that are noticeably below those of most partitions, with those of the base of a comparison, which may be
// nil; "" if there are none.
func lowRates(e entries.Entry, of *statistics.Comparison) string {
	rates := slices.SortedStableFunc(slices.Values(e.Partitions), func(a, b entries.PartitionMatch) int { return cmp.Compare(a.MatchRate, b.MatchRate) })
	var texts []string
	for _, p := range rates[:min(len(rates), shownRates)] {
		if p.MatchRate >= rates[len(rates)/2].MatchRate-lowRate {
			break
		}
		base := ""
		if of != nil {
			at := slices.IndexFunc(of.Changes, func(c drift.Change) bool {
				return c.Measure == drift.MatchRate && c.Column == e.Name && c.Partition == p.Partition
			})
			if at >= 0 {
				base = ", and " + percent(*of.Changes[at].Base) + " in the base"
			}
		}
		texts = append(texts, fmt.Sprintf("%s (%s%s)", p.Partition, percent(p.MatchRate), base))
	}
	return strings.Join(texts, ", ")
}

// writeStagingEntry describes a staging entry of a dataset that is compared with a base, which may be nil.
func writeStagingEntry(b *strings.Builder, e entries.Entry, of *statistics.Comparison) {
	fmt.Fprintf(b, "\nentry %s  table %s\n", e.Name, e.Table)
	if e.Promoted {
		b.WriteString("  its values are columns of the training table, and it is unknown which rows had a match\n")
	}
	if m := e.Matches; m != nil {
		fmt.Fprintf(b, "  %d of %d training rows match (%s); %d have a null in the key, and %d match several staging rows\n",
			m.Matched, m.Rows, percent(m.MatchRate), m.NullKeys, m.Duplicates)
	}
	if e.Note != "" {
		fmt.Fprintf(b, "  %s\n", e.Note)
	}
	if low := lowRates(e, of); low != "" {
		fmt.Fprintf(b, "  the lowest match rates: %s\n", low)
	}
	if k := e.Keys; k != nil {
		fmt.Fprintf(b, "  %d staging rows, %d keys: %d keys have several rows, %d match no training row; %d rows have a null in the key or the time\n",
			k.Rows, k.Keys, k.DuplicateKeys, k.OrphanKeys, k.NullRows)
	}
	if e.Age != nil && len(e.Age.Quantiles) > 0 {
		fmt.Fprintf(b, "  staging rows are older than their training rows by %s (median), %s (99 %%), %s at most\n",
			e.AgeText(e.Age.Quantiles[len(stats.Quantiles)/2]), e.AgeText(e.Age.Quantiles[len(stats.Quantiles)-1]), e.AgeText(*e.Age.Max)) //nolint:mnd // the median
	}
	if len(e.Columns) > 0 {
		b.WriteByte('\n')
		writeSummaries(b, e.Columns)
	}
}
