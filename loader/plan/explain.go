package plan

import (
	"fmt"
	"strings"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// listed is the maximum number of splits and ranges that an explain text lists in full.
const listed = 64

// String returns the explain text of all columns: what is read, in which order, and why. It is
// stable for a given plan and meant for people. A server adds what streams of the plan share.
func (p *Plan) String() string { return p.text(p.Needs(p.Relation.Outputs)) }

// text is String for a query that needs some of the staging entries.
func (p *Plan) text(needs []bool) string {
	var b strings.Builder
	name := p.Relation.Dataset.Name
	if name == "" {
		name = "(inline)"
	}
	fmt.Fprintf(&b, "plan %s (algorithm %d)\n", p.ID, Algorithm)
	fmt.Fprintf(&b, "dataset %s, digest %s\n", name, p.Digest)
	fmt.Fprintf(&b, "rows %s\n", p.rowsText())
	fmt.Fprintf(&b, "order %s\n\n", p.orderText())
	p.explainTraining(&b)
	for i := range p.Staging {
		p.explainStaging(&b, i, needs[i])
	}
	p.explainSplits(&b)
	p.explainLanes(&b)
	return b.String()
}

func (p *Plan) rowsText() string {
	switch rows, exact := p.ExactRows(); {
	case p.Inexact == "":
		return fmt.Sprintf("%d (exact)", rows)
	case exact:
		return fmt.Sprintf("%d (exact; %d as stored, %s)", rows, p.StoredRows, p.Inexact)
	}
	return fmt.Sprintf("%d as stored; %s", p.StoredRows, p.Inexact)
}

func (p *Plan) orderText() string {
	switch {
	case p.Rows.ShuffleWindow > 0:
		return fmt.Sprintf("shuffled by %s in windows of %d rows from %s, seed %d, epoch %d", p.Rows.Shuffle, p.Rows.ShuffleWindow, counted(p.Rows.ShuffleParts, "part"), p.Rows.Seed, p.Rows.Epoch)
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

func (p *Plan) explainTraining(b *strings.Builder) {
	files := p.trainingFiles()
	fmt.Fprintf(b, "training %s\n", pinText(p.Relation.Training))
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
	fmt.Fprintf(b, "  reads %s, %s, %s", counted(len(p.Splits), "split"), counted(len(files), "file"), p.sizeOfFiles(resolve.TrainingTable, files))
	if p.Pruned.Files > 0 {
		fmt.Fprintf(b, "; pruned %s, %s, %s",
			counted(p.Pruned.Splits, "split"), counted(p.Pruned.Files, "file range"), counted(p.Pruned.Rows, "row"))
	}
	b.WriteString("\n")
	explainDeletes(b, files)
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

func (p *Plan) explainSplits(b *strings.Builder) {
	fmt.Fprintf(b, "splits\n")
	specs := p.specs()
	for i, s := range p.Splits {
		if i == listed {
			fmt.Fprintf(b, "  … %d more\n", len(p.Splits)-listed)
			break
		}
		fmt.Fprintf(b, "  %d: %s", i, s.ID)
		if specs > 1 {
			fmt.Fprintf(b, " spec %d", s.Files[0].File.Spec)
		}
		b.WriteString(p.partitionNames(s))
		switch {
		case s.Bucket.Of > 0 && s.Bucket.Null():
			b.WriteString(" null bucket")
		case s.Bucket.Of > 0:
			fmt.Fprintf(b, " bucket %d of %d", s.Bucket.ID, s.Bucket.Of)
		}
		fmt.Fprintf(b, ", %s, %s", counted(s.Rows, "row"), counted(len(s.Files), "file"))
		for k, group := range s.Groups {
			if p.Staging[k].Unread {
				continue
			}
			if group == resolve.NoGroup {
				fmt.Fprintf(b, "; %s none", p.Relation.Staging[k].Name)
				continue
			}
			fmt.Fprintf(b, "; %s file group %d, %s", p.Relation.Staging[k].Name, group, counted(len(p.Staging[k].Groups[group].Files), "file"))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// specs returns the number of partition specs of the training files that are read.
func (p *Plan) specs() int {
	seen := map[int]bool{}
	for _, s := range p.Splits {
		seen[s.Files[0].File.Spec] = true
	}
	return len(seen)
}

// partitionNames renders a split's partition values with the names of their fields.
func (p *Plan) partitionNames(s Split) string {
	var text strings.Builder
	file, t := s.Files[0].File, p.Relation.Training
	for i, f := range t.Specs[file.Spec] {
		if i != p.bucketField(file.Spec) {
			column, _ := t.ByID(f.Source)
			fmt.Fprintf(&text, " %s=%s", f.Name, f.Text(file.Partition[i], column))
		}
	}
	return text.String()
}

func (p *Plan) explainLanes(b *strings.Builder) {
	fmt.Fprintf(b, "lanes\n")
	if p.Rows.Requests {
		names := make([]string, len(p.RequestKey))
		for i, f := range p.RequestKey {
			names[i] = f.Name
		}
		fmt.Fprintf(b, "  each gives equal requests in a step: rows that follow each other with equal %s. No bucket is cut\n", strings.Join(names, ", "))
	}
	if p.Rows.ShuffleWindow > 0 && p.StoredRows > 0 {
		rows := min(p.Rows.ShuffleWindow, p.maxRunRows())
		fmt.Fprintf(b, "  memory about %s more for the shuffle window of each: %s with all columns, as stored times %d, and as much again where there is room to decode ahead\n",
			bytesText(p.windowBytes()), counted(rows, "row"), decoded)
	}
	p.explainOpenLane(b)
	for i, l := range p.Lanes {
		fmt.Fprintf(b, "  %d: %s in %s:", i, counted(l.Rows, "row"), counted(len(l.Ranges), "range"))
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

// maxRunRows returns the number of rows of the longest run.
func (p *Plan) maxRunRows() int64 {
	most := int64(0)
	for _, l := range p.Lanes {
		rows := int64(0)
		for i, r := range l.Ranges {
			if i > 0 && !p.sameRun(l.Ranges[i-1], r) {
				rows = 0
			}
			rows += r.To - r.From
			most = max(most, rows)
		}
	}
	return most
}

// storedBytes estimates the size of the training rows that are read from their share of
// the rows of their files.
func (p *Plan) storedBytes() int64 {
	bytes := int64(0)
	for _, s := range p.Splits {
		for _, f := range s.Files {
			bytes += f.File.Bytes * (f.To - f.From) / max(1, f.File.Rows)
		}
	}
	return bytes
}

// maxFileBytes returns the size of the largest training file that is read.
func (p *Plan) maxFileBytes() int64 {
	bytes := int64(0)
	for _, s := range p.Splits {
		for _, f := range s.Files {
			bytes = max(bytes, f.File.Bytes)
		}
	}
	return bytes
}

// counted renders a count and its unit for people.
func counted[N int | int64](n N, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "s"):
		what += "e"
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// bytesText renders a number of bytes for people.
func bytesText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
