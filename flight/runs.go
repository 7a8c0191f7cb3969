package flight

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/stream"
)

// The greatest numbers of streams that are remembered.
const (
	maxRuns        = 1024
	maxDatasetRuns = 50 // of one dataset
)

// Run is a stream that ended with its report.
type Run struct {
	Ended   time.Time  `json:"ended"`
	Plan    string     `json:"plan"` // its id
	Job     string     `json:"job,omitempty"`
	Matches []RunMatch `json:"matches"` // by name
	dataset string     // "" if the query had its dataset
	tables  string     // the TablesID of its plan
}

// RunMatch is how many training rows of a run matched a staging entry.
type RunMatch struct {
	Entry   string `json:"entry"`
	Rows    int64  `json:"rows"` // that were looked up
	Matched int64  `json:"matched"`
}

// lastRuns has the streams that ended last, with what they matched. It is safe for use by many goroutines.
type lastRuns struct {
	mu  sync.Mutex
	all []Run // the oldest first
}

// add adds a stream that ended with its report, unless no rows were looked up. It removes the oldest stream of the same dataset, or of all, if there
// are too many.
func (r *lastRuns) add(one Run, staging map[string]stream.StagingReport) {
	for _, name := range slices.Sorted(maps.Keys(staging)) {
		if c := staging[name].Counts; c.Rows > 0 {
			one.Matches = append(one.Matches, RunMatch{Entry: name, Rows: c.Rows, Matched: c.Matched})
		}
	}
	if one.Matches == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	same := 0
	for i := range r.all {
		if one.dataset != "" && r.all[i].dataset == one.dataset {
			same++
		}
	}
	switch {
	case same >= maxDatasetRuns:
		oldest := slices.IndexFunc(r.all, func(other Run) bool { return other.dataset == one.dataset })
		r.all = slices.Delete(r.all, oldest, oldest+1)
	case len(r.all) >= maxRuns:
		r.all = slices.Delete(r.all, 0, 1)
	}
	r.all = append(r.all, one)
}

// text describes the last stream of a plan, as a section of its explanation. Plans are distinguished by their TablesID, because the id of a plan does
// not cover left entries and the filters of their tables. It returns "" if no stream is remembered.
func (r *lastRuns) text(tables string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range slices.Backward(r.all) {
		if one.tables == tables {
			var b strings.Builder
			b.WriteString("\nlast stream of this plan on this server\n")
			for _, m := range one.Matches {
				fmt.Fprintf(&b, "  %s: %s\n", m.Entry, rule.MatchText(m.Rows, m.Matched))
			}
			return b.String()
		}
	}
	return ""
}

// of returns the remembered streams of a dataset, the oldest first.
func (r *lastRuns) of(dataset string) []Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []Run{}
	for _, one := range r.all {
		if dataset != "" && one.dataset == dataset {
			out = append(out, one)
		}
	}
	return out
}
