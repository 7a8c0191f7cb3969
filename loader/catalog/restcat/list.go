package restcat

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/locator"
)

var _ locator.Lister = (*Catalog)(nil)

// Limits of a listing, in case a server's lists never end.
const (
	maxPages = 10_000 // pages of one list
	maxDepth = 8      // levels of nested namespaces
)

// namespacePage is a page of a list of namespaces.
type namespacePage struct {
	Namespaces [][]string `json:"namespaces"`
	Next       string     `json:"next-page-token"`
}

// tablePage is a page of a list of tables.
type tablePage struct {
	Identifiers []struct {
		Namespace []string `json:"namespace"`
		Name      string   `json:"name"`
	} `json:"identifiers"`
	Next string `json:"next-page-token"`
}

// List returns the names of all tables. If the server supports nested namespaces, the tables in
// these are included. See locator.Lister.
func (c *Catalog) List(ctx context.Context) ([][]string, error) {
	if err := c.starting.ready(ctx); err != nil {
		return nil, err
	}
	return c.within(ctx, nil, 0)
}

// within lists the tables of all namespaces inside a namespace, at any depth up to maxDepth.
func (c *Catalog) within(ctx context.Context, parent []string, depth int) ([][]string, error) {
	var spaces [][]string
	err := c.pages(ctx, c.client.path("namespaces"), c.client.children(parent), func(content []byte) (string, error) {
		var page namespacePage
		err := json.Unmarshal(content, &page)
		spaces = append(spaces, page.Namespaces...)
		return page.Next, err
	})
	if err != nil {
		return nil, err
	}
	var out [][]string
	for _, space := range spaces {
		// Some servers ignore the parent and return other namespaces, which are skipped here.
		if len(space) != len(parent)+1 || !slices.Equal(space[:len(parent)], parent) {
			continue
		}
		tables, err := c.tables(ctx, space)
		if err != nil {
			return nil, err
		}
		out = append(out, tables...)
		if depth+1 == maxDepth {
			continue
		}
		inner, err := c.within(ctx, space, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, inner...)
	}
	return out, nil
}

// tables lists the tables of one namespace.
func (c *Catalog) tables(ctx context.Context, namespace []string) ([][]string, error) {
	var out [][]string
	err := c.pages(ctx, c.client.path("namespaces", c.client.namespace(namespace), "tables"), url.Values{}, func(content []byte) (string, error) {
		var page tablePage
		err := json.Unmarshal(content, &page)
		for _, id := range page.Identifiers {
			out = append(out, append(slices.Clone(id.Namespace), id.Name))
		}
		return page.Next, err
	})
	return out, err
}

// pages requests a list page by page. If the server says that the list does not exist, pages treats
// it as empty: the namespace may have been dropped meanwhile, and not every server supports nested
// namespaces.
func (c *Catalog) pages(ctx context.Context, path string, query url.Values, read func([]byte) (next string, err error)) error {
	query.Set("pageToken", "") // asks for a list in pages
	seen := map[string]bool{}
	for range maxPages {
		none := false
		content, err := c.client.get(ctx, path, query, call{
			what: "list names", max: maxConfig,
			failed: func(status int, message string) error {
				if none = status == http.StatusNotFound || status == http.StatusBadRequest && query.Has("parent"); none {
					return fault.New(fault.NotFound, "there is no such list: %s", message)
				}
				return nil
			},
		})
		if none {
			return nil
		}
		if err != nil {
			return err
		}
		next, err := read(content)
		if err != nil {
			return fault.New(fault.Corrupt, "catalog %s: list names: %s: its answer is not a list", c.client.options.Name, c.client.base.Redacted()).
				WithRemedy("check that uri, warehouse and prefix are those of an Iceberg REST catalog, and any proxy in between")
		}
		if next == "" {
			return nil
		}
		if seen[next] {
			break
		}
		seen[next] = true
		query.Set("pageToken", next)
	}
	return fault.New(fault.Corrupt, "catalog %s: list names: %s: its pages do not end", c.client.options.Name, strings.TrimSuffix(c.client.base.Redacted(), "/")).
		WithRemedy("name the tables yourself")
}
