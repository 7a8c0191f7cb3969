package plan

import (
	"fmt"
	"strings"
)

// explainOpenLane describes the memory of an open lane.
func (p *Plan) explainOpenLane(b *strings.Builder) {
	largest, open := p.maxFileBytes(), p.openRowGroups()
	switch {
	case largest == 0:
	case open.number == 1:
		fmt.Fprintf(b, "  memory up to %s for each that is open: a row group, at most all of the largest file, %s, times %d for decoding\n",
			bytesText(decoded*open.bytes), bytesText(largest), decoded)
	default:
		fmt.Fprintf(b, "  memory up to %s for each that is open: up to %d row groups, one for each part of a run, at most all files of a run, %s, times %d for decoding\n",
			bytesText(decoded*open.bytes), open.number, bytesText(open.bytes), decoded)
	}
}

// drawOpenLane is explainOpenLane for the drawing.
func (p *Plan) drawOpenLane(d *drawing) {
	switch open := p.openRowGroups(); {
	case open.bytes == 0:
	case open.number == 1:
		d.fact("held", "up to %s for each open lane: a row group, decoded", bytesText(decoded*open.bytes))
	default:
		d.fact("held", "up to %s for each open lane: up to %d row groups, decoded", bytesText(decoded*open.bytes), open.number)
	}
}

// rowGroupMemory is the row groups that a lane reads at a time: their maximum number, and their maximum size
// together, given that a row group is at most all of its file.
type rowGroupMemory struct{ number, bytes int64 }

// openRowGroups returns those of any lane: if rows are permuted, one for each part of a run, which read different ones.
func (p *Plan) openRowGroups() rowGroupMemory {
	open := rowGroupMemory{number: 1, bytes: p.maxFileBytes()}
	if p.Rows.ShuffleWindow == 0 || p.Rows.ShuffleParts == 1 {
		return open
	}
	open.number = p.Rows.ShuffleParts
	for lane := range p.Lanes {
		for _, r := range p.Runs(lane) {
			open.bytes = max(open.bytes, min(p.runBytes(r), p.Rows.ShuffleParts*p.maxFileBytes()))
		}
	}
	return open
}

// runBytes returns the size of the files of a run.
func (p *Plan) runBytes(r Run) int64 {
	seen, bytes := map[string]bool{}, int64(0)
	for _, of := range r.ranges {
		row := int64(0)
		for _, f := range p.Splits[of.Split].Files {
			from, to := max(row, of.From), min(row+f.To-f.From, of.To)
			row += f.To - f.From
			if from < to && !seen[f.File.Location] {
				seen[f.File.Location] = true
				bytes += f.File.Bytes
			}
		}
	}
	return bytes
}
