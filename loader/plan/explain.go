package plan

import (
	"fmt"
	"strings"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// listed bounds how many splits and pieces an explain text lists in full.
const listed = 64

// String returns the explain text: what is read, in which order, and why. It
// is stable for one plan and meant for people.
func (p *Plan) String() string {
	var b strings.Builder
	name := p.Relation.Dataset.Name
	if name == "" {
		name = "(inline)"
	}
	fmt.Fprintf(&b, "plan %s (algorithm %d)\n", p.ID, Algorithm)
	fmt.Fprintf(&b, "dataset %s, digest %s\n", name, p.Digest)
	rows := "exact"
	if p.Inexact != "" {
		rows = "at most: " + p.Inexact
	}
	fmt.Fprintf(&b, "rows %d (%s)\n", p.Rows, rows)
	fmt.Fprintf(&b, "order %s\n\n", p.orderText())
	p.explainTraining(&b)
	for i := range p.Staging {
		p.explainStaging(&b, i)
	}
	p.explainSplits(&b)
	p.explainLanes(&b)
	return b.String()
}

func (p *Plan) orderText() string {
	if p.Order == dataset.Shuffled {
		return fmt.Sprintf("shuffled by %s, seed %d, epoch %d", p.Shuffle, p.Seed, p.Epoch)
	}
	return string(p.Order)
}

func pinText(t *catalog.Table) string {
	if t.Pin.Snapshot == dataset.NoSnapshot {
		return t.Name + ", empty"
	}
	return fmt.Sprintf("%s@%d, schema %d", t.Name, t.Pin.Snapshot, t.Pin.Schema)
}

func (p *Plan) explainTraining(b *strings.Builder) {
	files, bytes := map[string]bool{}, int64(0)
	for _, s := range p.Splits {
		for _, f := range s.Files {
			if !files[f.File.Location] {
				files[f.File.Location] = true
				bytes += f.File.Bytes
			}
		}
	}
	fmt.Fprintf(b, "training %s\n", pinText(p.Relation.Training))
	if p.Filter != nil {
		fmt.Fprintf(b, "  filter %s\n", p.Filter)
	}
	fmt.Fprintf(b, "  reads %d splits, %d files, %s", len(p.Splits), len(files), bytesText(bytes))
	if p.Pruned.Files > 0 {
		fmt.Fprintf(b, "; pruned %d splits, %d file ranges, %d rows", p.Pruned.Splits, p.Pruned.Files, p.Pruned.Rows)
	}
	b.WriteString("\n\n")
}

func (p *Plan) explainStaging(b *strings.Builder, i int) {
	r, s := p.Relation.Staging[i], p.Staging[i]
	fmt.Fprintf(b, "staging %s: %s\n", r.Name, pinText(r.Pinned))
	keys := make([]string, len(r.Keys))
	for k, key := range r.Keys {
		keys[k] = key.Training.Name + " = " + key.Staging.Name
	}
	fmt.Fprintf(b, "  join %s on %s, missing %s, duplicates %s, strategy index\n", r.Join, strings.Join(keys, " and "), r.Missing, r.Duplicates)
	if r.Rows != nil {
		fmt.Fprintf(b, "  filter %s; pruned %d files\n", r.Rows, s.Pruned)
	}
	if s.Key.Training.ID == 0 {
		b.WriteString("  match: a side has no files, nothing is read\n\n")
		return
	}
	use := p.ClassUse(i)
	fmt.Fprintf(b, "  match by %s: %s\n", s.Key.Training.Name, p.layoutText(i))
	fmt.Fprintf(b, "  reads %d classes, %s, largest %s; amplification %.2f of %s\n\n",
		use.Classes, bytesText(use.Read), bytesText(use.Largest), use.Amplification(), bytesText(use.Stored))
}

// layoutText names the bucket counts of both sides.
func (p *Plan) layoutText(i int) string {
	s, r := p.Staging[i], p.Relation.Staging[i]
	n := 0
	for _, split := range p.Splits {
		if b, ok := resolve.BucketOf(p.Relation.Training, split.Files[0].File, s.Key.Training.ID); ok {
			n = b.Of
		}
	}
	var counts []string
	seen := map[int]bool{}
	for _, files := range s.Classes.Files {
		for _, f := range files {
			b, _ := resolve.BucketOf(r.Pinned, f, s.Key.Staging.ID)
			if !seen[b.Of] {
				seen[b.Of] = true
				counts = append(counts, fmt.Sprintf("bucket(%d)", b.Of))
			}
		}
	}
	return fmt.Sprintf("training bucket(%d) with staging %s, residue classes modulo %d", n, strings.Join(counts, " and "), s.Classes.Modulus)
}

// Use says how a plan uses one staging table, in bytes of files. Classes are
// read once per run of splits that need them, in the plan's order.
type Use struct {
	Classes int   // distinct classes that some split needs
	Read    int64 // bytes read over the whole plan
	Largest int64 // bytes of the largest class
	Stored  int64 // bytes of the files that some split needs, each once
}

// Amplification is bytes read over bytes stored; 1 if nothing is read.
func (u Use) Amplification() float64 {
	if u.Stored == 0 {
		return 1
	}
	return float64(u.Read) / float64(u.Stored)
}

// ClassUse computes how the plan uses staging table i.
func (p *Plan) ClassUse(i int) Use {
	var u Use
	seen, stored := map[int]bool{}, map[string]bool{}
	last := resolve.NoClass
	for _, split := range p.Splits {
		class := split.Classes[i]
		if class == resolve.NoClass || class == last {
			continue
		}
		last = class
		size := int64(0)
		for _, f := range p.Staging[i].Classes.Files[class] {
			size += f.Bytes
			if !stored[f.Location] {
				stored[f.Location] = true
				u.Stored += f.Bytes
			}
		}
		if !seen[class] {
			seen[class] = true
			u.Classes++
		}
		u.Read += size
		u.Largest = max(u.Largest, size)
	}
	return u
}

func (p *Plan) explainSplits(b *strings.Builder) {
	fmt.Fprintf(b, "splits\n")
	for i, s := range p.Splits {
		if i == listed {
			fmt.Fprintf(b, "  … %d more\n", len(p.Splits)-listed)
			break
		}
		fmt.Fprintf(b, "  %d: %s", i, s.ID)
		b.WriteString(p.partitionNames(s))
		switch {
		case s.Bucket.Of > 0 && s.Bucket.ID == resolve.NullBucket:
			b.WriteString(" null bucket")
		case s.Bucket.Of > 0:
			fmt.Fprintf(b, " bucket %d of %d", s.Bucket.ID, s.Bucket.Of)
		}
		fmt.Fprintf(b, ", %d rows, %d files", s.Rows, len(s.Files))
		for k, class := range s.Classes {
			if class == resolve.NoClass {
				fmt.Fprintf(b, "; %s none", p.Relation.Staging[k].Name)
				continue
			}
			fmt.Fprintf(b, "; %s class %d, %d files", p.Relation.Staging[k].Name, class, len(p.Staging[k].Classes.Files[class]))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// partitionNames renders a split's partition values with their fields' names.
func (p *Plan) partitionNames(s Split) string {
	spec := s.Files[0].File.Spec
	names := make([]string, 0, len(s.Partition))
	for i, f := range p.Relation.Training.Specs[spec] {
		if i != p.bucketField(spec) {
			names = append(names, f.Name)
		}
	}
	var text strings.Builder
	for i, v := range s.Partition {
		fmt.Fprintf(&text, " %s=%v", names[i], v)
	}
	return text.String()
}

func (p *Plan) explainLanes(b *strings.Builder) {
	fmt.Fprintf(b, "lanes\n")
	for i, l := range p.Lanes {
		fmt.Fprintf(b, "  %d: %d rows in %d pieces:", i, l.Rows, len(l.Pieces))
		for k, piece := range l.Pieces {
			if k == listed {
				fmt.Fprintf(b, " … %d more", len(l.Pieces)-listed)
				break
			}
			fmt.Fprintf(b, " %d[%d:%d]", piece.Split, piece.From, piece.To)
		}
		b.WriteString("\n")
	}
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
