package explain

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
)

// Limits for the texts on mixing.
const (
	poorlyMixed = 2.0  // the deviation above which there is a note
	muchBetter  = 0.75 // a setting is suggested if it lowers the deviation to this share or less
	unsetBatch  = 8192 // the rows of a batch if no size is set and rows are narrow
	manyParts   = 64   // the maximum of shuffle_parts that is suggested
	moreWindow  = 8    // the factor by which a larger window is tried
)

// Mixes describes how well the rows of a query's batches are mixed.
type Mixes struct {
	Deviation float64 // as returned by Plan.Mixing; 0 if rows are not permuted within windows
	Rows      int64   // the rows of a batch
	// Better names the settings that make Deviation much lower if they are raised. It is "" if
	// Deviation is at most 2.
	Better string
}

// among joins words as a list in a sentence.
func among(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// MixesOf returns how well batches of some shards of a query are mixed, and which settings would
// mix them better.
func MixesOf(p *plan.Plan, q dataset.Query, shards ...dataset.Shard) Mixes {
	of := int64(max(1, q.Shard.Of))
	rows := int64(cmp.Or(q.BatchRows, q.BatchRequests, unsetBatch))
	if q.GlobalBatchRows > 0 {
		rows = max(1, int64(q.GlobalBatchRows)/of)
	}
	m := Mixes{Deviation: p.Mixing(rows, shards...), Rows: rows}
	if m.Deviation <= poorlyMixed {
		return m
	}
	var better []string
	try := func(setting string, change func(*dataset.Rows)) {
		other := *p
		change(&other.Rows)
		if other.Mixing(rows, shards...) <= muchBetter*m.Deviation {
			better = append(better, setting)
		}
	}
	if p.Rows.ShuffleParts < manyParts {
		try("shuffle_parts", func(r *dataset.Rows) { r.ShuffleParts = manyParts })
	}
	if p.Rows.ShuffleWindow < p.LongestRun() {
		try("shuffle_window", func(r *dataset.Rows) { r.ShuffleWindow *= moreWindow })
	}
	m.Better = among(append(better, "lanes of each stream"))
	return m
}

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
	m := MixesOf(p, q, everyShard(q)...)
	if m.Deviation == 0 {
		return
	}
	fmt.Fprintf(b, "\nmixing\n  %.1f: deviation of the mean stored position of batches of %s, relative to independently drawn rows\n", m.Deviation, plan.Counted(m.Rows, "row"))
	if m.Better != "" {
		fmt.Fprintf(b, "  to mix better, raise %s\n", m.Better)
	}
}

// mixingNotes says that the batches of a query are mixed poorly.
func mixingNotes(p *plan.Plan, q dataset.Query) []string {
	if m := MixesOf(p, q, everyShard(q)...); m.Better != "" {
		return []string{fmt.Sprintf("mixing %.1f (1 is best): raise %s", m.Deviation, m.Better)}
	}
	return nil
}
