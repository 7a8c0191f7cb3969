package plan

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// drawn is the width of a drawing in characters.
const drawn = 100

// drawing renders a plan as a tree for a reader new to it: what is read, what it is
// joined with, the memory that this takes, and the result. No line is wider than drawn;
// a longer text is cut in the middle. Explain has it in full.
type drawing struct{ strings.Builder }

func (p *Plan) name() string {
	if name := p.Relation.Dataset.Name; name != "" {
		return "dataset " + name
	}
	return "dataset (inline)"
}

// text writes a line with a prefix.
func (d *drawing) text(before, text string) {
	line := before + cut(text, drawn-utf8.RuneCountInString(before))
	d.WriteString(strings.TrimRight(line, " ") + "\n")
}

// branch begins a branch of the tree: an operation and its subject.
func (d *drawing) branch(verb, text string) { d.text(fmt.Sprintf("├─ %-6s ", verb), text) }

// fact adds a detail to a branch.
func (d *drawing) fact(what, format string, args ...any) {
	d.text(fmt.Sprintf("│   %-8s ", what), fmt.Sprintf(format, args...))
}

// cut removes characters from the middle of a text that is longer than width.
func cut(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width {
		return text
	}
	head := (width - 1) / 2
	return string(runes[:head]) + "…" + string(runes[len(runes)-(width-1-head):])
}

func (p *Plan) drawTraining(d *drawing) {
	files := p.trainingFiles()
	d.branch("reads", pinText(p.Relation.Training))
	d.fact("read", "%s of %s, %s, %s", counted(len(p.Splits), "split"), counted(len(files), "file"), counted(p.StoredRows, "row"), p.sizeOfFiles(resolve.TrainingTable, files).brief())
	if p.Pruned.Files > 0 {
		d.fact("left out", "%s, %s: nothing in them can be asked for", counted(p.Pruned.Splits, "split"), counted(p.Pruned.Rows, "row"))
	}
	p.drawRules(d)
	p.drawOpenLane(d)
	d.text("│", "")
}

// trainingFiles returns the training files that are read, each once.
func (p *Plan) trainingFiles() []catalog.File {
	var files []catalog.File
	seen := map[string]bool{}
	for _, s := range p.Splits {
		for _, f := range s.Files {
			if !seen[f.File.Location] {
				seen[f.File.Location] = true
				files = append(files, f.File)
			}
		}
	}
	return files
}

func (p *Plan) drawStaging(d *drawing, i int) {
	r := p.Relation.Staging[i]
	d.branch("joins", r.Name+": "+pinText(r.Pinned))
	keys := make([]string, len(r.Keys))
	for k, key := range r.Keys {
		keys[k] = key.Training.Name
		if key.Staging.Name != key.Training.Name {
			keys[k] += " = " + key.Staging.Name
		}
	}
	d.fact("key", "%s, %s join", strings.Join(keys, " and "), r.Join)
	if r.Time != nil {
		d.fact("when", "%s", timeText(r))
	}
	if !r.Filter.IsZero() {
		d.fact("where", "%s", r.Filter)
	}
	use := p.StagingUse(i)
	if use.Groups == 0 {
		d.fact("matched", "nothing: no file can hold a key of the query")
		d.text("│", "")
		return
	}
	for _, text := range p.matched(i) {
		d.fact("matched", "%s", text)
	}
	files := p.filesOf(i)
	d.fact("read", "%s in %s, %s, %s%s", counted(len(files), "file"), counted(use.Groups, "file group"),
		counted(rowsIn(files), "row"), p.sizeOfGroups(i).brief(), again(use))
	groups := "one file group"
	if use.AtOnce > 1 {
		groups = fmt.Sprintf("%d file groups", use.AtOnce)
	}
	d.fact("held", "about %s at a time: the rows of %s, and their index", bytesText(use.Memory()), groups)
	d.text("│", "")
}

// again returns how often a byte is read, or "" if only once.
func again(u StagingUse) string {
	if u.Amplification() <= 1 {
		return ""
	}
	return fmt.Sprintf(", each byte %.2f times", u.Amplification())
}

func rowsIn(files []catalog.File) int64 {
	rows := int64(0)
	for _, f := range files {
		rows += f.Rows
	}
	return rows
}

// matched describes how training buckets are matched with those of a staging table, one
// line for each pair of layouts. If there are many pairs it returns their number.
func (p *Plan) matched(i int) []string {
	s, r := p.Staging[i], p.Relation.Staging[i]
	const most = 3
	if len(s.Layout) > most {
		return []string{fmt.Sprintf("file by file, in %d pairs of layouts", len(s.Layout))}
	}
	var texts []string
	for _, pairing := range s.Layout {
		texts = append(texts, layoutText(pairing, r))
	}
	if s.Aligned != "" {
		texts = append(texts, "a training partition takes "+s.Aligned)
	}
	return texts
}

// layoutText describes which staging buckets match a training bucket.
func layoutText(p resolve.Pairing, r resolve.Staging) string {
	if len(p.Buckets) == 0 {
		return pairingText(p, r)
	}
	var texts []string
	for _, b := range p.Buckets {
		texts = append(texts, fmt.Sprintf("each of %s of %s with %d of %s",
			counted(b.TrainingOf, "training bucket"), b.Key.Training.Name, b.StagingOf/max(1, b.Modulus), counted(b.StagingOf, "staging bucket")))
	}
	if p.Partitions {
		texts = append(texts, "by partition values")
	}
	return strings.Join(texts, "; ")
}

func (p *Plan) drawStreams(d *drawing, q dataset.Query, needs []bool) {
	of := max(1, q.Shard.Of)
	d.text("└─ gives  ", "rows "+p.rowsText())
	last := func(what, text string) { d.text(fmt.Sprintf("    %-8s ", what), text) }
	last("order", p.orderText())
	last("streams", fmt.Sprintf("%s of %s in all", counted(of, "stream"), counted(len(p.Lanes), "lane")))
	last("splits", fmt.Sprintf("%s, dealt to the lanes in %s", counted(len(p.Splits), "split"), counted(p.ranges(), "range")))
	last("steps", p.stepsText(q, of))
	p.drawCost(q, last)
	p.drawNotes(q, needs, last)
}

func (p *Plan) ranges() int {
	n := 0
	for _, l := range p.Lanes {
		n += len(l.Ranges)
	}
	return n
}

// stepsText describes how many steps there are and what each step returns.
func (p *Plan) stepsText(q dataset.Query, of int) string {
	batch, longest := int64(q.BatchRows), int64(0)
	if q.GlobalBatchRows > 0 {
		batch = int64(q.GlobalBatchRows / of)
	}
	for _, l := range p.Lanes {
		longest = max(longest, l.Rows)
	}
	perLane := batch * int64(of) / int64(max(1, len(p.Lanes)))
	switch {
	case q.BatchRequests > 0:
		return fmt.Sprintf("of %s of each stream; how many shows when they are read", counted(q.BatchRequests, "request"))
	case perLane == 0:
		return "of 8,192 rows of each stream, or fewer if rows are wide; set batch_rows to change it"
	case p.Inexact != "":
		return fmt.Sprintf("of %s of each stream; how many is not known before reading", counted(batch, "row"))
	case q.Tail.Drops():
		for _, l := range p.Lanes {
			longest = min(longest, l.Rows)
		}
		return fmt.Sprintf("%s of %s of each stream; what fills no step is left over", counted(longest/perLane, "step"), counted(batch, "row"))
	}
	return fmt.Sprintf("%s of %s of each stream, at the end of fewer", counted((longest+perLane-1)/perLane, "step"), counted(batch, "row"))
}
