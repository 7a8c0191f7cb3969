package fanout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// Explain returns a section for the explain text of plans: what the open streams of plans with the
// given plan.Plan.TablesID share at the moment. It lists groups, and streams without a group, in
// the order of their shards. The section is empty if no stream is open, or for a nil Sharer.
func (s *Sharer) Explain(tables string) string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var groups []groupLine
	without := map[aloneLine]int{}
	seen := map[*readerGroup]bool{}
	for m := range s.streams {
		switch g := m.group; {
		case m.planned.TablesID != tables || seen[g]:
		case g != nil:
			seen[g] = true
			groups = append(groups, groupLine{m.planned.Query.Shard.Index, g})
		default:
			without[aloneLine{m.planned.Query.Shard.Index, m.why}]++
		}
	}
	if len(groups)+len(without) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nsharing\n")
	slices.SortFunc(groups, func(x, y groupLine) int { return cmp.Or(x.shard-y.shard, cmp.Compare(x.group.age, y.group.age)) })
	for _, line := range groups {
		line.write(&b)
	}
	alone := slices.SortedFunc(maps.Keys(without), func(x, y aloneLine) int { return cmp.Or(x.shard-y.shard, cmp.Compare(x.why, y.why)) })
	for _, line := range alone {
		line.write(&b, without[line])
	}
	return b.String()
}

// groupLine is a line of an explain text for a group.
type groupLine struct {
	shard int
	group *readerGroup
}

func (l groupLine) write(b *strings.Builder) {
	g := l.group
	fmt.Fprintf(b, "  shard %d: %s at step %d", l.shard, fault.Count(len(g.members), "stream"), g.front().Step())
	if len(g.members) > 1 {
		fmt.Fprintf(b, ", with one reader of %s in batches of %d", fault.Count(len(g.spec.columns.list), "column"), g.planned.BatchRows)
	}
	if len(g.window) > 0 {
		fmt.Fprintf(b, "; the last %s, %d KiB, are kept", fault.Count(len(g.window), "step"), g.bytes>>10)
	}
	b.WriteString("\n")
}

// aloneLine is a line of an explain text for streams without a group.
type aloneLine struct {
	shard int
	why   Reason
}

func (l aloneLine) write(b *strings.Builder, streams int) {
	fmt.Fprintf(b, "  shard %d: %s in no group", l.shard, fault.Count(streams, "stream"))
	if l.why != "" {
		fmt.Fprintf(b, " (%s)", l.why)
	}
	b.WriteString("\n")
}
