package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

// Limits of a summary.
const (
	maxNotes  = 3   // lines of notes
	farAbove  = 1.5 // there is a note if the longest lane has more than this many times the rows of the average lane
	readAgain = 2.0 // there is a note if staging bytes would be read at least this often without a cache
)

// MinSummary is the number of lines in which every summary fits.
const MinSummary = 29

// Summary describes what a query reads, joins, holds in memory and returns, with notes on possible
// problems. The result has at most the given number of lines, which must be MinSummary or more. If
// the staging tables take too many lines, each table gets one line; if that is still too many, only
// the first tables get a line and the others are counted. Text lists all tables.
func Summary(p *plan.Plan, q dataset.Query, sizes *plan.ColumnSizes, lines int) string {
	head := (&drawing{}).lines(func(d *drawing) {
		d.text("", "plan "+p.ID)
		d.text("", name(p))
		d.text("│", "")
	})
	training := (&drawing{}).lines(func(d *drawing) { drawTraining(d, p, sizes) })
	needs := needsOf(p, q)
	streams := (&drawing{}).lines(func(d *drawing) { drawStreams(d, p, q, needs) })
	staging := drawEntries(p, sizes, needs, lines-len(head)-len(training)-len(streams))
	return strings.Join(slices.Concat(head, training, staging, streams), "\n") + "\n"
}

// lines returns the lines that draw writes.
func (d *drawing) lines(draw func(*drawing)) []string {
	draw(d)
	if d.Len() == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(d.String(), "\n"), "\n")
}

// drawEntries draws the staging tables in at most room lines, but in three lines if room is less
// than three.
func drawEntries(p *plan.Plan, sizes *plan.ColumnSizes, needs []bool, room int) []string {
	var read []int
	var unread, promoted, snapshots []string
	for i, needed := range needs {
		switch s := p.Relation.Staging[i]; {
		case needed:
			read = append(read, i)
		case s.Promoted != nil:
			promoted, snapshots = append(promoted, s.Name), append(snapshots, fmt.Sprintf("%s at snapshot %d", s.Name, s.Pinned.Pin.Snapshot))
		default:
			unread = append(unread, p.Relation.Staging[i].Name)
		}
	}
	notes := (&drawing{}).lines(func(d *drawing) {
		if len(unread) > 0 {
			d.branchOf("skips", fmt.Sprintf("%s that the query does not need: ", plan.Counted(len(unread), "staging table")), unread)
		}
		if len(promoted) > 0 {
			d.branchOf("reads", fmt.Sprintf("promoted columns of %s: ", plan.Counted(len(promoted), "staging table")), snapshots, promoted)
		}
	})
	if len(notes) == 0 {
		return drawRead(p, sizes, read, room)
	}
	lines := append(drawRead(p, sizes, read, room-len(notes)), append(notes, (&drawing{}).lines(func(d *drawing) { d.text("│", "") })...)...)
	if len(read) > 0 {
		lines = slices.Delete(lines, len(lines)-len(notes)-2, len(lines)-len(notes)-1) // one spacer is enough
	}
	return lines
}

// drawRead draws the staging tables that are read, in at most room lines, but in two lines if room
// is less than two.
func drawRead(p *plan.Plan, sizes *plan.ColumnSizes, read []int, room int) []string {
	var full []string
	for _, i := range read {
		full = append(full, (&drawing{}).lines(func(d *drawing) { drawStaging(d, p, sizes, i) })...)
	}
	if len(full) <= room {
		return full
	}
	return (&drawing{}).lines(func(d *drawing) {
		const spacer = 1
		shown := len(read)
		if shown+spacer > room {
			shown = max(0, room-spacer-1) // one line is left for the tables that are not shown
		}
		for _, i := range read[:shown] {
			r, use := p.Relation.Staging[i], p.StagingUse(i)
			d.branch("joins", fmt.Sprintf("%s: %s, %s join, reads %s%s", r.Name, pinText(r.Pinned), r.Join, sizeOfGroups(p, sizes, i).short(), again(use)))
		}
		if rest := len(read) - shown; rest > 0 {
			var size readSize
			for _, i := range read[shown:] {
				size = size.plus(sizeOfGroups(p, sizes, i))
			}
			d.branch("joins", fmt.Sprintf("%s more, reads %s", plan.Counted(rest, "staging table"), size.short()))
		}
		d.text("│", "")
	})
}

// drawRules adds the rules and deletes that determine which training rows are returned. It adds
// them to the branch of the training table.
func drawRules(d *drawing, p *plan.Plan) {
	if p.Rows.Since != 0 {
		d.fact("since", "%d: rows that were appended after it", p.Rows.Since)
	}
	if p.Filter != nil {
		d.fact("where", "%s", p.Filter)
	}
	if p.PostJoin != nil {
		d.fact("joined", "where %s", p.PostJoin)
	}
	if p.Sample != nil {
		d.fact("sample", "%s", p.Rows.Sample.Canonical())
	}
	if distinct := p.Relation.Distinct; distinct != nil {
		d.fact("distinct", "%s", strings.TrimPrefix(distinctText(distinct), "distinct "))
	}
	if uses := plan.DeletesOf(trainingFiles(p)); len(uses) > 0 {
		d.fact("deletes", "%s", strings.Join(uses.Texts(), ", "))
	}
}

// drawNotes adds at most maxNotes lines of notes.
func drawNotes(p *plan.Plan, q dataset.Query, needs []bool, last func(what, text string)) {
	notes := slices.Concat(laneNotes(p), mixingNotes(p, q), stagingNotes(p, needs))
	for i, note := range notes {
		if i == maxNotes-1 && len(notes) > maxNotes {
			last("note", fmt.Sprintf("%d more in the full text", len(notes)-i))
			return
		}
		last("note", note)
	}
}

// laneNotes returns a note if there are lanes without rows, or if the longest lane has far more rows than the average.
func laneNotes(p *plan.Plan) []string {
	empty, longest, all := 0, int64(0), int64(0)
	for _, l := range p.Lanes {
		longest, all = max(longest, l.Rows), all+l.Rows
		if l.Rows == 0 {
			empty++
		}
	}
	switch average := float64(all) / float64(max(1, len(p.Lanes))); {
	case all == 0:
		return []string{"no row is read"}
	case empty > 0:
		return []string{fmt.Sprintf("%d of %s have no rows", empty, plan.Counted(len(p.Lanes), "lane"))}
	case float64(longest) > farAbove*average:
		return []string{fmt.Sprintf("the longest lane has %.1f times the rows of the average one", float64(longest)/average)}
	}
	return nil
}

// stagingNotes returns notes on two kinds of staging tables: tables that lack partitions, and
// tables that are read several times if memory is scarce.
func stagingNotes(p *plan.Plan, needs []bool) []string {
	var notes []string
	for i, s := range p.Staging {
		if needs[i] && s.Unaligned.Partitions > 0 {
			notes = append(notes, fmt.Sprintf("%s lacks %s of the training table: no match for %s",
				short(p, i), plan.Counted(s.Unaligned.Partitions, "partition"), plan.Counted(s.Unaligned.Rows, "row")))
		}
	}
	for i := range p.Staging {
		if use := p.StagingUse(i); needs[i] && use.Worst() >= max(readAgain, readAgain*use.Amplification()) {
			notes = append(notes, fmt.Sprintf("%s is read %.1f times if memory and local disk keep none of it", short(p, i), use.Worst()))
		}
	}
	return notes
}

// short returns the name of a staging table, shortened to fit within a line.
func short(p *plan.Plan, staging int) string {
	const width = 30
	return cut(p.Relation.Staging[staging].Name, width)
}

// drawCost adds the costs of a query that it has in addition to the costs of reading each byte
// once.
func drawCost(p *plan.Plan, q dataset.Query, last func(what, text string)) {
	if countsFirst(p, q) {
		last("counted", "first, by reading keys, deletes and filter columns of "+strings.Join(countedFrom(p), ", "))
	}
	if of := int64(q.Every.Of); of > 1 {
		last("workers", fmt.Sprintf("%d DataLoader workers, which read up to %s together, %s of it more than once", of, fault.Size(of*p.TrainingBytes()), fault.Size((of-1)*p.TrainingBytes())))
	}
	if p.Rows.ShuffleWindow > 0 && p.StoredRows > 0 {
		last("windows", fmt.Sprintf("about %s for each open lane, with all columns", fault.Size(windowBytes(p))))
	}
}

// countsFirst reports whether rows are counted before a stream of a query begins.
func countsFirst(p *plan.Plan, q dataset.Query) bool {
	counted := slices.ContainsFunc(q.Cursor, func(c dataset.Cursor) bool { return c.Counted != nil })
	return q.CountsFirst() && p.Inexact != "" && !counted
}

// countedFrom names the tables that a count reads.
func countedFrom(p *plan.Plan) []string {
	return append([]string{"the training table"}, countedTables(p)...)
}

// windowBytes estimates the memory of a shuffle window.
func windowBytes(p *plan.Plan) int64 {
	rows := min(p.Rows.ShuffleWindow, p.LongestRun())
	return plan.Decoded * storedBytes(p) / cmp.Or(p.StoredRows, 1) * rows
}
