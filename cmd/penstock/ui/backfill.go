package ui

import (
	"cmp"
	"context"
	"net/http"
	"strconv"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// backfillBody is the page of a backfill: of a branch, at the snapshots that the page was made of.
type backfillBody struct {
	backfillRow
	acts
	// Snapshot is the id of the snapshot that the branch is at, and Main of the one that main is at; "" if main has none.
	Snapshot, Main string
	Published      bool
	Next           string // what to do with a branch that cannot be published
	Stages         []stageRow
	Coverage       covered
	Statistics     string // the address that compares the branch with main
}

// stageRow is a snapshot of the branch.
type stageRow struct {
	Snapshot, Time, Writer, Token, Rows, Removed, Files string
}

func (p *pages) backfill(ctx context.Context, r *http.Request) (shown, error) {
	state, err := p.branch(ctx, r.PathValue("name"), r.URL.Query().Get("branch"))
	if err != nil {
		return shown{}, err
	}
	body := backfillBody{backfillRow: rowOfBackfill(state), acts: p.acts(state.Table), Snapshot: strconv.FormatInt(state.Head, 10), Published: state.Published, Next: state.next()}
	if state.Main != 0 {
		body.Main = strconv.FormatInt(state.Main, 10)
	}
	for _, e := range state.Changes {
		body.Stages = append(body.Stages, stageRow{
			Snapshot: strconv.FormatInt(e.Snapshot, 10), Time: moment(e.Time), Writer: cmp.Or(e.Writer, unknown), Token: e.Token,
			Rows: amount(e.RowsAdded, e.BytesAdded), Removed: amount(e.RowsRemoved, e.BytesRemoved), Files: count(e.FilesAdded),
		})
	}
	body.Coverage = newCovered(state, r)
	body.Coverage.count(ctx, p, state)
	body.Statistics = body.TableLink + "/statistics?at=" + queryOf(state.Branch)
	if state.Main != 0 {
		body.Statistics += "&against=" + commit.Main
	}
	return shown{Title: state.Branch + " of " + state.Table, Section: "backfills", Body: body}, nil
}

// branch compares a branch of a table with main.
func (p *pages) branch(ctx context.Context, table, branch string) (*branchState, error) {
	if branch == "" || branch == commit.Main {
		return nil, fault.InvalidField("branch", "a backfill is a branch other than %s", commit.Main).WithRemedy("choose one from the list of backfills")
	}
	found, err := p.tableNamed(ctx, table)
	if err != nil {
		return nil, err
	}
	main, err := p.Read.Log(ctx, decode.LogCommand{Table: table, Limit: maxCommits})
	if err != nil {
		return nil, err
	}
	of, err := p.Read.Log(ctx, decode.LogCommand{Table: table, Branch: branch, Limit: maxCommits})
	if err != nil {
		return nil, err
	}
	state := compareBranch(found, main, of)
	if state == nil {
		return nil, fault.New(fault.NotFound, "branch %s of table %s has no change of Penstock", branch, table).
			WithRemedy("choose one from the list of backfills; the page of the table lists all branches")
	}
	return state, nil
}
