package explain

import (
	"fmt"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/plan"
)

// writeOpenLane describes the memory of an open lane.
func writeOpenLane(b *strings.Builder, p *plan.Plan) {
	largest, open := maxFileBytes(p), openRowGroups(p)
	switch {
	case largest == 0:
	case open.number == 1:
		fmt.Fprintf(b, "  memory up to %s for each that is open: a row group, at most all of the largest file, %s, times %d for decoding\n",
			fault.Size(plan.Decoded*open.bytes), fault.Size(largest), plan.Decoded)
	default:
		fmt.Fprintf(b, "  memory up to %s for each that is open: up to %d row groups, one for each part of a run, at most all files of a run, %s, times %d for decoding\n",
			fault.Size(plan.Decoded*open.bytes), open.number, fault.Size(open.bytes), plan.Decoded)
	}
}

// drawOpenLane is like writeOpenLane, for a drawing.
func drawOpenLane(d *drawing, p *plan.Plan) {
	switch open := openRowGroups(p); {
	case open.bytes == 0:
	case open.number == 1:
		d.fact("held", "up to %s for each open lane: a row group, decoded", fault.Size(plan.Decoded*open.bytes))
	default:
		d.fact("held", "up to %s for each open lane: up to %d row groups, decoded", fault.Size(plan.Decoded*open.bytes), open.number)
	}
}

// rowGroupMemory describes the row groups that a lane reads at a time: their maximum number, and
// their maximum total size, assuming that a row group may be its whole file.
type rowGroupMemory struct{ number, bytes int64 }

// openRowGroups returns the maximum of the row groups that any lane reads at a time. If rows are
// permuted, each part of a run reads a different row group.
func openRowGroups(p *plan.Plan) rowGroupMemory {
	open := rowGroupMemory{number: 1, bytes: maxFileBytes(p)}
	if p.Rows.ShuffleWindow == 0 || p.Rows.ShuffleParts == 1 {
		return open
	}
	open.number = p.Rows.ShuffleParts
	for lane := range p.Lanes {
		for _, r := range p.Runs(lane) {
			open.bytes = max(open.bytes, min(runBytes(p, p.Lanes[lane].Ranges[r.First:][:r.Ranges()]), p.Rows.ShuffleParts*maxFileBytes(p)))
		}
	}
	return open
}

// runBytes returns the size of the files of a run.
func runBytes(p *plan.Plan, run []plan.Range) int64 {
	seen, bytes := map[string]bool{}, int64(0)
	for _, of := range run {
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
