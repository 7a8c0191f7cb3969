package explain

import (
	"fmt"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// listed is the maximum number of splits and ranges that an explain text lists in full.
const listed = 64

// writePlan describes what is read, in which order, and why, for a query that needs some of the staging entries.
func writePlan(b *strings.Builder, p *plan.Plan, sizes *plan.ColumnSizes, needs []bool) {
	name := p.Relation.Dataset.Name
	if name == "" {
		name = "(inline)"
	}
	fmt.Fprintf(b, "plan %s (algorithm %d)\n", p.ID, p.Algorithm)
	fmt.Fprintf(b, "dataset %s, digest %s\n", name, p.Digest)
	fmt.Fprintf(b, "rows %s\n", rowsText(p))
	fmt.Fprintf(b, "order %s\n\n", orderText(p))
	writeTraining(b, p, sizes)
	for i := range p.Staging {
		writeStaging(b, p, sizes, i, needs[i])
	}
	writeSplits(b, p)
	writeLanes(b, p)
}

func rowsText(p *plan.Plan) string {
	switch rows, exact := p.ExactRows(); {
	case p.Inexact == "":
		return fmt.Sprintf("%d (exact)", rows)
	case exact:
		return fmt.Sprintf("%d (exact; %d as stored, %s)", rows, p.StoredRows, p.Inexact)
	}
	return fmt.Sprintf("%d as stored; %s", p.StoredRows, p.Inexact)
}

func orderText(p *plan.Plan) string {
	switch {
	case p.Rows.ShuffleWindow > 0:
		return fmt.Sprintf("shuffled by %s in windows of %d rows from %s, seed %d, epoch %d", p.Rows.Shuffle, p.Rows.ShuffleWindow, plan.Counted(p.Rows.ShuffleParts, "part"), p.Rows.Seed, p.Rows.Epoch)
	case p.Rows.Order.IsShuffled():
		return fmt.Sprintf("shuffled by %s, seed %d, epoch %d", p.Rows.Shuffle, p.Rows.Seed, p.Rows.Epoch)
	}
	return string(p.Rows.Order)
}

func pinText(t *catalog.Table) string {
	if t.Pin.Snapshot == dataset.NoSnapshot {
		return t.Name + ", empty"
	}
	return fmt.Sprintf("%s@%d, schema %d", t.Name, t.Pin.Snapshot, t.Pin.Schema)
}

// writeKept names the statistics that were kept with a table.
func writeKept(b *strings.Builder, t *catalog.Table) {
	if t.Statistics != nil {
		fmt.Fprintf(b, "  kept statistics: %s\n", t.Statistics)
	}
}

func writeTraining(b *strings.Builder, p *plan.Plan, sizes *plan.ColumnSizes) {
	files := trainingFiles(p)
	fmt.Fprintf(b, "training %s\n", pinText(p.Relation.Training))
	writeKept(b, p.Relation.Training)
	if p.Rows.Since != 0 {
		fmt.Fprintf(b, "  since %d: rows that were appended after it\n", p.Rows.Since)
	}
	if p.Filter != nil {
		fmt.Fprintf(b, "  filter %s\n", p.Filter)
	}
	if p.Sample != nil {
		fmt.Fprintf(b, "  sample %s\n", p.Rows.Sample.Canonical())
	}
	if d := p.Relation.Distinct; d != nil {
		fmt.Fprintf(b, "  %s\n", distinctText(d))
	}
	if names := p.Relation.Dataset.Training.RequestLevel; len(names) > 0 {
		fmt.Fprintf(b, "  request-level %s, constant in rows with equal %s\n", strings.Join(names, ", "), strings.Join(p.Relation.Dataset.Key, ", "))
	}
	if p.PostJoin != nil {
		fmt.Fprintf(b, "  post-join filter %s\n", p.PostJoin)
	}
	fmt.Fprintf(b, "  reads %s, %s, %s", plan.Counted(len(p.Splits), "split"), plan.Counted(len(files), "file"), sizeOfFiles(sizes, resolve.TrainingTable, files))
	if p.Pruned.Files > 0 {
		fmt.Fprintf(b, "; pruned %s, %s, %s",
			plan.Counted(p.Pruned.Splits, "split"), plan.Counted(p.Pruned.Files, "file range"), plan.Counted(p.Pruned.Rows, "row"))
	}
	b.WriteString("\n")
	writeDeletes(b, files)
	b.WriteString("\n")
}

func distinctText(d *resolve.Distinct) string {
	names := make([]string, len(d.By))
	for i, f := range d.By {
		names[i] = f.Name
	}
	scope := ""
	if d.Scope.OfPartition() {
		scope = ", within each partition"
	}
	return fmt.Sprintf("distinct by %s, the %s of repeated rows stays%s; splits are whole buckets", strings.Join(names, ", "), d.Keep, scope)
}

func writeSplits(b *strings.Builder, p *plan.Plan) {
	fmt.Fprintf(b, "splits\n")
	specs := specs(p)
	for i, s := range p.Splits {
		if i == listed {
			fmt.Fprintf(b, "  … %d more\n", len(p.Splits)-listed)
			break
		}
		fmt.Fprintf(b, "  %d: %s", i, s.ID)
		if specs > 1 {
			fmt.Fprintf(b, " spec %d", s.Files[0].File.Spec)
		}
		b.WriteString(partitionNames(p, s))
		switch {
		case s.Bucket.Of > 0 && s.Bucket.Null():
			b.WriteString(" null bucket")
		case s.Bucket.Of > 0:
			fmt.Fprintf(b, " bucket %d of %d", s.Bucket.ID, s.Bucket.Of)
		}
		fmt.Fprintf(b, ", %s, %s", plan.Counted(s.Rows, "row"), plan.Counted(len(s.Files), "file"))
		for k, group := range s.Groups {
			if p.Staging[k].Unread {
				continue
			}
			if group == resolve.NoGroup {
				fmt.Fprintf(b, "; %s none", p.Relation.Staging[k].Name)
				continue
			}
			fmt.Fprintf(b, "; %s file group %d, %s", p.Relation.Staging[k].Name, group, plan.Counted(len(p.Staging[k].Groups[group].Files), "file"))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// specs returns the number of partition specs of the training files that are read.
func specs(p *plan.Plan) int {
	seen := map[int]bool{}
	for _, s := range p.Splits {
		seen[s.Files[0].File.Spec] = true
	}
	return len(seen)
}

// partitionNames renders a split's partition values with the names of their fields.
func partitionNames(p *plan.Plan, s plan.Split) string {
	var text strings.Builder
	file, t := s.Files[0].File, p.Relation.Training
	for i, f := range t.Specs[file.Spec] {
		if i != p.BucketField(file.Spec) {
			column, _ := t.ByID(f.Source)
			fmt.Fprintf(&text, " %s=%s", f.Name, f.Text(file.Partition[i], column))
		}
	}
	return text.String()
}

func writeLanes(b *strings.Builder, p *plan.Plan) {
	fmt.Fprintf(b, "lanes\n")
	if p.Rows.Requests {
		names := make([]string, len(p.RequestKey))
		for i, f := range p.RequestKey {
			names[i] = f.Name
		}
		fmt.Fprintf(b, "  each gives equal requests in a step: rows that follow each other with equal %s. No bucket is cut\n", strings.Join(names, ", "))
	}
	if p.Rows.ShuffleWindow > 0 && p.StoredRows > 0 {
		rows := min(p.Rows.ShuffleWindow, p.LongestRun())
		fmt.Fprintf(b, "  memory about %s more for the shuffle window of each: %s with all columns, as stored times %d, and as much again where there is room to decode ahead\n",
			fault.Size(windowBytes(p)), plan.Counted(rows, "row"), plan.Decoded)
	}
	writeOpenLane(b, p)
	for i, l := range p.Lanes {
		fmt.Fprintf(b, "  %d: %s in %s:", i, plan.Counted(l.Rows, "row"), plan.Counted(len(l.Ranges), "range"))
		for k, r := range l.Ranges {
			if k == listed {
				fmt.Fprintf(b, " … %d more", len(l.Ranges)-listed)
				break
			}
			fmt.Fprintf(b, " %d[%d:%d]", r.Split, r.From, r.To)
		}
		b.WriteString("\n")
	}
}

// storedBytes estimates the stored size of the training rows that are read, from their share of the
// rows of their files.
func storedBytes(p *plan.Plan) int64 {
	bytes := int64(0)
	for _, s := range p.Splits {
		for _, f := range s.Files {
			bytes += f.File.Bytes * (f.To - f.From) / max(1, f.File.Rows)
		}
	}
	return bytes
}
