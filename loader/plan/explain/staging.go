package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// writeStaging describes how one staging table is matched, read and held in memory, or says that it
// is not read.
func writeStaging(b *strings.Builder, p *plan.Plan, sizes *plan.ColumnSizes, i int, needed bool) {
	r, s := p.Relation.Staging[i], p.Staging[i]
	fmt.Fprintf(b, "staging %s: %s\n", r.Name, pinText(r.Pinned))
	writeKept(b, r.Pinned)
	if r.Promoted != nil {
		b.WriteString("  not joined: its values at this snapshot are columns of the training table, by a promotion\n\n")
		return
	}
	keys := make([]string, len(r.Keys))
	for k, key := range r.Keys {
		keys[k] = key.Training.Name + " = " + key.Staging.Name
	}
	fmt.Fprintf(b, "  join %s on %s%s\n", r.Join, strings.Join(keys, " and "), rulesText(r))
	if !needed || s.Unread {
		b.WriteString("  not read: the query uses none of its values, it neither drops nor repeats rows, and missing keys are no error\n\n")
		return
	}
	fmt.Fprintf(b, "  strategy %s\n", strategyText(r))
	if r.Rows != nil {
		fmt.Fprintf(b, "  filter %s; pruned %s\n", r.Rows, plan.Counted(s.Pruned, "file"))
	}
	use := p.StagingUse(i)
	if use.Groups == 0 {
		b.WriteString("  match: no file can match, nothing is read\n")
		writeUnaligned(b, p, i)
		b.WriteString("\n")
		return
	}
	writeSorted(b, p, i)
	writeLayout(b, p, i)
	writeUnaligned(b, p, i)
	fmt.Fprintf(b, "  reads %s, %s, each once while it is kept; amplification %.2f of %s",
		plan.Counted(use.Groups, "file group"), sizeOfGroups(p, sizes, i), use.Amplification(), fault.Size(use.Stored))
	if use.Read > use.Once {
		fmt.Fprintf(b, "; up to %.2f if memory and local disk keep none", use.Worst())
	}
	b.WriteString("\n")
	writeDeletes(b, p.Staging[i].Files())
	fmt.Fprintf(b, "  memory about %s: the largest file group, %s of files with %s, times %d for decoding",
		fault.Size(use.Memory()), fault.Size(use.Largest.Bytes), plan.Counted(use.Largest.Rows, "row"), plan.Decoded)
	if use.AtOnce > 1 {
		fmt.Fprintf(b, ", for each of %d that a window and the one before it need", use.AtOnce)
	}
	b.WriteString("\n\n")
}

// rulesText names the rules of an entry that apply to single rows.
func rulesText(r resolve.Staging) string {
	var b strings.Builder
	switch {
	case r.Join.Replaces():
		fmt.Fprintf(&b, ", nulls %s, duplicates %s", r.Nulls, r.Duplicates)
	case r.Join.Adds():
		fmt.Fprintf(&b, ", missing %s, duplicates %s", r.Missing, r.Duplicates)
	}
	for i, o := range r.Order {
		word := " by "
		if i > 0 {
			word = ", "
		}
		b.WriteString(word + o.Field.Name)
		if o.Descending {
			b.WriteString(" desc")
		}
	}
	if r.Time != nil {
		b.WriteString("; " + timeText(r))
	}
	if r.MinMatch > 0 {
		fmt.Fprintf(&b, "; at least %g %% of rows must match", 100*r.MinMatch)
	}
	return b.String()
}

// timeText describes which of the rows with a key a training row matches under the time rule.
func timeText(r resolve.Staging) string {
	order := "at or before"
	if !r.Time.Exact {
		order = "before"
	}
	text := fmt.Sprintf("the latest row whose %s is %s %s, by %s at most", r.Time.Staging.Name, order, r.Time.Training.Name, toleranceText(r))
	if r.Time.Zone.Known() {
		text += ", in " + string(r.Time.Zone)
	}
	return text
}

func toleranceText(r resolve.Staging) string {
	if r.Time.Training.Type.ID() == arrow.INT64 {
		return strconv.FormatInt(r.Time.Tolerance, 10)
	}
	return cmp.Or(r.PointInTime.Tolerance.String(), "0s")
}

func strategyText(r resolve.Staging) string {
	if r.Strategy.Custom() {
		return r.Strategy.Explain() + ":" + r.Custom
	}
	return r.Strategy.Explain()
}

func alignText(r resolve.Staging) string {
	if r.Align.Training == r.Align.Staging {
		return r.Align.Training
	}
	return r.Align.Training + " with " + r.Align.Staging
}

// writeSorted names the sort orders that staging files declare.
func writeSorted(b *strings.Builder, p *plan.Plan, i int) {
	t := p.Relation.Staging[i].Pinned
	files, all := map[int]int{}, 0
	seen := map[string]bool{}
	for _, c := range p.Staging[i].Groups {
		for _, f := range c.Files {
			if !seen[f.Location] {
				seen[f.Location] = true
				files[f.SortOrder]++
				all++
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(files)) {
		if order := t.SortOrders[id]; len(order) > 0 {
			fmt.Fprintf(b, "  sorted by %s, as %d of %s declare; checked while they are read\n", sortText(t, order), files[id], plan.Counted(all, "file"))
		}
	}
}

func sortText(t *catalog.Table, order catalog.SortOrder) string {
	parts := make([]string, len(order))
	for i, f := range order {
		column, _ := t.ByID(f.Source)
		parts[i] = column.Name
		if f.Transform.Kind != catalog.Identity {
			parts[i] = string(f.Transform.Kind) + "(" + column.Name + ")"
		}
		if f.Descending {
			parts[i] += " desc"
		}
	}
	return strings.Join(parts, ", ")
}

// writeLayout describes how the training files of each spec are matched with staging
// files.
func writeLayout(b *strings.Builder, p *plan.Plan, i int) {
	s, r := p.Staging[i], p.Relation.Staging[i]
	if s.Aligned != "" {
		fmt.Fprintf(b, "  align %s: a training partition takes %s\n", alignText(r), s.Aligned)
	}
	for _, pairing := range s.Layout {
		b.WriteString("  match")
		if len(s.Layout) > 1 {
			fmt.Fprintf(b, " of training spec %d with staging spec %d,", pairing.Training, pairing.Staging)
		}
		b.WriteString(" by " + pairingText(pairing, r) + "\n")
	}
	if r.Time != nil {
		fmt.Fprintf(b, "  match by time: files whose %s lies within the tolerance\n", r.Time.Staging.Name)
	}
	if s.Merged {
		b.WriteString("  file groups share files and the table is small: they are merged\n")
	}
}

// pairingText names everything that narrows the match of two specs.
func pairingText(p resolve.Pairing, r resolve.Staging) string {
	var parts []string
	for _, pair := range p.Buckets {
		parts = append(parts, fmt.Sprintf("%s: training bucket(%d) with staging bucket(%d), residue classes modulo %d",
			pair.Key.Training.Name, pair.TrainingOf, pair.StagingOf, pair.Modulus))
	}
	keys := make([]string, len(r.Keys))
	for i, k := range r.Keys {
		keys[i] = k.Training.Name
	}
	if p.Partitions {
		parts = append(parts, "partition values of "+strings.Join(keys, ", "))
	}
	if p.Statistics {
		parts = append(parts, "range: least and greatest "+strings.Join(keys, ", ")+" of each file")
	}
	if len(parts) == 0 {
		return "broadcast: nothing narrows the match, every file is read"
	}
	return strings.Join(parts, "; ")
}

func writeUnaligned(b *strings.Builder, p *plan.Plan, i int) {
	if u := p.Staging[i].Unaligned; u.Partitions > 0 {
		fmt.Fprintf(b, "  training partitions without one: %d, with %s, which are missing\n", u.Partitions, plan.Counted(u.Rows, "row"))
	}
}
