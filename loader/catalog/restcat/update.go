package restcat

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// updateTable is the body of a request that changes a table. The caller of Update encoded its
// parts.
type updateTable struct {
	Requirements []json.RawMessage `json:"requirements"`
	Updates      []json.RawMessage `json:"updates"`
}

// Update changes a table. If the response to a request is lost, the request is sent again, and may
// then conflict with the change that the first request made. See locator.Updater.
func (c *Catalog) Update(ctx context.Context, t locator.Table, u locator.Update) (locator.Outcome, error) {
	content := updateTable{Requirements: u.Requirements, Updates: u.Updates}
	return c.commit(ctx, t, content, func(answer []byte) bool { return isAt(u, answer) },
		"allow the identity of the catalog's token or credential to commit to the table, or leave writes out")
}

// isAt reports whether the metadata in the response to a commit has the ref at the snapshot that
// the update moved it to, and the current schema and the statistics file that the update set.
func isAt(u locator.Update, answer []byte) bool {
	var committed struct {
		Metadata *struct {
			Schema *int `json:"current-schema-id"`
			Refs   map[string]struct {
				Snapshot int64 `json:"snapshot-id"`
			} `json:"refs"`
			Statistics []struct {
				Path string `json:"statistics-path"`
			} `json:"statistics"`
		} `json:"metadata"`
	}
	if json.Unmarshal(answer, &committed) != nil || committed.Metadata == nil {
		return false
	}
	if at := committed.Metadata.Schema; u.Schema != nil && (at == nil || *at != *u.Schema) {
		return false
	}
	named := u.Statistics == ""
	for _, of := range committed.Metadata.Statistics {
		named = named || of.Path == u.Statistics
	}
	if !named {
		return false
	}
	return u.Ref == "" || committed.Metadata.Refs[u.Ref].Snapshot == u.Snapshot // Snapshot is 0 for a ref that is missing
}

// Drop removes a table from the catalog. See locator.Dropper.
func (c *Catalog) Drop(ctx context.Context, t locator.Table) (locator.Outcome, error) {
	if err := c.starting.ready(ctx); err != nil {
		return locator.Refused, err
	}
	status := 0
	_, err := c.client.send(ctx, call{
		what: "drop table " + t.Name, table: t.Name, max: t.Most, grow: t.Charge, once: true,
		request: func(ctx context.Context) (*http.Request, error) {
			r, err := c.client.post(ctx, c.table(t)+"?purgeRequested=false", nil)
			if err == nil {
				r.Method = http.MethodDelete
			}
			return r, err
		},
		failed: func(s int, _ string) error { status = s; return nil },
	})
	switch {
	case err == nil:
		return locator.Committed, nil
	case status == http.StatusNotFound:
		return locator.Lost, nil
	case status == 0 || reply{status: status}.passes():
		return locator.Unknown, err
	}
	return locator.Refused, fault.As(err).WithRemedy("allow the identity of the catalog's token or credential to drop the table, or drop it with another program")
}

// Create creates a table. See locator.Updater.
func (c *Catalog) Create(ctx context.Context, t locator.Table, request []byte) (locator.Outcome, error) {
	if err := c.starting.ready(ctx); err != nil {
		return locator.Refused, err
	}
	status := 0
	last := len(t.Parts) - 1
	_, err := c.client.send(ctx, call{
		what: "create table " + t.Name, table: t.Name, max: t.Most, grow: t.Charge,
		request: func(ctx context.Context) (*http.Request, error) {
			return c.client.post(ctx, c.client.path("namespaces", c.client.namespace(t.Parts[:last]), "tables"), request)
		},
		failed: func(s int, _ string) error { status = s; return nil },
	})
	switch {
	case err == nil:
		return locator.Committed, nil
	case status == http.StatusConflict:
		return locator.Lost, nil
	case status == http.StatusNotFound:
		return locator.Refused, fault.As(err).WithRemedy("create the namespace of table %s in the catalog", t.Name)
	case status == 0 || reply{status: status}.passes():
		return locator.Unknown, err
	}
	return locator.Refused, fault.As(err).WithRemedy("allow the identity of the catalog's token or credential to create tables there, or create the table with another program")
}
