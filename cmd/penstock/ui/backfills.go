package ui

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/svg"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/history"
	"github.com/penstock/penstock/loader/dataset/decode"
)

// The maximum numbers of rows on the page of backfills.
const (
	maxBackfills = 500
	maxChanges   = 20 // of main, the newest ones; of one table, those among its last maxChanges snapshots
)

// backfillsBody is the list of backfills.
type backfillsBody struct {
	Within    string // the catalog, namespace or table whose backfills are listed; "": all
	Backfills []backfillRow
	More      int // backfills that are not listed
	Changes   []changeRow
	Unread    []unreadTable
}

// backfillRow is a branch of a list.
type backfillRow struct {
	Table, Branch, Link, TableLink string
	Datasets                       []named
	Begun, Ended, Rows, Files      string
	Tokens                         int
	State                          string
	Ready                          bool // main can be moved to the branch
}

// changeRow is a change that Penstock made to main.
type changeRow struct {
	Table, Link, Time, Writer, Token, Added, Snapshot string
}

// unreadTable is a table whose branches are not known.
type unreadTable struct{ Table, Failure string }

// tableBranches are the branches of a table and the changes of its main.
type tableBranches struct {
	branches []*branchState
	changes  []history.Entry
}

func (p *pages) backfills(ctx context.Context, r *http.Request) (shown, error) {
	body := backfillsBody{Within: r.URL.Query().Get("within")}
	tables, err := p.Read.Tables(ctx, body.Within)
	if err != nil {
		return shown{}, err
	}
	var (
		mu      sync.Mutex
		all     []*branchState
		changes []tableChange
		group   errgroup.Group
	)
	group.SetLimit(maxCalls)
	for _, of := range tables {
		if of.Withheld || of.Error != "" {
			continue // the page of tables says why
		}
		group.Go(func() error {
			found, err := p.branchesOf(ctx, of)
			if errors.Is(err, context.DeadlineExceeded) || fault.KindOf(err) == fault.Unauthenticated {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				body.Unread = append(body.Unread, unreadTable{of.Table, failureOf(err).Message})
				return nil
			}
			all = append(all, found.branches...)
			for _, e := range found.changes {
				changes = append(changes, tableChange{of.Table, e})
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return shown{}, err
	}
	body.list(all, changes)
	return shown{Title: "Backfills", Section: "backfills", Body: body}, nil
}

// tableChange is a change of main of a table.
type tableChange struct {
	table string
	history.Entry
}

// list adds branches and changes, the newest first.
func (b *backfillsBody) list(all []*branchState, changes []tableChange) {
	slices.SortFunc(all, func(x, y *branchState) int {
		return cmp.Or(y.ended().Compare(x.ended()), cmp.Compare(x.Table, y.Table), cmp.Compare(x.Branch, y.Branch))
	})
	b.More = max(0, len(all)-maxBackfills)
	for _, one := range all[:len(all)-b.More] {
		b.Backfills = append(b.Backfills, rowOfBackfill(one))
	}
	slices.SortFunc(changes, func(x, y tableChange) int {
		return cmp.Or(y.Time.Compare(x.Time), cmp.Compare(x.table, y.table))
	})
	for _, one := range changes[:min(len(changes), maxChanges)] {
		b.Changes = append(b.Changes, changeRow{
			Table: one.table, Link: "/tables/" + pathOf(one.table), Time: moment(one.Time), Writer: one.Writer, Token: one.Token,
			Added: amount(one.RowsAdded, one.BytesAdded), Snapshot: strconv.FormatInt(one.Snapshot, 10),
		})
	}
	slices.SortFunc(b.Unread, func(x, y unreadTable) int { return cmp.Compare(x.Table, y.Table) })
}

// branchesOf returns the branches of a table that changes of Penstock made, and the changes of main that Penstock made.
func (p *pages) branchesOf(ctx context.Context, of history.Description) (out tableBranches, err error) {
	main, err := p.Read.Log(ctx, decode.LogCommand{Table: of.Table, Limit: maxChanges})
	if err != nil {
		return out, err
	}
	for _, e := range main.Snapshots {
		if e.Token != "" {
			out.changes = append(out.changes, e)
		}
	}
	names := branchNames(main)
	if len(names) > 0 && main.Older > 0 {
		if main, err = p.Read.Log(ctx, decode.LogCommand{Table: of.Table, Limit: maxCommits}); err != nil {
			return out, err
		}
	}
	for _, name := range names {
		branch, err := p.Read.Log(ctx, decode.LogCommand{Table: of.Table, Branch: name, Limit: maxCommits})
		if fault.KindOf(err) == fault.NotFound {
			continue // the branch was removed meanwhile
		}
		if err != nil {
			return out, err
		}
		if state := compareBranch(of, main, branch); state != nil {
			out.branches = append(out.branches, state)
		}
	}
	return out, nil
}

func rowOfBackfill(of *branchState) backfillRow {
	out := backfillRow{
		Table: of.Table, Branch: of.Branch, Link: backfillLink(of.Table, of.Branch), TableLink: "/tables/" + pathOf(of.Table),
		Begun: moment(of.begun()), Ended: moment(of.ended()), State: of.text(), Ready: of.Publishable(),
		Rows:  sum(of.Changes, func(e history.Entry) *int64 { return e.RowsAdded }),
		Files: sum(of.Changes, func(e history.Entry) *int64 { return e.FilesAdded }),
	}
	for _, e := range of.Changes {
		if e.Token != "" {
			out.Tokens++
		}
	}
	for _, name := range of.Datasets {
		out.Datasets = append(out.Datasets, named{name, "/datasets/" + pathOf(name)})
	}
	return out
}

// backfillLink returns the address of the page of a branch.
func backfillLink(table, branch string) string {
	return "/backfills/" + pathOf(table) + "?branch=" + queryOf(branch)
}

// queryOf returns a name as the value of a parameter.
func queryOf(name string) string { return url.QueryEscape(name) }

// text says whether main has the branch, or can be moved to it.
func (b *branchState) text() string {
	switch {
	case b.Published:
		return "published: " + commit.Main + " has it"
	case b.Unknown:
		return "not known: it and main have no snapshot in common among the last " + strconv.Itoa(maxCommits)
	case b.Behind > 0:
		return "cannot be published: it lacks " + fault.Count(b.Behind, "snapshot") + " of main"
	}
	return "can be published"
}

// next says what to do with a branch that cannot be published; "" if the page offers it.
func (b *branchState) next() string {
	switch {
	case b.Published:
		return ""
	case b.Unknown:
		return "penstock log shows more snapshots of main and of the branch. If they have none in common, stage the rows again to a new branch, which begins at main."
	case b.Behind > 0:
		return "Stage the rows again to a new branch, which begins at main, and publish that one. This branch changes nothing until then; take its stages back if nobody needs them."
	}
	return ""
}

// sum adds a count of entries; "–" if one of them is not known.
func sum(of []history.Entry, count func(history.Entry) *int64) string {
	total := int64(0)
	for _, e := range of {
		n := count(e)
		if n == nil {
			return unknown
		}
		total += *n
	}
	return svg.Count(total)
}
