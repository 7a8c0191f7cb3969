package flight

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/stream"
)

// maxRuns is the number of plans whose last stream is remembered.
const maxRuns = 256

// lastRuns remembers, for the plans that were read most recently, what the last stream of each plan
// matched. Plans are distinguished by their TablesID, because the id of a plan does not cover left
// entries and the filters of their tables. It is safe for use by many goroutines.
type lastRuns struct {
	mu     sync.Mutex
	texts  map[string]string // by the TablesID of a plan
	recent []string          // their keys, the oldest first
}

// add remembers a stream that ended with its report.
func (r *lastRuns) add(tables string, staging map[string]stream.StagingReport) {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(staging)) {
		if c := staging[name].Counts; c.Rows > 0 {
			fmt.Fprintf(&text, "  %s: %s\n", name, rule.MatchText(c.Rows, c.Matched))
		}
	}
	if text.Len() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.texts == nil {
		r.texts = map[string]string{}
	}
	r.recent = append(slices.DeleteFunc(r.recent, func(id string) bool { return id == tables }), tables)
	r.texts[tables] = text.String()
	if len(r.recent) > maxRuns {
		delete(r.texts, r.recent[0])
		r.recent = slices.Delete(r.recent, 0, 1)
	}
}

// text describes the last stream of a plan, as a section of its explanation. It returns "" if no
// stream is remembered.
func (r *lastRuns) text(tables string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text := r.texts[tables]; text != "" {
		return "\nlast stream of this plan on this server\n" + text
	}
	return ""
}
