package ui

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/internal/svg"
	"github.com/penstock/penstock/loader/dataset"
)

// datasetRow describes a dataset.
type datasetRow struct {
	Name, Link, Rows, Staging string
	Columns                   int
	Failure, Remedy           string
}

// datasetBody is the page of a dataset.
type datasetBody struct {
	datasetRow
	acts
	Fields  []column
	Explain string // what explain prints
	Splits  bool   // with all splits
	Measure measureForm
	planShape
}

// column is a column of a dataset's batches.
type column struct {
	Name, Type string
	Nullable   bool
}

func (p *pages) datasets(ctx context.Context, r *http.Request) (shown, error) {
	all, err := p.Read.Datasets(ctx)
	if err != nil {
		return shown{}, err
	}
	var rows []listRow
	for _, one := range all {
		d := rowOfDataset(one)
		rows = append(rows, listRow{d.Name, d.Link, d.Failure, []cell{{Text: d.Rows, Number: true}, {Text: strconv.Itoa(d.Columns), Number: true}, {Text: d.Staging}}})
	}
	head := []heading{{Text: "Dataset"}, {Text: "Rows", Number: true}, {Text: "Columns", Number: true}, {Text: "Staging entries"}}
	return shown{Title: "Datasets", Section: "datasets", Body: newList("Datasets", "dataset", head, rows, r.URL)}, nil
}

func rowOfDataset(of client.Dataset) datasetRow {
	out := datasetRow{Name: of.Name, Link: PathOfDataset(of.Name), Rows: unknown, Staging: strings.Join(of.Staging, ", ")}
	if of.Rows >= 0 {
		out.Rows = svg.Count(of.Rows)
	}
	if of.Schema != nil {
		out.Columns = of.Schema.NumFields()
	}
	if of.Err != nil {
		out.Failure, out.Remedy = messageOf(of.Err), fault.Redact(of.Err.Remedy)
	}
	return out
}

func (p *pages) dataset(ctx context.Context, r *http.Request) (shown, error) {
	name := r.PathValue("name")
	all, err := p.Read.Datasets(ctx)
	if err != nil {
		return shown{}, err
	}
	at := slices.IndexFunc(all, func(one client.Dataset) bool { return one.Name == name })
	if at < 0 {
		var names []string
		for _, one := range all {
			names = append(names, one.Name)
		}
		return shown{}, dataset.Unknown(name, names)
	}
	body := datasetBody{datasetRow: rowOfDataset(all[at]), acts: p.acts(name), Splits: r.URL.Query().Has("splits")}
	body.Measure = measureForm{Link: body.Link, Dataset: true}
	for _, one := range all {
		if one.Name != name && one.Err == nil {
			body.Measure.Others = append(body.Measure.Others, one.Name)
		}
	}
	if all[at].Schema != nil {
		for _, f := range all[at].Schema.Fields() {
			body.Fields = append(body.Fields, column{f.Name, f.Type.String(), f.Nullable})
		}
	}
	if body.Failure == "" {
		if err := p.plan(ctx, &body); err != nil {
			body.Failure, body.Remedy = messageOf(err), fault.Redact(fault.As(err).Remedy)
		}
	}
	return shown{Title: name, Section: "datasets", Body: body}, nil
}

// plan adds the plan of all rows of a dataset.
func (p *pages) plan(ctx context.Context, body *datasetBody) (err error) {
	query := jsontext.Of(map[string]string{"dataset": body.Name})
	if body.Explain, err = p.Read.Explain(ctx, query, body.Splits); err != nil {
		return err
	}
	of, err := p.Read.Shape(ctx, query)
	if err != nil {
		return err
	}
	body.planShape = newPlanShape(of)
	return nil
}

// PathOfDataset returns the path of the page of a dataset; of the list of datasets for "".
func PathOfDataset(name string) string {
	if name == "" {
		return "/datasets"
	}
	return "/datasets/" + pathOf(name)
}

// pathOf returns a name as the last part of a path. A part of dots has another meaning in URLs.
func pathOf(name string) string {
	escaped := url.PathEscape(name)
	if strings.Trim(escaped, ".") == "" {
		return strings.ReplaceAll(escaped, ".", "%2E")
	}
	return escaped
}
