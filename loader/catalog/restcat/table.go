package restcat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// loadTable is the response to a request for a table.
type loadTable struct {
	Location    string            `json:"metadata-location"`
	Metadata    json.RawMessage   `json:"metadata"`
	Config      map[string]string `json:"config"`
	Credentials []struct {
		Prefix string            `json:"prefix"`
		Config map[string]string `json:"config"`
	} `json:"storage-credentials"`
}

// Locate loads a table, with all of its snapshots. See locator.Locator.
func (c *Catalog) Locate(ctx context.Context, t locator.Table) (locator.Located, error) {
	answer, err := c.load(ctx, t, "all")
	if err != nil {
		return locator.Located{}, err
	}
	grants, err := c.grants(t, answer)
	if err != nil {
		return locator.Located{}, err
	}
	if len(answer.Metadata) == 0 || bytes.Equal(answer.Metadata, []byte("null")) {
		return locator.Located{}, c.contradicts(t, "it gives no metadata")
	}
	return locator.Located{Location: answer.Location, Text: answer.Metadata, Grants: grants}, nil
}

// Grants loads a table only to get its grants. See locator.Granter.
func (c *Catalog) Grants(ctx context.Context, t locator.Table) ([]locator.Grant, error) {
	answer, err := c.load(ctx, t, "refs")
	if err != nil {
		return nil, err
	}
	return c.grants(t, answer)
}

// table returns the path of the requests for a table.
func (c *Catalog) table(t locator.Table) string {
	last := len(t.Parts) - 1
	return c.client.path("namespaces", c.client.namespace(t.Parts[:last]), "tables", url.PathEscape(t.Parts[last]))
}

func (c *Catalog) load(ctx context.Context, t locator.Table, snapshots string) (*loadTable, error) {
	if err := c.starting.ready(ctx); err != nil {
		return nil, err
	}
	last := len(t.Parts) - 1
	missing := false
	var answer loadTable
	var decoded error
	_, err := c.client.get(ctx, c.table(t), url.Values{"snapshots": {snapshots}}, call{
		what: "load table " + t.Name, table: t.Name, max: t.Most, grow: t.Charge,
		failed: func(status int, _ string) error {
			if missing = status == http.StatusNotFound; missing {
				return catalog.UnknownTable(t.Name, nil)
			}
			return nil
		},
		decode: func(content []byte) error {
			answer = loadTable{}
			if decoded = t.Grow(int64(len(content))); decoded == nil { // decoding the response copies the metadata
				decoded = json.Unmarshal(content, &answer)
			}
			return decoded
		},
	})
	if missing {
		return nil, catalog.UnknownTable(t.Name, c.names(ctx, t.Parts[:last]))
	}
	if err != nil {
		return nil, err
	}
	if known := (*fault.Error)(nil); errors.As(decoded, &known) { // the memory is not granted
		return nil, decoded
	}
	if decoded != nil {
		return nil, c.contradicts(t, "its answer is no table")
	}
	return &answer, nil
}

// contradicts returns the error for a response that contradicts itself or the request.
func (c *Catalog) contradicts(t locator.Table, what string) error {
	return fault.New(fault.Corrupt, "catalog %s: load table %s: %s: %s", c.client.options.Name, t.Name, c.client.base.Redacted(), what).In(t.Name, "").
		WithRemedy("check that uri, warehouse and prefix are those of an Iceberg REST catalog, and any proxy in between")
}

// grants returns the catalog's credentials for a table's files.
func (c *Catalog) grants(t locator.Table, answer *loadTable) ([]locator.Grant, error) {
	var out []locator.Grant
	add := func(prefix string, config map[string]string) error {
		if !c.ofStorage(config) {
			return nil
		}
		if err := unserved(config); err != nil {
			e := *fault.As(err)
			e.Message = "table " + t.Name + ": " + e.Message
			return e.In(t.Name, "")
		}
		out = append(out, locator.Grant{Prefix: prefix, Properties: config, Expires: c.client.options.Stores.Expires(config)})
		return nil
	}
	if err := add("", answer.Config); err != nil {
		return nil, err
	}
	for _, credential := range answer.Credentials {
		// The settings in the table's config apply to all prefixes. A credential in the config
		// applies only to locations without a matching prefix.
		config := map[string]string{}
		for name, value := range answer.Config {
			if !c.client.options.Stores.OfCredential(name) {
				config[name] = value
			}
		}
		maps.Copy(config, credential.Config)
		if err := add(credential.Prefix, config); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ofStorage reports whether a table's config has any settings or credentials for storage.
func (c *Catalog) ofStorage(config map[string]string) bool {
	for name := range config {
		if c.client.options.Stores.Concern(name) {
			return true
		}
	}
	return false
}
