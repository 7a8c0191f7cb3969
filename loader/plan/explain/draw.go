package explain

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/resolve"
)

// drawn is the width of a drawing in characters.
const drawn = 100

// drawing renders a plan as a tree, for a reader who is new to the plan. It shows what is read,
// what the read rows are joined with, how much memory this takes, and the result. No line is wider
// than drawn. A longer text is cut in the middle; Text contains the full text.
type drawing struct{ strings.Builder }

func name(p *plan.Plan) string {
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
func (d *drawing) branch(verb, text string) { d.text(branching(verb), text) }

// branching returns the beginning of the line of a branch.
func branching(verb string) string { return fmt.Sprintf("├─ %-6s ", verb) }

// branchOf begins a branch whose subject ends with a list of items. Each of the forms describes all
// items, with less detail than the form before it. branchOf draws the first form that fits into the
// line. If none fits, it draws as many items of the last form as fit, and the number of the others.
func (d *drawing) branchOf(verb, text string, forms ...[]string) {
	width := drawn - utf8.RuneCountInString(branching(verb)+text)
	var items []string
	for _, items = range forms {
		if list := strings.Join(items, ", "); utf8.RuneCountInString(list) <= width {
			d.branch(verb, text+list)
			return
		}
	}
	list := ""
	for shown := len(items) - 1; shown > 0; shown-- {
		list = fmt.Sprintf("%s, and %d more", strings.Join(items[:shown], ", "), len(items)-shown)
		if utf8.RuneCountInString(list) <= width {
			break
		}
	}
	d.branch(verb, text+cmp.Or(list, strings.Join(items, "")))
}

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

func drawTraining(d *drawing, p *plan.Plan, sizes *plan.ColumnSizes) {
	files := trainingFiles(p)
	d.branch("reads", pinText(p.Relation.Training))
	d.fact("read", "%s of %s, %s, %s", plan.Counted(len(p.Splits), "split"), plan.Counted(len(files), "file"), plan.Counted(p.StoredRows, "row"), sizeOfFiles(sizes, resolve.TrainingTable, files).brief())
	if p.Pruned.Files > 0 {
		d.fact("left out", "%s, %s: none of their rows can be in the result", plan.Counted(p.Pruned.Splits, "split"), plan.Counted(p.Pruned.Rows, "row"))
	}
	drawRules(d, p)
	drawOpenLane(d, p)
	d.text("│", "")
}

// trainingFiles returns the training files that are read, each once.
func trainingFiles(p *plan.Plan) []catalog.File {
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

func drawStaging(d *drawing, p *plan.Plan, sizes *plan.ColumnSizes, i int) {
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
	for _, text := range matched(p, i) {
		d.fact("matched", "%s", text)
	}
	files := p.Staging[i].Files()
	d.fact("read", "%s in %s, %s, %s%s", plan.Counted(len(files), "file"), plan.Counted(use.Groups, "file group"),
		plan.Counted(rowsIn(files), "row"), sizeOfGroups(p, sizes, i).brief(), again(use))
	groups := "one file group"
	if use.AtOnce > 1 {
		groups = fmt.Sprintf("%d file groups", use.AtOnce)
	}
	d.fact("held", "about %s at a time: the rows of %s, and their index", fault.Size(use.Memory()), groups)
	d.text("│", "")
}

// again returns a text on how often each byte is read, or "" if each byte is read only once.
func again(u plan.StagingUse) string {
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

// matched describes how training buckets are matched with buckets of a staging table, with one line
// for each pair of layouts. If there are many pairs, it returns only their number.
func matched(p *plan.Plan, i int) []string {
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
			plan.Counted(b.TrainingOf, "training bucket"), b.Key.Training.Name, b.StagingOf/max(1, b.Modulus), plan.Counted(b.StagingOf, "staging bucket")))
	}
	if p.Partitions {
		texts = append(texts, "by partition values")
	}
	return strings.Join(texts, "; ")
}

func drawStreams(d *drawing, p *plan.Plan, q dataset.Query, needs []bool) {
	of := max(1, q.Shard.Of)
	d.text("└─ gives  ", "rows "+rowsText(p))
	last := func(what, text string) { d.text(fmt.Sprintf("    %-8s ", what), text) }
	drawComputed(p, q, last)
	last("order", orderText(p))
	last("streams", fmt.Sprintf("%s of %s in all", plan.Counted(of, "stream"), plan.Counted(len(p.Lanes), "lane")))
	last("splits", fmt.Sprintf("%s, dealt to the lanes in %s", plan.Counted(len(p.Splits), "split"), plan.Counted(ranges(p), "range")))
	last("steps", stepsText(p, q, of))
	drawCost(p, q, last)
	drawNotes(p, q, needs, last)
}

func ranges(p *plan.Plan) int {
	n := 0
	for _, l := range p.Lanes {
		n += len(l.Ranges)
	}
	return n
}

// stepsText describes how many steps there are and what each step returns.
func stepsText(p *plan.Plan, q dataset.Query, of int) string {
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
		return fmt.Sprintf("of %s of each stream; their number is known only after reading", plan.Counted(q.BatchRequests, "request"))
	case perLane == 0:
		return "of 8,192 rows of each stream, or fewer if rows are wide; set batch_rows to change it"
	case p.Inexact != "":
		return fmt.Sprintf("of %s of each stream; how many is not known before reading", plan.Counted(batch, "row"))
	case q.Tail.Drops():
		for _, l := range p.Lanes {
			longest = min(longest, l.Rows)
		}
		return fmt.Sprintf("%s of %s of each stream; what fills no step is left over", plan.Counted(longest/perLane, "step"), plan.Counted(batch, "row"))
	}
	return fmt.Sprintf("%s of %s of each stream; the last steps may have fewer", plan.Counted((longest+perLane-1)/perLane, "step"), plan.Counted(batch, "row"))
}
