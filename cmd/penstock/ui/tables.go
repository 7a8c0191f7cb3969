package ui

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/svg"
	"github.com/penstock/penstock/loader/catalog/history"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// maxSnapshots is the number of snapshots on the page of a table.
const maxSnapshots = 100

// tableRow describes a table.
type tableRow struct {
	Name, Link, Rows, Deletes, Bytes, Files, Time, Partitions, Failure string
	Datasets                                                           []named
}

// tableBody is the page of a table.
type tableBody struct {
	tableRow
	acts
	Branch     string
	Snapshots  []snapshotRow
	Older      int
	Others     []otherRef
	Statistics string
	Measure    measureForm
}

// snapshotRow is a snapshot of a branch.
type snapshotRow struct {
	Snapshot, Time, Operation, Writer, Added, Removed, Rows, Refs, Kept, Token string
}

// otherRef is a branch or tag at a snapshot that is not listed.
type otherRef struct{ Kind, Name, Link, Snapshot string }

func (p *pages) tables(ctx context.Context, r *http.Request) (shown, error) {
	found, err := p.Read.Tables(ctx, r.URL.Query().Get("within"))
	if err != nil {
		return shown{}, err
	}
	var rows []listRow
	for _, one := range found {
		t := rowOfTable(one)
		if t.Deletes != "" {
			t.Rows += ", " + t.Deletes + " deletes"
		}
		rows = append(rows, listRow{t.Name, t.Link, t.Failure, []cell{
			{Text: t.Rows, Number: true}, {Text: t.Bytes, Number: true}, {Text: t.Files, Number: true}, {Text: t.Time}, {Text: t.Partitions}, {Links: t.Datasets},
		}})
	}
	head := []heading{
		{Text: "Table"}, {Text: "Rows", Number: true}, {Text: "Bytes", Number: true}, {Text: "Files", Number: true}, {Text: "Last snapshot"}, {Text: "Partitions"}, {Text: "Datasets"},
	}
	return shown{Title: "Tables", Section: "tables", Body: newList("Tables", "table", head, rows, r.URL)}, nil
}

// tableNamed describes one table.
func (p *pages) tableNamed(ctx context.Context, name string) (history.Description, error) {
	found, err := p.Read.Tables(ctx, name)
	if err != nil {
		return history.Description{}, err
	}
	if len(found) != 1 || found[0].Table != name {
		return history.Description{}, fault.New(fault.NotFound, "there is no table %s", name).WithRemedy("choose one from the list of tables")
	}
	return found[0], nil
}

func rowOfTable(of history.Description) tableRow {
	out := tableRow{
		Name: of.Table, Link: "/tables/" + pathOf(of.Table), Rows: count(of.Rows), Bytes: unknown, Files: count(of.Files),
		Time: moment(of.Time), Partitions: strings.Join(of.Partition, ", "), Failure: fault.Redact(of.Error),
	}
	if of.Bytes != nil {
		out.Bytes = fault.Size(*of.Bytes)
	}
	if of.Deletes != nil && *of.Deletes > 0 {
		out.Deletes = svg.Count(*of.Deletes)
	}
	for _, name := range of.Datasets {
		out.Datasets = append(out.Datasets, named{name, "/datasets/" + pathOf(name)})
	}
	return out
}

func (p *pages) table(ctx context.Context, r *http.Request) (shown, error) {
	name, branch := r.PathValue("name"), r.URL.Query().Get("branch")
	found, err := p.tableNamed(ctx, name)
	if err != nil {
		return shown{}, err
	}
	log, err := p.Read.Log(ctx, decode.LogCommand{Table: name, Branch: branch, Limit: maxSnapshots})
	if err != nil {
		return shown{}, err
	}
	body := tableBody{tableRow: rowOfTable(found), acts: p.acts(name), Branch: log.Branch, Older: log.Older}
	body.Measure = measureForm{Link: body.Link, At: branch}
	for _, e := range log.Snapshots {
		body.Snapshots = append(body.Snapshots, rowOfSnapshot(e))
	}
	for _, ref := range log.OtherRefs {
		kind := "branch"
		if ref.Tag {
			kind = "tag"
		}
		body.Others = append(body.Others, otherRef{kind, ref.Name, body.Link + "?branch=" + url.QueryEscape(ref.Name), strconv.FormatInt(ref.Snapshot, 10)})
	}
	if log.Statistics != nil {
		body.Statistics = log.Statistics.String()
	}
	return shown{Title: name, Section: "tables", Body: body}, nil
}

func rowOfSnapshot(e history.Entry) snapshotRow {
	out := snapshotRow{
		Snapshot: strconv.FormatInt(e.Snapshot, 10), Time: moment(e.Time), Operation: e.Operation, Writer: e.Writer, Token: e.Token,
		Added: amount(e.RowsAdded, e.BytesAdded), Removed: amount(e.RowsRemoved, e.BytesRemoved), Rows: count(e.Rows),
		Refs: strings.Join(append(append([]string{}, e.Branches...), e.Tags...), ", "),
	}
	for _, pin := range e.Pins {
		switch {
		case pin.Until.IsZero():
			out.Kept = "without an end"
		case out.Kept == "":
			out.Kept = "until " + moment(pin.Until)
		}
	}
	return out
}

// amount describes rows and bytes.
func amount(rows, bytes *int64) string {
	switch {
	case rows == nil && bytes == nil:
		return unknown
	case bytes == nil:
		return svg.Count(*rows) + " rows"
	case rows == nil:
		return fault.Size(*bytes)
	}
	return svg.Count(*rows) + " rows, " + fault.Size(*bytes)
}

func count(n *int64) string {
	if n == nil {
		return unknown
	}
	return svg.Count(*n)
}

// moment returns a time in UTC; "–" if it is not known.
func moment(t time.Time) string {
	if t.IsZero() {
		return unknown
	}
	return t.UTC().Format(time.DateTime) + " UTC"
}
