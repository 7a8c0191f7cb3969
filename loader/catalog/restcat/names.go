package restcat

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// names returns the names of the tables of a namespace. If these cannot be listed, it returns the
// tables of the namespace with the most similar name. The names are suggestions, so errors of
// listing are ignored.
func (c *Catalog) names(ctx context.Context, namespace []string) []string {
	if names, ok := c.tablesOf(ctx, namespace); ok {
		return names
	}
	var known [][]string
	var texts []string
	for _, other := range c.namespaces(ctx, namespace[:len(namespace)-1]) {
		known, texts = append(known, other), append(texts, strings.Join(other, "."))
	}
	nearest := fault.Nearest(strings.Join(namespace, "."), texts)
	for i, text := range texts {
		if text == nearest {
			names, _ := c.tablesOf(ctx, known[i])
			return names
		}
	}
	return nil
}

// tablesOf returns the tables of a namespace, and false if they cannot be listed.
func (c *Catalog) tablesOf(ctx context.Context, namespace []string) ([]string, bool) {
	var page tablePage
	if !c.list(ctx, c.client.path("namespaces", c.client.namespace(namespace), "tables"), nil, &page) {
		return nil, false
	}
	out := make([]string, len(page.Identifiers))
	for i, id := range page.Identifiers {
		out[i] = strings.Join(append(id.Namespace, id.Name), ".")
	}
	return out, true
}

// namespaces returns the namespaces inside a namespace, or the top-level namespaces if parent is
// empty.
func (c *Catalog) namespaces(ctx context.Context, parent []string) [][]string {
	var page namespacePage
	c.list(ctx, c.client.path("namespaces"), c.client.children(parent), &page)
	return page.Namespaces
}

// list requests a list, and decodes it. It returns false if either fails.
func (c *Catalog) list(ctx context.Context, path string, query url.Values, into any) bool {
	content, err := c.client.get(ctx, path, query, call{what: "list names", max: maxConfig})
	return err == nil && json.Unmarshal(content, into) == nil
}
