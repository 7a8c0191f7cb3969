package restcat

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// updateTable is a request to change a table, whose parts its caller wrote.
type updateTable struct {
	Requirements []json.RawMessage `json:"requirements"`
	Updates      []json.RawMessage `json:"updates"`
}

// Update changes a table. A request whose answer was lost is sent again, and may then conflict with
// its own first attempt. See locator.Updater.
func (c *Catalog) Update(ctx context.Context, t locator.Table, u locator.Update) (locator.Outcome, error) {
	content := updateTable{Requirements: u.Requirements, Updates: u.Updates}
	return c.commit(ctx, t, content, func(answer []byte) bool { return isAt(u, answer) },
		"allow the identity of the catalog's token or credential to commit to the table, or leave writes out")
}

// isAt reports whether the response to a commit has the ref where the update moved it, and the schema that it set.
func isAt(u locator.Update, answer []byte) bool {
	var committed struct {
		Metadata *struct {
			Schema *int `json:"current-schema-id"`
			Refs   map[string]struct {
				Snapshot int64 `json:"snapshot-id"`
			} `json:"refs"`
		} `json:"metadata"`
	}
	if json.Unmarshal(answer, &committed) != nil || committed.Metadata == nil {
		return false
	}
	if at := committed.Metadata.Schema; u.Schema != nil && (at == nil || *at != *u.Schema) {
		return false
	}
	return u.Ref == "" || committed.Metadata.Refs[u.Ref].Snapshot == u.Snapshot // 0 where there is no such ref
}

// Create creates a table. See locator.Updater.
func (c *Catalog) Create(ctx context.Context, t locator.Table, request []byte) (locator.Outcome, error) {
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
