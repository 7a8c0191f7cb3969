package ui

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/flight/changes"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/promote"
)

// demotionBody is the page that asks before promoted columns are taken back.
type demotionBody struct {
	confirmation
	Wanted                     []string // the columns that the address names
	Dropped, Restored, Entries string
	Losing                     []string // datasets with the columns that they lose
}

// demoting is the page that asks before promoted columns are taken back, and which shows afterwards that the table lacks them.
func (p *pages) demoting(ctx context.Context, r *http.Request) (shown, error) {
	table, columns := r.PathValue("name"), r.URL.Query()["column"]
	if len(columns) == 0 {
		return shown{}, fault.InvalidField("column", "is required: the columns to take back")
	}
	var found promote.Demotion
	if err := p.Change.Change(ctx, "demote", decode.DemoteCommand{Table: table, Columns: columns, DryRun: true}, &found, unseen); err != nil {
		return shown{}, err
	}
	body := demotionBody{
		confirmation: p.confirmation(r, "demote", table), Wanted: columns, Dropped: strings.Join(found.Dropped, ", "),
		Restored: strings.Join(found.Restored, ", "), Entries: strings.Join(found.Entries, ", "),
	}
	body.Command = cmdline.Join(append([]string{"penstock", "demote", table}, columns...)...) + p.Source
	for _, name := range slices.Sorted(maps.Keys(found.Losing)) {
		body.Losing = append(body.Losing, fmt.Sprintf("%s: %s", name, strings.Join(found.Losing[name], ", ")))
	}
	return shown{Title: "Take promoted columns back", Section: "tables", Body: body}, nil
}

// demote takes promoted columns back. If they are taken back already, it changes nothing.
func (p *pages) demote(ctx context.Context, name string, form url.Values) (string, error) {
	columns := form["column"]
	if len(columns) == 0 {
		return "", fault.InvalidField("column", "no column is named")
	}
	var made changes.Demoted
	if err := p.Change.Change(ctx, "demote", decode.DemoteCommand{Table: name, Columns: columns}, &made, unseen); err != nil {
		return "", err
	}
	return "/demote/" + pathOf(name) + "?" + url.Values{"column": columns}.Encode(), nil
}
