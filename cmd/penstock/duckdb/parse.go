package duckdb

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// parsed is the file that DuckDB writes for a query: its syntax tree, and the names of the functions
// whose results depend only on their arguments.
type parsed struct {
	Tree struct {
		Error      bool              `json:"error"`
		Message    string            `json:"error_message"`
		Position   string            `json:"position"`
		Statements []json.RawMessage `json:"statements"`
	} `json:"tree"`
	Stable []string `json:"stable"`
}

// names is what a query refers to, as far as its syntax tree shows.
type names struct {
	tables  map[string][]string // the parts of the names of tables in catalogs, by the whole name
	single  map[string]bool     // names of tables without a schema: files, and common table expressions
	defined map[string]bool     // the names of common table expressions
	rows    map[string]bool     // names and aliases of tables, in lower case: a row of a table as a value
	lasts   map[string]bool     // the last parts of references to columns, in lower case
	words   map[string]bool     // all texts of the tree in lower case, among which are all columns that the query names
	calls   map[string]bool     // the names of functions
	every   bool                // whether the query may refer to columns without their names
	sampled bool
	err     error
}

// maxParts is the number of parts that the name of a view in DuckDB can have.
const maxParts = 3

// namesOf returns the names in a syntax tree.
func namesOf(tree json.RawMessage) (*names, error) {
	n := &names{
		tables: map[string][]string{}, single: map[string]bool{}, defined: map[string]bool{}, rows: map[string]bool{},
		lasts: map[string]bool{}, words: map[string]bool{}, calls: map[string]bool{},
	}
	var root any
	if err := json.Unmarshal(tree, &root); err != nil {
		return nil, fault.New(fault.Internal, "read the syntax tree of the SQL: %w", err)
	}
	n.walk(root)
	for row := range n.rows {
		n.every = n.every || n.lasts[row]
	}
	return n, n.err
}

func (n *names) walk(node any) {
	switch node := node.(type) {
	case string:
		n.words[strings.ToLower(node)] = true
	case []any:
		for _, one := range node {
			n.walk(one)
		}
	case map[string]any:
		n.visit(node)
		for _, one := range node {
			n.walk(one)
		}
	}
}

// known lists the types of nodes that refer to columns only by their names, or not at all. For
// other nodes, such as the star, a position (#1) or a natural join, all columns are read.
func known(node string) bool {
	return slices.Contains([]string{
		"SELECT_NODE", "SET_OPERATION_NODE", "CTE_NODE", "BASE_TABLE", "SUBQUERY", "JOIN", "EMPTY",
		"ORDER_MODIFIER", "LIMIT_MODIFIER", "DISTINCT_MODIFIER",
		"COLUMN_REF", "FUNCTION", "CONSTANT", "CAST", "CASE", "COMPARISON", "CONJUNCTION", "OPERATOR", "WINDOW", "BETWEEN",
		"COLLATE", "LAMBDA", "TYPE",
	}, node)
}

// visit records what one node refers to.
func (n *names) visit(node map[string]any) {
	kind := text(node, "class")
	if kind == "" {
		kind = text(node, "type")
	}
	if kind != "" && !known(kind) && !ordering(node) {
		n.every = true
	}
	switch kind {
	case "BASE_TABLE":
		n.table(node)
	case "COLUMN_REF":
		if path := texts(node["column_names"]); len(path) > 0 {
			n.lasts[strings.ToLower(path[len(path)-1])] = true
		}
	case "FUNCTION", "WINDOW":
		n.calls[strings.ToLower(text(node, "function_name"))] = true
	case "JOIN":
		n.every = n.every || !slices.Contains([]string{"REGULAR", "CROSS", "ASOF"}, text(node, "ref_type"))
	}
	if alias := text(node, "alias"); alias != "" && (kind == "SUBQUERY" || kind == "JOIN") {
		n.rows[strings.ToLower(alias)] = true
	}
	n.every = n.every || len(texts(node["column_name_alias"])) > 0
	n.sampled = n.sampled || node["sample"] != nil
	if ctes, ok := node["cte_map"].(map[string]any); ok {
		list, _ := ctes["map"].([]any)
		for _, one := range list {
			if entry, ok := one.(map[string]any); ok {
				n.define(text(entry, "key"))
				value, _ := entry["value"].(map[string]any)
				n.every = n.every || len(texts(value["aliases"])) > 0
			}
		}
	}
}

// ordering reports whether a node is an entry of an ORDER BY, whose type is its direction.
func ordering(node map[string]any) bool { return node["null_order"] != nil }

func (n *names) define(cte string) {
	n.defined[strings.ToLower(cte)], n.rows[strings.ToLower(cte)] = true, true
}

// table records a reference to a table.
func (n *names) table(node map[string]any) {
	path, _ := node["qualified_name"].(map[string]any)
	parts := texts(path["path"])
	if len(parts) == 0 { // versions before DuckDB 2
		for _, part := range []string{"catalog_name", "schema_name", "table_name"} {
			if one := text(node, part); one != "" {
				parts = append(parts, one)
			}
		}
	}
	whole, last := strings.Join(parts, "."), strings.ToLower(parts[len(parts)-1])
	n.rows[last] = true
	if alias := text(node, "alias"); alias != "" {
		n.rows[strings.ToLower(alias)] = true
	}
	switch {
	case len(parts) == 1:
		n.single[last] = true
	case slices.Contains([]string{"information_schema", "pg_catalog", "main", "temp", "system", "memory"}, strings.ToLower(parts[0])):
		n.single[whole] = true // of DuckDB itself
	case len(parts) > maxParts:
		n.err = refused("table %s has a name of %d parts, and names of DuckDB have at most %d", whole, len(parts), maxParts).
			WithRemedy("write the namespace as one name in quotes, as in %s.%s", name(strings.Join(parts[:len(parts)-1], ".")), name(parts[len(parts)-1]))
	case node["at_clause"] != nil:
		n.err = refused("table %s is read with AT", whole).WithRemedy("leave AT out: the SQL reads the last snapshot of main")
	default:
		n.tables[whole] = parts
	}
}

// pinned reports whether the result depends only on the text of the query and the tables of
// catalogs: the query reads no files, and has no function such as random or now.
func (n *names) pinned(stable []string) bool {
	for one := range n.single {
		if !n.defined[one] {
			return false
		}
	}
	fixed := map[string]bool{}
	for _, f := range stable {
		fixed[f] = true
	}
	for f := range n.calls {
		if f != "count_star" && !fixed[f] {
			return false
		}
	}
	// current_date and other functions without parentheses look like columns.
	for word := range n.lasts {
		if strings.HasPrefix(word, "current_") || strings.HasPrefix(word, "local") || strings.HasSuffix(word, "user") {
			return false
		}
	}
	return !n.sampled
}

// list returns the names of the tables in catalogs, sorted.
func (n *names) list() []string { return slices.Sorted(maps.Keys(n.tables)) }

// text returns a field of a node that is a text, or "".
func text(node map[string]any, field string) string {
	out, _ := node[field].(string)
	return out
}

// texts returns the texts in a list.
func texts(list any) []string {
	all, _ := list.([]any)
	var out []string
	for _, one := range all {
		if text, ok := one.(string); ok {
			out = append(out, text)
		}
	}
	return out
}
