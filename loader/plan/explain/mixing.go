package explain

import (
	"fmt"
	"strings"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

// everyShard returns all shards of a query.
func everyShard(q dataset.Query) []dataset.Shard {
	of := max(1, q.Shard.Of)
	all := make([]dataset.Shard, of)
	for i := range all {
		all[i] = dataset.Shard{Index: i, Of: of}
	}
	return all
}

// writeMixing describes the mixing of the batches of a query.
func writeMixing(b *strings.Builder, p *plan.Plan, q dataset.Query) {
	m := p.MixesOf(q, everyShard(q)...)
	if m.Deviation == 0 {
		return
	}
	fmt.Fprintf(b, "\nmixing\n  %.1f: by how many times the mean stored position of batches of %s deviates as that of independent rows\n", m.Deviation, plan.Counted(m.Rows, "row"))
	if m.Better != "" {
		fmt.Fprintf(b, "  to mix better, raise %s\n", m.Better)
	}
}

// mixingNotes says that the batches of a query are mixed poorly.
func mixingNotes(p *plan.Plan, q dataset.Query) []string {
	if m := p.MixesOf(q, everyShard(q)...); m.Better != "" {
		return []string{fmt.Sprintf("mixing %.1f (1 is best): raise %s", m.Deviation, m.Better)}
	}
	return nil
}
