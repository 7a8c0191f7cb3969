package client

import (
	"context"

	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/loader/catalog/history"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/tablediff"
)

// Tables lists the tables that the client may read in a catalog or a namespace, or one table, whose name is
// within. If within is "", it lists all tables that the client may read.
func (c *Client) Tables(ctx context.Context, within string) ([]history.Description, error) {
	out := struct {
		Tables []history.Description `json:"tables"`
	}{Tables: []history.Description{}}
	err := c.actJSON(ctx, "tables", decode.TablesCommand{Within: within}, &out)
	return out.Tables, err
}

// Diff compares two snapshots of a table. It calls report with each message about progress that the
// server sends.
func (c *Client) Diff(ctx context.Context, request decode.DiffCommand, report func(progress.Message)) (*tablediff.Result, error) {
	var out tablediff.Result
	return &out, c.Change(ctx, "diff", request, &out, report)
}

// Log lists the snapshots of a branch of a table.
func (c *Client) Log(ctx context.Context, request decode.LogCommand) (out history.Log, err error) {
	return out, c.actJSON(ctx, "log", request, &out)
}
