package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Names completes the names of tables that leave out the default catalog, so that each table has
// only one name.
type Names struct {
	Catalogs []string
	Default  string // the catalog of names without a catalog; "": there is no default catalog
}

// Full returns the name of a table with its catalog. A catalog is the first part of a name only if a namespace follows.
func (n Names) Full(table string) string {
	if first, rest, ok := strings.Cut(table, "."); ok && strings.Contains(rest, ".") && slices.Contains(n.Catalogs, first) {
		return table
	}
	if n.Default == "" {
		return table
	}
	return n.Default + "." + table
}

// Pattern returns a pattern of table names, completed with a catalog. If it is not clear which
// tables the pattern means, it returns the reason (wrong) instead. The pattern "*" stands for all
// tables of all catalogs.
func (n Names) Pattern(text string) (pattern, wrong string) {
	first, rest, dotted := strings.Cut(text, ".")
	switch {
	case text == "*":
		return text, ""
	case !dotted:
		return "", `it has no namespace: write "NAMESPACE.TABLE", in which "*" stands for any characters`
	case strings.Contains(first, "*"):
		return "", `its first part has a "*": name the catalog or the namespace, or write "*" for all tables`
	case slices.Contains(n.Catalogs, first) && !strings.Contains(rest, ".") && n.Default != "":
		return "", fmt.Sprintf("%s is a catalog, and would be read as a namespace: write %q or %q", first, first+".*."+rest, n.Default+"."+text)
	}
	return n.Full(text), ""
}
