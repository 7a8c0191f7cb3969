package explain

import (
	"fmt"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/plan"
)

// writeOpenLane describes the memory of an open lane.
func writeOpenLane(b *strings.Builder, p *plan.Plan) {
	largest, open := p.LargestFile(), p.OpenRowGroups()
	switch {
	case largest == 0:
	case open.Number == 1:
		fmt.Fprintf(b, "  memory up to %s for each that is open: a row group, at most all of the largest file, %s, times %d for decoding\n",
			fault.Size(plan.Decoded*open.Bytes), fault.Size(largest), plan.Decoded)
	default:
		fmt.Fprintf(b, "  memory up to %s for each that is open: up to %d row groups, one for each part of a run, at most all files of a run, %s, times %d for decoding\n",
			fault.Size(plan.Decoded*open.Bytes), open.Number, fault.Size(open.Bytes), plan.Decoded)
	}
}

// drawOpenLane is like writeOpenLane, for a drawing.
func drawOpenLane(d *drawing, p *plan.Plan) {
	switch open := p.OpenRowGroups(); {
	case open.Bytes == 0:
	case open.Number == 1:
		d.fact("held", "up to %s for each open lane: a row group, decoded", fault.Size(plan.Decoded*open.Bytes))
	default:
		d.fact("held", "up to %s for each open lane: up to %d row groups, decoded", fault.Size(plan.Decoded*open.Bytes), open.Number)
	}
}
