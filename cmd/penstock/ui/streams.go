package ui

import (
	"cmp"
	"context"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/cmd/penstock/statustext"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/internal/svg"
)

// streamsBody is the page of streams.
type streamsBody struct {
	Replicas []replicaCard
	Find     string // the text that a stream's job, subject, dataset or replica contains; "": all streams
	Streams  []streamRow
	Listed   listing
	Orders   []choice
	Own      bool // a replica shows only the viewer's own streams
	Several  bool // there are several replicas
	Planning []planRow
	Subjects bool // streams have subjects
	// Limits explain what limits the streams in the table, each once.
	Limits []string
	// Counts are, for each stream by its id, the milliseconds for which it is open, rows, bytes, and milliseconds of waiting by cause in the
	// order of causes, as JSON.
	Counts string
}

// replicaCard describes a replica.
type replicaCard struct {
	Name, Failure string
	Facts         []fact
	Alarm         string // what a person should look at; "": nothing
}

// planRow is a call that makes a plan.
type planRow struct{ Replica, Subject, Job, Dataset, Open, Now string }

type fact struct{ Name, Value string }

// streamRow is a stream in the table.
type streamRow struct {
	ID, Replica, Subject, Job, Dataset, Plan, Shard, Open, Way, Now string
	Link                                                            string // the page of the dataset; "" if the query has its own
	Rows                                                            int64
	Done                                                            template.HTML
	DoneText, Waited                                                string
	Limit                                                           string // what limits the stream; "" if it is not known
	Times                                                           template.HTML
}

// causes are the causes of waiting, in the order in which pages show them.
var causes = []string{"trainer", "storage", "memory", "stream", "slot"} //nolint:gochecknoglobals // a constant table

// waited returns the milliseconds that a stream waited by cause, in the order of causes. The network counts to the trainer, and delete
// files count to storage.
func waited(w flight.WaitedTime) []int64 {
	return []int64{w.Trainer + w.Network, w.Storage + w.Deletes, w.Memory, w.Stream, w.Slot}
}

func (p *pages) streams(ctx context.Context, r *http.Request) (shown, error) {
	all, err := p.statuses(ctx)
	if err != nil {
		return shown{}, err
	}
	body := streamsBody{Find: r.URL.Query().Get("find"), Several: len(all) > 1}
	counts, planned := map[string][]int64{}, map[string]bool{}
	var found []foundStream
	for _, one := range all {
		body.Replicas = append(body.Replicas, one.card())
		body.Own = body.Own || one.Failure == "" && !one.All
		for _, of := range one.Planning {
			if !planned[of.ID] { // several addresses lead to one server
				planned[of.ID] = true
				body.Planning = append(body.Planning, planRowOf(one.Name, of))
			}
		}
		for _, s := range one.Streams {
			if _, twice := counts[s.ID]; twice { // several addresses lead to one server
				continue
			}
			counts[s.ID] = append([]int64{s.OpenMS, s.Rows, s.Bytes + s.Mapped}, waited(s.Waited)...)
			if selected(body.Find, one.Name, s) {
				found = append(found, foundStream{one.Name, s})
				body.Subjects = body.Subjects || s.Subject != ""
			}
		}
	}
	by := r.URL.Query().Get("order")
	order(found, by)
	body.Listed, body.Orders = newListing(len(found), "streams", r.URL), choices(by)
	for _, one := range found[body.Listed.From:body.Listed.To] {
		body.Streams = append(body.Streams, rowOf(one.replica, one.StreamStatus))
		body.limit(one.StreamStatus)
	}
	body.Counts = string(jsontext.Of(counts))
	return shown{Title: "Streams", Section: "streams", Every: refresh, Body: body}, nil
}

// limit adds what limits a stream to what is explained below the table, once for each cause.
func (b *streamsBody) limit(s flight.StreamStatus) {
	if s.Limit == nil || slices.ContainsFunc(b.Limits, func(text string) bool { return strings.HasPrefix(text, string(s.Limit.Cause)+": ") }) {
		return
	}
	b.Limits = append(b.Limits, statustext.Explain(*s.Limit))
}

// selected reports whether a stream belongs to a search.
func selected(find, replica string, s flight.StreamStatus) bool {
	return find == "" || slices.ContainsFunc([]string{replica, s.Subject, s.Job, s.Dataset, s.Plan}, func(text string) bool {
		return strings.Contains(strings.ToLower(text), strings.ToLower(find))
	})
}

func planRowOf(replica string, of flight.PlanningStatus) planRow {
	out := planRow{
		Replica: replica, Subject: cmp.Or(of.Subject, unknown), Job: cmp.Or(of.Job, unknown), Dataset: of.Dataset,
		Open: duration(of.OpenMS), Now: statustext.Planning(of),
	}
	if of.Inline {
		out.Dataset = inQuery
	}
	return out
}

// inQuery stands for the name of a dataset that a query carries.
const inQuery = "(in the query)"

func rowOf(replica string, s flight.StreamStatus) streamRow {
	out := streamRow{
		ID: s.ID, Replica: replica, Subject: cmp.Or(s.Subject, unknown), Job: cmp.Or(s.Job, unknown), Dataset: s.Dataset, Plan: s.Plan,
		Shard: strconv.Itoa(s.Shard.Index) + "/" + strconv.Itoa(s.Shard.Of), Open: duration(s.OpenMS), Way: cmp.Or(s.Way, unknown), Now: statustext.State(s), Rows: s.Rows,
	}
	if s.Inline {
		out.Dataset = inQuery
	} else {
		out.Link = "/datasets/" + pathOf(s.Dataset)
	}
	out.DoneText = unknown
	if done := doneOf(s); done >= 0 {
		out.DoneText = strconv.Itoa(int(100*done)) + " %" //nolint:mnd // percent
		out.Done = inline(svg.Gauge{Title: "done", To: 1, Value: done}.Draw())
	}
	out.Times, out.Waited = times(s)
	if s.Limit != nil {
		out.Limit = string(s.Limit.Cause) + " " + svg.Percent(s.Limit.Share)
	}
	return out
}

// times draws how a stream has spent its time, and says it.
func times(s flight.StreamStatus) (picture template.HTML, said string) {
	var parts []svg.Share
	var texts []string
	rest := 1.0
	for i, ms := range waited(s.Waited) {
		share := min(rest, float64(ms)/float64(max(1, s.OpenMS)))
		rest -= share
		parts = append(parts, svg.Share{Name: causes[i], Of: share})
		if share >= 0.01 { //nolint:mnd // a percent
			texts = append(texts, causes[i]+" "+svg.Percent(share))
		}
	}
	parts = append(parts, svg.Share{Name: "works", Of: rest})
	if texts == nil {
		texts = []string{unknown}
	}
	return inline(svg.Stack{Title: "time by cause", Of: parts}.Draw()), strings.Join(texts, ", ")
}

// card describes a replica.
func (one replica) card() replicaCard {
	out := replicaCard{Name: one.Name, Failure: one.Failure}
	if one.Failure != "" {
		return out
	}
	add := func(name, value string) { out.Facts = append(out.Facts, fact{name, value}) }
	add("Version", one.Version)
	add("Up for", duration(one.UptimeMS))
	add("Streams", strconv.Itoa(len(one.Streams)))
	if l := one.Slots; l != nil && l.Limit > 0 {
		add("Slots", strconv.Itoa(l.Taken)+" of "+strconv.Itoa(l.Limit)+" taken, "+strconv.Itoa(l.Waiting)+" waiting")
	}
	if m := one.Memory; m != nil {
		add("Memory", memoryText(*m))
	}
	if l := one.Plans; l != nil {
		add("Plans", strconv.Itoa(l.Running)+" being made, "+strconv.Itoa(l.Waiting)+" waiting")
	}
	if c := one.Config; c != nil && !c.Current {
		out.Alarm = "The server does not use the config file on disk"
		if c.Error != "" {
			out.Alarm += ". It was refused at " + c.Last.UTC().Format(time.DateTime) + " UTC: " + c.Error
		}
	}
	return out
}

func memoryText(m flight.MemoryStatus) string {
	if m.Limit < 0 {
		return fault.Size(m.Used) + ", without a limit"
	}
	return fault.Size(m.Used) + " of " + fault.Size(m.Limit)
}

// unknown is the text of a cell without a value.
const unknown = "–"

// inline returns a picture for a page. Package svg escapes all texts.
func inline(c *svg.Canvas) template.HTML { return template.HTML(c.Inline()) } //nolint:gosec // see above

// duration returns the text of a number of milliseconds in its two largest units.
func duration(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min " + strconv.Itoa(int(d.Seconds())%60) + " s" //nolint:mnd // seconds
	case d < 24*time.Hour: //nolint:mnd // a day
		return strconv.Itoa(int(d.Hours())) + " h " + strconv.Itoa(int(d.Minutes())%60) + " min" //nolint:mnd // minutes
	}
	return strconv.Itoa(int(d.Hours())/24) + " d " + strconv.Itoa(int(d.Hours())%24) + " h" //nolint:mnd // hours
}
