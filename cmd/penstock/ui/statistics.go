package ui

import (
	"context"
	"html/template"
	"iter"
	"net/http"
	"strconv"

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
	measured   *measurement[client.Description]
	flush      func()
}

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
		m := measure(ctx, described(p.Measure, command, isDataset))
		defer m.stop(cancel)
		if err := m.begun(); err != nil {
			p.fail(w, r, page, err)
			return
		}
		body := statisticsBody{name, "/" + sectionOf(page) + "/" + pathOf(name), isDataset, m, inParts(w)}
		what := shown{Title: "Statistics of " + name, Section: sectionOf(page), Version: p.Version, Body: body}
		_ = p.templates["statistics"].ExecuteTemplate(w, "page", what) // the browser may be gone
	}
}

// described returns the call that describes a dataset or a table.
func described(by Measure, command decode.StatsCommand, isDataset bool) measureCall[client.Description] {
	return func(ctx context.Context, report func(progress.Message)) (client.Description, error) {
		found, err := by.Stats(ctx, command, report)
		if err == nil && isDataset != (found.Dataset != nil) {
			err = fault.New(fault.Conflict, "a dataset and a table have the name %s: the statistics are those of the dataset", command.Of).WithRemedy("open the page of the dataset")
		}
		return found, err
	}
}

// Steps returns how far the measurement is, until it ends.
func (b statisticsBody) Steps() iter.Seq[measureStep] { return b.measured.steps(b.flush) }

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
