package client

import (
	"context"
	"encoding/json"

	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/loader/catalog/history"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/statistics"
	"github.com/penstock/penstock/loader/statistics/entries"
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

// Description describes a table or a dataset; the other one is nil.
type Description struct {
	Table   *statistics.Result
	Dataset *entries.Result
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Description) UnmarshalJSON(text []byte) error {
	var of struct {
		Dataset string `json:"dataset"`
	}
	if err := json.Unmarshal(text, &of); err != nil {
		return err
	}
	if of.Dataset != "" {
		return json.Unmarshal(text, &d.Dataset)
	}
	return json.Unmarshal(text, &d.Table)
}

// Stats describes the columns of a table or dataset. It calls report with each message about progress that the server sends.
func (c *Client) Stats(ctx context.Context, request decode.StatsCommand, report func(progress.Message)) (out Description, err error) {
	return out, c.Change(ctx, "stats", request, &out, report)
}

// Log lists the snapshots of a branch of a table.
func (c *Client) Log(ctx context.Context, request decode.LogCommand) (out history.Log, err error) {
	return out, c.actJSON(ctx, "log", request, &out)
}
