package plan

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

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
		rows = "before: " + p.Inexact
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
	if p.Sample != nil {
		fmt.Fprintf(b, "  sample %s\n", p.SampleText)
	}
	if d := p.Relation.Distinct; d != nil {
		fmt.Fprintf(b, "  %s\n", distinctText(d))
	}
	if p.After != nil {
		fmt.Fprintf(b, "  filter after the joins %s\n", p.After)
	}
	fmt.Fprintf(b, "  reads %d splits, %d files, %s", len(p.Splits), len(files), bytesText(bytes))
	if p.Pruned.Files > 0 {
		fmt.Fprintf(b, "; pruned %d splits, %d file ranges, %d rows", p.Pruned.Splits, p.Pruned.Files, p.Pruned.Rows)
	}
	b.WriteString("\n\n")
}

func distinctText(d *resolve.Distinct) string {
	names := make([]string, len(d.By))
	for i, f := range d.By {
		names[i] = f.Name
	}
	scope := ""
	if d.Scope == dataset.ScopePartition {
		scope = ", within each partition"
	}
	return fmt.Sprintf("distinct by %s, the %s of repeated rows stays%s; splits are whole buckets", strings.Join(names, ", "), d.Keep, scope)
}

func (p *Plan) explainStaging(b *strings.Builder, i int) {
	r, s := p.Relation.Staging[i], p.Staging[i]
	fmt.Fprintf(b, "staging %s: %s\n", r.Name, pinText(r.Pinned))
	keys := make([]string, len(r.Keys))
	for k, key := range r.Keys {
		keys[k] = key.Training.Name + " = " + key.Staging.Name
	}
	fmt.Fprintf(b, "  join %s on %s%s\n", r.Join, strings.Join(keys, " and "), rulesText(r))
	fmt.Fprintf(b, "  strategy %s\n", strategyText(r.Strategy))
	if r.Rows != nil {
		fmt.Fprintf(b, "  filter %s; pruned %d files\n", r.Rows, s.Pruned)
	}
	use := p.ClassUse(i)
	if use.Classes == 0 {
		b.WriteString("  match: no file can match, nothing is read\n")
		p.explainUnaligned(b, i)
		b.WriteString("\n")
		return
	}
	p.explainLayout(b, i)
	p.explainUnaligned(b, i)
	fmt.Fprintf(b, "  reads %d classes, %s, each once while it is kept; amplification %.2f of %s",
		use.Classes, bytesText(use.Once), use.Amplification(), bytesText(use.Stored))
	if use.Read > use.Once {
		fmt.Fprintf(b, "; up to %.2f if memory and local disk keep none", use.Worst())
	}
	fmt.Fprintf(b, "\n  memory about %s: the largest class has %s of files and %d rows, decoded about %d times that\n\n",
		bytesText(use.Memory()), bytesText(use.Largest), use.Rows, decoded)
}

// rulesText names the rules of an entry that differ from row to row.
func rulesText(r resolve.Staging) string {
	var b strings.Builder
	switch r.Join {
	case dataset.Semi, dataset.Anti:
	case dataset.Overlay:
		fmt.Fprintf(&b, ", nulls %s, duplicates %s", r.Nulls, r.Duplicates)
	default:
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
	if t := r.Time; t != nil {
		order := "at or before"
		if !t.Exact {
			order = "before"
		}
		fmt.Fprintf(&b, "; the latest row whose %s is %s %s, by %s at most", t.Staging.Name, order, t.Training.Name, toleranceText(r))
	}
	if r.MinMatch > 0 {
		fmt.Fprintf(&b, "; at least %g %% of rows must match", 100*r.MinMatch)
	}
	return b.String()
}

func toleranceText(r resolve.Staging) string {
	if r.Time.Training.Type.ID() == arrow.INT64 {
		return fmt.Sprint(r.Time.Tolerance)
	}
	return r.PointInTime.Tolerance.String()
}

func strategyText(s dataset.Strategy) string {
	switch s {
	case dataset.StrategyAuto, "":
		return "auto: merge where the keys turn out to be sorted, else index"
	case dataset.StrategyMerge, dataset.StrategyZip:
		return string(s) + "; index where the keys turn out not to be sorted"
	case dataset.StrategyBroadcast:
		return "broadcast: the whole table, loaded once for all splits"
	default:
		return string(s)
	}
}

// explainLayout says how the training files of each spec find staging files.
func (p *Plan) explainLayout(b *strings.Builder, i int) {
	s, r := p.Staging[i], p.Relation.Staging[i]
	if s.Aligned != "" {
		fmt.Fprintf(b, "  align: a partition of %s meets %s of %s\n", r.Align.Training, s.Aligned, r.Align.Staging)
	}
	for _, pairing := range s.Layout {
		b.WriteString("  match")
		if len(s.Layout) > 1 {
			fmt.Fprintf(b, " spec %d with spec %d", pairing.Training, pairing.Staging)
		}
		b.WriteString(" by " + pairingText(pairing, r) + "\n")
	}
	if r.Time != nil {
		fmt.Fprintf(b, "  match by time: files whose %s lies within the tolerance\n", r.Time.Staging.Name)
	}
	if s.Joined {
		b.WriteString("  classes share files and the table is small: they are joined into one\n")
	}
}

// pairingText names all that narrows the match of two specs.
func pairingText(p Pairing, r resolve.Staging) string {
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

func (p *Plan) explainUnaligned(b *strings.Builder, i int) {
	if u := p.Staging[i].Unaligned; u.Partitions > 0 {
		fmt.Fprintf(b, "  unaligned: %d training partitions with %d rows have no partition of %s to meet; their rows are missing\n",
			u.Partitions, u.Rows, p.Relation.Staging[i].Name)
	}
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
			fmt.Fprintf(b, "; %s class %d, %d files", p.Relation.Staging[k].Name, class, len(p.Staging[k].Classes[class].Files))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// specs counts the partition specs of the training files that are read.
func (p *Plan) specs() int {
	seen := map[int]bool{}
	for _, s := range p.Splits {
		seen[s.Files[0].File.Spec] = true
	}
	return len(seen)
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
