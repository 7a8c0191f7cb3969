package ui

import (
	"context"
	"errors"
	"html/template"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/statistics/htmlpage"
)

// Measure describes the values of tables and datasets.
type Measure interface {
	Stats(ctx context.Context, request decode.StatsCommand, report func(progress.Message)) (client.Description, error)
}

const (
	// measureTime bounds the time to measure the statistics of one page.
	measureTime = 10 * time.Minute
	// firstTime is how long a page waits for the first message about progress before it begins. Servers refuse a call before that message,
	// so that a refusal has its status.
	firstTime = 2 * time.Second
)

// tookTooLong is why a measurement ends at its deadline.
func tookTooLong() error {
	return fault.New(fault.Unavailable, "the statistics were not ready after %s", duration(measureTime.Milliseconds())).
		WithRemedy("describe fewer columns, or use penstock stats, which waits longer")
}

// measuredAnew is why a measurement ends when its viewer begins another one.
func measuredAnew() error {
	return fault.New(fault.Conflict, "another page of this viewer measures statistics now, and only one can").
		WithRemedy("wait for that page, and load this one again")
}

// measureForm is the form that begins a measurement.
type measureForm struct {
	Link    string // of the page of the dataset or table
	Dataset bool
	At      string   // the branch of a table that its page shows
	Others  []string // the datasets that a dataset can be compared with
}

// statisticsBody is the page of statistics. Its parts are sent while they are measured.
type statisticsBody struct {
	Name, Link string
	Dataset    bool
	measured   *measurement
	flush      func()
}

// measureStep says how far a measurement is.
type measureStep struct{ Read, All int64 }

// outcome is the end of a measurement.
type outcome struct {
	Failure, Remedy string
	Facts           []fact
	Content         template.HTML
}

// statistics returns the handler of the page that measures a dataset or a table. The page is sent in parts: how far the measurement is, and its
// result. The measurement ends when the browser has gone, or when the same viewer begins another one.
func (p *pages) statistics(page string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name, isDataset, q := r.PathValue("name"), page == "dataset", r.URL.Query()
		command := decode.StatsCommand{
			Of: name, At: q.Get("at"), Against: q.Get("against"), Label: q.Get("label"), Columns: cmdline.Items(q.Get("columns")), Progress: true,
		}
		ctx, end := p.measuring.begin(r.Context(), r.Header.Get("Authorization"))
		defer end()
		ctx, cancel := context.WithTimeoutCause(ctx, measureTime, tookTooLong())
		defer cancel()
		m := measure(ctx, p.Measure, command, isDataset)
		defer m.stop(cancel)
		if err := m.begun(); err != nil {
			p.fail(w, r, page, err)
			return
		}
		to := http.NewResponseController(w)
		// Both deadlines of the connection are for pages that are sent at once. An error means that the connection has none.
		_ = to.SetReadDeadline(time.Time{})
		_ = to.SetWriteDeadline(time.Now().Add(measureTime + callTime))
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("X-Accel-Buffering", "no") // so that proxies pass parts on
		body := statisticsBody{name, "/" + sectionOf(page) + "/" + pathOf(name), isDataset, m, func() { _ = to.Flush() }}
		what := shown{Title: "Statistics of " + name, Section: sectionOf(page), Version: p.Version, Body: body}
		_ = p.templates["statistics"].ExecuteTemplate(w, "page", what) // the browser may be gone
	}
}

// measurement is a call that describes a table or dataset.
type measurement struct {
	ctx   context.Context //nolint:containedctx // of the call
	began time.Time
	first measureStep      // zero: it has not been made
	steps chan measureStep // the newest one
	done  chan struct{}    // closed at the end; then the others are set
	found client.Description
	err   error
	ended time.Time
}

// measure begins to measure a dataset or a table.
func measure(ctx context.Context, by Measure, command decode.StatsCommand, isDataset bool) *measurement {
	m := &measurement{ctx: ctx, began: time.Now(), steps: make(chan measureStep, 1), done: make(chan struct{})}
	go func() {
		defer close(m.done)
		m.found, m.err = by.Stats(ctx, command, func(at progress.Message) {
			select {
			case m.steps <- measureStep{at.RowsRead, at.OfRowsRead}:
			default: // the browser is slow, and the next message says more
			}
		})
		m.ended = time.Now()
		if m.err == nil && isDataset != (m.found.Dataset != nil) {
			m.err = fault.New(fault.Conflict, "a dataset and a table have the name %s: the statistics are those of the dataset", command.Of).WithRemedy("open the page of the dataset")
		}
	}()
	return m
}

// begun waits until the measurement has made progress or has ended, or for firstTime. It returns the error of a measurement that has failed.
func (m *measurement) begun() error {
	first := time.NewTimer(firstTime)
	defer first.Stop()
	select {
	case m.first = <-m.steps:
	case <-m.done:
		return m.failure()
	case <-first.C:
	}
	return nil
}

// failure returns why a measurement that has ended has failed; nil if it has not.
func (m *measurement) failure() error {
	if cause, ok := errors.AsType[*fault.Error](context.Cause(m.ctx)); ok && m.err != nil {
		return cause
	}
	return m.err
}

// stop ends the measurement, and waits for its end.
func (m *measurement) stop(cancel func()) {
	cancel()
	<-m.done
}

// Steps returns how far the measurement is, until it ends. Before each wait, the page is sent as far as it is written.
func (b statisticsBody) Steps() iter.Seq[measureStep] {
	return func(yield func(measureStep) bool) {
		m := b.measured
		if m.first != (measureStep{}) && !yield(m.first) {
			return
		}
		for {
			b.flush()
			select {
			case step := <-m.steps:
				if !yield(step) {
					return
				}
			case <-m.done:
				return
			}
		}
	}
}

// Outcome returns the result of the measurement, which has ended.
func (b statisticsBody) Outcome() outcome {
	m := b.measured
	err := m.failure()
	var out outcome
	if err == nil {
		out.Facts = append(out.Facts, fact{"Measured", moment(m.ended) + ", in " + duration(m.ended.Sub(m.began).Milliseconds())})
		if d := m.found.Dataset; d != nil {
			out.Content, err = htmlpage.Dataset(d)
			for _, e := range d.Entries {
				out.Facts = append(out.Facts, fact{"Entry " + e.Name, e.Table + " at snapshot " + strconv.FormatInt(e.Snapshot, 10)})
			}
		} else {
			out.Content, err = htmlpage.Table(m.found.Table)
		}
	}
	if err != nil {
		e := failureOf(err)
		out = outcome{Failure: e.Message, Remedy: e.Remedy}
	}
	return out
}
