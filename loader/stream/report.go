package stream

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/penstock/penstock/joiner"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/joined"
	"github.com/penstock/penstock/loader/resolve"
)

// Report describes what a stream returned. Its JSON form is the stream's last message.
type Report struct {
	Rows     int64           `json:"rows"`
	Requests int64           `json:"requests,omitempty"` // the number of requests in Rows, if batches consist of requests
	Batches  int64           `json:"batches"`
	Steps    int64           `json:"steps"`             // steps of the shard, including the steps of other DataLoader workers
	Skipped  int64           `json:"skipped,omitempty"` // rows in the steps of other DataLoader workers
	Leftover []Leftover      `json:"leftover"`          // set with tail: drop
	Cursor   dataset.Cursor  `json:"cursor"`
	Sample   json.RawMessage `json:"sample,omitempty"` // the query's sample in canonical form, so that a trainer can weight rows by it
	// Divided is the number of windows that began within a request, if rows are
	// shuffled by request.
	Divided int64                    `json:"divided_requests,omitempty"`
	Staging map[string]StagingReport `json:"staging"` // by staging table that was read
	// Unread names the staging tables that were not read. A table is not read if the query needs
	// none of its values, and its entry neither drops nor repeats rows, nor fails because of
	// missing keys.
	Unread []string `json:"unread,omitempty"`
	// Promoted lists the staging tables whose values were read from columns of the training table.
	// For each table, it has the snapshot from which the values were copied. It is unknown how many
	// rows had a match.
	Promoted map[string]int64 `json:"promoted,omitempty"`
	Request  *RequestReport   `json:"request,omitempty"` // describes the columns that are constant within a request, if they are indexed
	Indexed  []string         `json:"indexed,omitempty"` // with wire: auto, the columns that the stream indexed
	Cached   *CachedReport    `json:"cached,omitempty"`  // what this stream read from the cache of decoded columns, if anything
}

// CachedReport is what a stream read from the cache of decoded columns.
type CachedReport struct {
	Columns int64   `json:"columns"` // columns of row groups, or of parts of row groups
	Bytes   int64   `json:"bytes"`   // decoded bytes
	Seconds float64 `json:"seconds"` // the processor time that decoding these columns took when they were added to the cache
}

// RequestReport describes how often a stream sent the columns that are constant within a request.
type RequestReport struct {
	Sent  int64   `json:"sent"`  // the number of requests in each batch, summed over all batches
	Ratio float64 `json:"ratio"` // the stream's rows divided by Sent; 0 if there are no rows
}

// Leftover is the number of rows, or requests, at the end of a lane that were dropped because they
// did not fill a step.
type Leftover struct {
	Lane     int   `json:"lane"`
	Rows     int64 `json:"rows,omitempty"`
	Requests int64 `json:"requests,omitempty"` // set instead of Rows if batches consist of requests
}

// StagingReport holds the counts of one staging table in a stream, and the cost of
// joining it.
type StagingReport struct {
	joiner.Counts
	Strategy      string  `json:"strategy"`                   // the strategy that was used; several strategies if file groups differed
	BytesRead     int64   `json:"bytes_read"`                 // bytes of files that this stream read, without build sides that other streams built
	Shared        int64   `json:"bytes_shared,omitempty"`     // in addition: bytes of files that another stream read for batches that both streams sent
	ReadAgain     int64   `json:"bytes_read_again,omitempty"` // in addition: bytes that were read again after the stream was parked
	Amplification float64 `json:"amplification"`              // bytes read and shared divided by the bytes of the distinct files; 0 if nothing was read
	SpilledBytes  int64   `json:"spilled_bytes"`              // bytes written to local disk
	Sent          int64   `json:"sent,omitempty"`             // with wire: indexed, the number of rows of the table in the dictionaries of all batches
	Ratio         float64 `json:"ratio,omitempty"`            // rows of the stream over Sent
	// Warning says that few rows have a match, probably because the two tables write their keys in
	// different ways.
	Warning string `json:"warning,omitempty"`
}

// Report returns a report of the stream so far. At the end of the stream, the report is complete.
func (s *ShardReader) Report() Report {
	p := s.progress()
	r := Report{
		Rows: p.Rows, Batches: p.Batches, Steps: p.Steps, Skipped: p.Skipped, Leftover: []Leftover{}, Cursor: s.shard.cursor(p),
		Sample: json.RawMessage(s.shard.Plan.Rows.Sample.Canonical()), Staging: stagingReports(s.shard.Plan.Relation, s.sequences.joined.Used()), Divided: s.sequences.dividedRequests(),
	}
	for _, of := range s.shard.Plan.Relation.Staging {
		switch _, read := r.Staging[of.Name]; {
		case of.Promoted != nil:
			if r.Promoted == nil {
				r.Promoted = map[string]int64{}
			}
			r.Promoted[of.Name] = of.Pinned.Pin.Snapshot
		case !read:
			r.Unread = append(r.Unread, of.Name)
		}
	}
	for i, sent := range p.Distinct {
		r.indexed(s.layout.indexed[i], sent)
		if s.shard.Reading.Wire.Auto() {
			r.Indexed = append(r.Indexed, s.layout.indexed[i].Name)
		}
	}
	if of := s.cached.Total(); of.Columns > 0 {
		r.Cached = &CachedReport{Columns: of.Columns, Bytes: of.Bytes, Seconds: of.Saved.Seconds()}
	}
	requests := s.shard.Plan.Rows.Requests
	if requests {
		r.Requests = p.Counted
	}
	if !s.shard.Reading.Tail.Drops() {
		return r
	}
	for _, l := range s.shard.lanes {
		switch left := s.shard.counts.Lanes[l.Number] - r.Cursor.Given; {
		case left <= 0:
		case requests:
			r.Leftover = append(r.Leftover, Leftover{Lane: l.Number, Requests: left})
		default:
			r.Leftover = append(r.Leftover, Leftover{Lane: l.Number, Rows: left})
		}
	}
	return r
}

// stagingReports returns the reports of staging tables, by name.
func stagingReports(of *resolve.Relation, used []joined.Used) map[string]StagingReport {
	byName := make(map[string]StagingReport, len(used))
	for _, u := range used {
		r := StagingReport{Counts: u.Counts, Strategy: u.Costs.Strategy, BytesRead: u.Costs.Read, Shared: u.Costs.Shared, ReadAgain: u.Costs.ReadAgain, SpilledBytes: u.Costs.Spilled}
		if u.Costs.Stored > 0 {
			r.Amplification = float64(u.Costs.Read+u.Costs.Shared) / float64(u.Costs.Stored)
		}
		byName[u.Name] = r
	}
	for _, s := range of.Staging {
		if r, ok := byName[s.Name]; ok {
			r.Warning = matchWarning(of.Dataset.Name, s, r.Counts)
			byName[s.Name] = r
		}
	}
	return byName
}

// matchWarning returns a warning if a join matches few rows and the dataset does not set min_match.
// Otherwise it returns "".
func matchWarning(dataset string, s resolve.Staging, c joiner.Counts) string {
	if s.MinMatch > 0 || s.AnyMatch || !s.Join.FewMatches(c.Rows, c.Matched) {
		return ""
	}
	text := rule.MatchText(c.Rows, c.Matched)
	if c.NullKeys > 0 {
		text += fmt.Sprintf(", and %d have a null in the key", c.NullKeys)
	}
	return text + "; penstock verify " + cmp.Or(dataset, "--query") + " compares the keys of both tables"
}

// indexed adds to the report how many distinct rows of an indexed column were sent.
func (r *Report) indexed(of resolve.Indexed, sent int64) {
	ratio := 0.0
	if sent > 0 {
		ratio = float64(r.Rows) / float64(sent)
	}
	if of.Table == resolve.RequestTable {
		r.Request = &RequestReport{Sent: sent, Ratio: ratio}
		return
	}
	staging := r.Staging[of.Name]
	staging.Sent, staging.Ratio = sent, ratio
	r.Staging[of.Name] = staging
}
