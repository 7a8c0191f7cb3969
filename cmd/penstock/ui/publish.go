package ui

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/history"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// acts is what pages need that have links to changes of a table.
type acts struct {
	Acts     bool   // there are pages that change tables
	CanStage bool   // one of them stages rows
	Path     string // the table's name in the path of such a page
}

func (p *pages) acts(table string) acts { return acts{p.Change != nil, p.Stages != nil, pathOf(table)} }

// noSnapshot names the state of a branch without a snapshot, in forms and commands.
const noSnapshot = "none"

// confirmation is what all pages show that ask before a change.
type confirmation struct {
	Table, Link string
	Action      string // the path of the form
	Token       string
	Command     string // that makes the same change
	Back        string // the command that takes it back; "": there may be none
}

// moveBody is the page that asks before main is moved to a branch, or before a change is taken back.
type moveBody struct {
	confirmation
	Branch    string // for undo, "main" or the branch that is moved back
	From, To  string // the snapshots at which main and the branch were seen; for undo, of the change
	Made      bool   // main is at the snapshot of the branch already
	Snapshots []snapshotRow
	Older     int // snapshots that are not listed
	Datasets  []named
	Limits    []limitRow
	Drops     bool // undo drops the table
}

// limitRow is an entry of a dataset whose limits are checked.
type limitRow struct{ Dataset, Entry, Columns string }

// snapshotText returns a snapshot as forms and commands name it.
func snapshotText(id int64) string {
	if id == 0 {
		return noSnapshot
	}
	return strconv.FormatInt(id, 10)
}

// snapshotField returns a snapshot of a form.
func snapshotField(form url.Values, name string) (int64, error) {
	text := form.Get(name)
	if text == noSnapshot {
		return 0, nil
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		return 0, fault.InvalidField(name, "%q is not the id of a snapshot", text)
	}
	return id, nil
}

// moveField returns the snapshots between which a form moves a branch.
func moveField(form url.Values) (from, to int64, err error) {
	if from, err = snapshotField(form, "from"); err != nil {
		return 0, 0, err
	}
	if to, err = snapshotField(form, "to"); err == nil && to == 0 {
		err = fault.InvalidField("to", "is not a snapshot")
	}
	return from, to, err
}

// publishing is the page that asks before main is moved to a branch.
func (p *pages) publishing(ctx context.Context, r *http.Request) (shown, error) {
	table, branch := r.PathValue("name"), r.URL.Query().Get("branch")
	if branch == "" || branch == commit.Main {
		return shown{}, fault.InvalidField("branch", "%s is published to %s: want another branch", commit.Main, commit.Main).WithRemedy("choose one from the page of the table")
	}
	would, err := p.Change.WouldPublish(ctx, client.Move{Table: table, Branch: branch})
	if err != nil {
		return shown{}, err
	}
	body := moveBody{confirmation: p.confirmation(r, "publish", table), Branch: branch, From: snapshotText(would.From), To: snapshotText(would.To), Made: would.From == would.To}
	body.Command = cmdline.Join("penstock", "publish", table, branch, "--from", body.From, "--to", body.To) + p.Source
	if would.From != 0 { // like penstock publish: main without a snapshot is no state to go back to if the branch has several
		body.Back = undoCommand(table, "", would.From, would.To) + p.Source
	}
	for _, l := range would.Limits {
		body.Limits = append(body.Limits, limitRow{l.Dataset, l.Entry, strings.Join(l.Columns, ", ")})
	}
	log, err := p.Read.Log(ctx, decode.LogCommand{Table: table, Branch: branch, Limit: maxSnapshots})
	if err != nil {
		return shown{}, err
	}
	body.add(log.Snapshots, would.From)
	if len(body.Snapshots) == len(log.Snapshots) {
		body.Older = log.Older
	}
	if body.Datasets, err = p.readers(ctx, table); err != nil {
		return shown{}, err
	}
	return shown{Title: "Publish " + branch, Section: "tables", Body: body}, nil
}

// add lists snapshots, the newest first, as far as the snapshot until.
func (b *moveBody) add(entries []history.Entry, until int64) {
	for _, e := range entries {
		if e.Snapshot == until {
			return
		}
		b.Snapshots = append(b.Snapshots, rowOfSnapshot(e))
	}
}

// confirmation returns what the page before a change of a table shows.
func (p *pages) confirmation(r *http.Request, change, table string) confirmation {
	return confirmation{Table: table, Link: "/tables/" + pathOf(table), Action: "/" + change + "/" + pathOf(table), Token: p.forms.token(r, change, table)}
}

// readers returns the datasets that read a table and that the viewer may read.
func (p *pages) readers(ctx context.Context, table string) ([]named, error) {
	of, err := p.tableNamed(ctx, table)
	if err != nil {
		return nil, err
	}
	return rowOfTable(of).Datasets, nil
}

// publish moves main to the snapshot that the page showed.
func (p *pages) publish(ctx context.Context, name string, form url.Values) (string, error) {
	from, to, err := moveField(form)
	if err != nil {
		return "", err
	}
	if _, err := p.Change.Publish(ctx, client.Move{Table: name, Branch: form.Get("branch"), From: from, To: to}); err != nil {
		return "", err
	}
	return movedLink(name, "published", "", from, to), nil
}

// undoing is the page that asks before the last change of a branch is taken back.
func (p *pages) undoing(ctx context.Context, r *http.Request) (shown, error) {
	table, branch := r.PathValue("name"), r.URL.Query().Get("branch")
	if branch == commit.Main {
		branch = ""
	}
	back, err := p.Change.LastChange(ctx, table, branch)
	if err != nil {
		return shown{}, err
	}
	body := moveBody{
		confirmation: p.confirmation(r, "undo", table), Branch: cmp.Or(branch, commit.Main), Drops: back.Dropped,
		From: snapshotText(back.To), To: snapshotText(back.From),
	}
	body.Command = undoCommand(table, branch, back.To, back.From) + p.Source
	if back.Dropped {
		body.Command += " --yes"
	}
	for _, e := range back.Undone {
		body.Snapshots = append(body.Snapshots, rowOfSnapshot(e))
	}
	if body.Datasets, err = p.readers(ctx, table); err != nil {
		return shown{}, err
	}
	return shown{Title: "Take back", Section: "tables", Body: body}, nil
}

// undoCommand returns the command that undoes a move of a branch; "" is main.
func undoCommand(table, branch string, from, to int64) string {
	words := []string{"penstock", "undo", table}
	if branch != "" {
		words = append(words, "--branch", branch)
	}
	return cmdline.Join(append(words, "--from", snapshotText(from), "--to", snapshotText(to))...)
}

// undo takes the change back that the page showed.
func (p *pages) undo(ctx context.Context, name string, form url.Values) (string, error) {
	from, to, err := moveField(form)
	if err != nil {
		return "", err
	}
	branch := form.Get("branch")
	if branch == commit.Main {
		branch = ""
	}
	if _, err := p.Change.Undo(ctx, client.Move{Table: name, Branch: branch, From: from, To: to, Drop: form.Get("drop") == "yes"}); err != nil {
		return "", err
	}
	return movedLink(name, "undone", branch, to, from), nil
}

// movedLink returns the address of the page that shows a move of a branch; "" is main.
func movedLink(table, made, branch string, from, to int64) string {
	query := url.Values{"made": {made}, "from": {snapshotText(from)}, "to": {snapshotText(to)}}
	if branch != "" {
		query.Set("branch", branch)
	}
	return "/moved/" + pathOf(table) + "?" + query.Encode()
}

// movedBody is the page after a move. It is read from the catalog.
type movedBody struct {
	Table, Branch, Link string
	NoTable             bool   // there is no table of this name
	At                  string // the snapshot at which the branch is; "none" if it has none or does not exist
	Want                string
	Reached             bool
	UndoLink, Back      string // take a publication back; "": there may be no way
	Datasets            []datasetRow
}

// moved is the page after a move of a branch.
func (p *pages) moved(ctx context.Context, r *http.Request) (shown, error) {
	query := r.URL.Query()
	body := movedBody{Table: r.PathValue("name"), Branch: cmp.Or(query.Get("branch"), commit.Main), At: noSnapshot}
	body.Link = "/tables/" + pathOf(body.Table)
	from, err := snapshotField(query, "from")
	if err != nil {
		return shown{}, err
	}
	to, err := snapshotField(query, "to")
	if err != nil {
		return shown{}, err
	}
	body.Want = snapshotText(to)
	log, err := p.Read.Log(ctx, decode.LogCommand{Table: body.Table, Branch: query.Get("branch"), Limit: 1})
	switch {
	case fault.KindOf(err) == fault.NotFound && to == 0:
		_, err := p.tableNamed(ctx, body.Table)
		body.NoTable = fault.KindOf(err) == fault.NotFound
	case err != nil:
		return shown{}, err
	case len(log.Snapshots) > 0:
		body.At = snapshotText(log.Snapshots[0].Snapshot)
	}
	body.Reached = body.At == body.Want
	if body.Reached && query.Get("made") == "published" && from != to {
		body.UndoLink = "/undo/" + pathOf(body.Table)
		if from != 0 {
			body.Back = undoCommand(body.Table, "", from, to) + p.Source
		}
	}
	if !body.NoTable {
		if body.Datasets, err = p.readingNow(ctx, body.Table); err != nil {
			return shown{}, err
		}
	}
	return shown{Title: "Changed", Section: "tables", Body: body}, nil
}

// readingNow returns how the datasets that read a table can be read.
func (p *pages) readingNow(ctx context.Context, table string) ([]datasetRow, error) {
	readers, err := p.readers(ctx, table)
	if err != nil || len(readers) == 0 {
		return nil, err
	}
	all, err := p.Read.Datasets(ctx)
	if err != nil {
		return nil, err
	}
	var out []datasetRow
	for _, one := range all {
		for _, reader := range readers {
			if reader.Name == one.Name {
				out = append(out, rowOfDataset(one))
			}
		}
	}
	return out, nil
}
