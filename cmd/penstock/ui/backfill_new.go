package ui

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/flight"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// Propose lays out the staging tables of new features.
type Propose interface {
	Propose(ctx context.Context, request decode.ProposeCommand) (flight.Proposal, error)
}

// newBackfill is the page that lays out a staging table.
type newBackfill struct {
	Asked           decode.ProposeCommand
	Columns         string // of Asked, a line each
	Key, Sort       string
	Datasets        []string // that can be chosen
	Failure, Remedy string
	Found           bool // the proposal is that of the form
	flight.Proposal
	Texts []copied
}

// copied is a text to copy. Link is the page that does the same; "": there is none.
type copied struct{ ID, Title, Note, Text, Link string }

// newBackfill shows a form and, if it is filled, the layout of the staging table. It changes nothing.
func (p *pages) newBackfill(ctx context.Context, r *http.Request) (shown, error) {
	q := r.URL.Query()
	all, err := p.Read.Datasets(ctx)
	if err != nil {
		return shown{}, err
	}
	body := newBackfill{Columns: q.Get("columns"), Key: q.Get("key"), Sort: q.Get("sort")}
	for _, one := range all {
		body.Datasets = append(body.Datasets, one.Name)
	}
	body.Asked = decode.ProposeCommand{
		Dataset: q.Get("dataset"), Table: strings.TrimSpace(q.Get("table")), Key: cmdline.Items(body.Key), Sort: cmdline.Items(body.Sort),
		Unaligned: q.Has("unaligned"), Replaces: strings.TrimSpace(q.Get("replaces")), From: q.Get("from"), To: q.Get("to"),
	}
	for line := range strings.Lines(body.Columns) {
		if line = strings.TrimSpace(line); line != "" {
			body.Asked.Columns = append(body.Asked.Columns, line)
		}
	}
	if len(q) > 0 {
		if err := body.propose(ctx, p, q.Get("buckets")); err != nil {
			e := failureOf(err)
			body.Failure, body.Remedy = e.Message, e.Remedy
		}
	}
	return shown{Title: "New backfill", Section: "backfills", Body: body}, nil
}

// propose asks for the layout.
func (b *newBackfill) propose(ctx context.Context, p *pages, buckets string) (err error) {
	if buckets != "" {
		if b.Asked.Buckets, err = strconv.Atoi(buckets); err != nil {
			return fault.InvalidField("buckets", "%q is not a number", buckets)
		}
	}
	if b.Proposal, err = p.Propose.Propose(ctx, b.Asked); err != nil {
		return err
	}
	b.Found = true
	b.Texts = []copied{
		{"sql", "Spark SQL", "Replace <source> by a table, a view, or a query in parentheses.", b.SQL, ""},
		{"yaml", "Dataset", "Put this into the config file, once the table exists.", b.YAML, ""},
	}
	if b.StageFlags != nil {
		const note = "The first command creates the table with its first rows on main: no dataset reads them yet. The second writes more rows to a branch, which the list of backfills shows. " +
			"Use one token for each part of the rows: a command that is repeated writes nothing twice."
		b.Texts = append(b.Texts, copied{"stage", "Without Spark", note, b.stage(p.Source), p.stageLink(b.Table, b.StageFlags)})
	}
	return nil
}

// stage returns the commands that create the table with its first rows, and stage more to a branch: a branch begins at a snapshot of main.
func (b *newBackfill) stage(source string) string {
	name := b.Proposal.Columns[len(b.Proposal.Columns)-1].Name
	first := cmdline.Join(append([]string{"penstock", "stage", b.Table}, append(b.StageFlags, "--token", name+"-1")...)...)
	more := cmdline.Join("penstock", "stage", b.Table, "--branch", "backfill", "--token", name+"-2")
	return first + source + " FILES…\n" + more + source + " FILES…\n"
}

// stageLink returns the page that creates a table with its first rows; "" if pages stage nothing.
func (p *pages) stageLink(table string, flags []string) string {
	if p.Stages == nil {
		return ""
	}
	fields := url.Values{}
	for pair := range slices.Chunk(flags, 2) { //nolint:mnd // a flag and its value
		fields.Add(strings.TrimPrefix(pair[0], "--"), pair[1])
	}
	return "/stage/" + pathOf(table) + "?" + fields.Encode()
}
