package main

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// secret is a value that the file names and does not hold.
type secret struct{ variable, property, value string }

// withoutSecrets puts variables of the environment in the place of secret values; those
// that name a variable already stay.
func withoutSecrets(given []dataset.Property) (written []dataset.Property, secrets []secret) {
	for _, p := range given {
		hide := func(value string, what string) string {
			s := secret{variable: variableOf(p.Name, what), property: p.Name, value: value}
			if what != "" {
				s.property = "the " + what + " of " + p.Name
			}
			secrets = append(secrets, s)
			return "${" + s.variable + "}"
		}
		switch {
		case strings.Contains(p.Value, "${"):
		case isSecret(p.Name):
			p.Value = hide(p.Value, "")
		case fault.RedactURI(p.Value) != p.Value && strings.Contains(p.Value, "://"):
			p.Value = hidePassword(p.Value, hide)
		}
		written = append(written, p)
	}
	return written, secrets
}

// isSecret says whether a property is, by its name.
func isSecret(name string) bool {
	name = strings.ToLower(name)
	return regexp.MustCompile(`(^|[.\-_])(token|credential|password|secret|authorization|key|passphrase)s?($|[.\-_])`).MatchString(name) ||
		strings.HasPrefix(name, "header.")
}

// hidePassword hides the password of a URI, or all of it if the secret lies elsewhere.
func hidePassword(uri string, hide func(value, what string) string) string {
	scheme, rest, _ := strings.Cut(uri, "://")
	who, where, ok := strings.Cut(rest, "@")
	user, password, both := strings.Cut(who, ":")
	if ok && both && password != "" && !strings.ContainsAny(who, "/?#") && fault.RedactURI(scheme+"://"+where) == scheme+"://"+where {
		if _, err := url.Parse(uri); err == nil {
			return scheme + "://" + user + ":" + hide(password, "password") + "@" + where
		}
	}
	return hide(uri, "")
}

// variableOf names the variable of a property's secret.
func variableOf(property, what string) string {
	name := regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(property, "_")
	if what != "" {
		name += "_" + what
	}
	return "CATALOG_" + strings.ToUpper(strings.Trim(name, "_"))
}

// catalogText is the block of the catalog.
func catalogText(properties []dataset.Property) string {
	var b strings.Builder
	b.WriteString("catalogs:\n  default:\n")
	for _, p := range properties {
		fmt.Fprintf(&b, "    %s: %s\n", plainly(p.Name), strconv.Quote(p.Value))
	}
	return b.String()
}

// plainly is a name as YAML has it: as it is where that is no other value of YAML's.
func plainly(name string) string {
	plain := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.\-]*$`).MatchString(name)
	if plain && !slices.Contains([]string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(name)) {
		return name
	}
	return strconv.Quote(name)
}

// config is the whole file.
func (s *survey) config(properties []dataset.Property) string {
	var b strings.Builder
	b.WriteString("# Written by penstock init. What belongs together it found by names and buckets alone:\n" +
		"# read it, and change it. Every field is in docs/datasets.md, every catalog in docs/catalogs.md.\n\n")
	b.WriteString(catalogText(properties))
	if len(s.datasets) > 0 {
		b.WriteString("\ndatasets:\n")
	}
	named := map[string]bool{}
	for i, d := range s.datasets {
		s.dataset(&b, d, i == 0)
		named[d.Training.Table] = true
		for _, entry := range d.Staging {
			named[entry.Table] = true
		}
	}
	var others []string
	for _, name := range s.tables {
		if t := s.known[name]; t != nil && !named[name] {
			others = append(others, name+" "+s.about(t))
		}
	}
	comments(&b, "Tables that nothing was proposed for:", others)
	comments(&b, "Left out:", s.left)
	b.WriteString("\n# server:\n#   listen: 127.0.0.1:8815\n")
	return b.String()
}

// dataset writes one dataset; the first one with the fields that others may want.
func (s *survey) dataset(b *strings.Builder, d dataset.Dataset, first bool) {
	fmt.Fprintf(b, "  %s:\n    training:\n      table: %s  # %s\n", plainly(d.Name), plainly(d.Training.Table), s.about(s.known[d.Training.Table]))
	if first {
		b.WriteString("      # ref: main                 # or another branch, or a tag\n" +
			"      # filter: \"day >= DATE '2026-01-01'\"\n")
	}
	if len(d.Key) > 0 {
		names := make([]string, len(d.Key))
		for i, k := range d.Key {
			names[i] = plainly(k)
		}
		fmt.Fprintf(b, "    key: [%s]\n", strings.Join(names, ", "))
	}
	if len(d.Staging) == 0 {
		fmt.Fprintf(b, "    # columns: %s\n", inComment(columnsText(s.known[d.Training.Table])))
		b.WriteString("    # key: [column]\n    # staging:\n    #   - table: namespace.table\n" +
			"    #     key: {column: column}  # training column: staging column\n")
		return
	}
	b.WriteString("    staging:\n")
	for i, entry := range d.Staging {
		s.staging(b, entry, first && i == 0)
		b.WriteString(timesText(s.known[d.Training.Table], s.known[entry.Table]))
	}
}

func (s *survey) staging(b *strings.Builder, entry dataset.Staging, first bool) {
	fmt.Fprintf(b, "      - table: %s  # %s\n        name: %s\n", plainly(entry.Table), s.about(s.known[entry.Table]), plainly(entry.Name))
	pairs := make([]string, len(entry.Key))
	for i, k := range entry.Key {
		pairs[i] = plainly(k.Training) + ": " + plainly(k.Staging)
	}
	fmt.Fprintf(b, "        key: {%s}  # training column: staging column\n", strings.Join(pairs, ", "))
	if entry.Prefix != "" {
		fmt.Fprintf(b, "        prefix: %s  # as names are taken\n", plainly(entry.Prefix))
	}
	if first {
		b.WriteString("        # columns: [some, of, them]  # all but the key, if left out\n" +
			"        # join: left                # or inner, semi, anti, overlay\n" +
			"        # duplicates: error         # or first, last, all: several rows of one key\n" +
			"        # missing: null             # or error, or {default: {column: value}}\n")
	}
}

// timesText is how rows of several times are joined, as a comment: by the first columns of
// both tables that hold times of one type. It is empty where there are none.
func timesText(training, staging *catalog.Table) string {
	for _, s := range staging.Fields {
		for _, t := range training.Fields {
			if isTime(s.Type) && isTime(t.Type) && arrow.TypeEqual(s.Type, t.Type) {
				return fmt.Sprintf("        # point_in_time: {training: %s, staging: %s, tolerance: 7d}  # of rows of several times, none from the future\n",
					plainly(t.Name), plainly(s.Name))
			}
		}
	}
	return ""
}

func isTime(t arrow.DataType) bool {
	return t != nil && (t.ID() == arrow.DATE32 || t.ID() == arrow.TIMESTAMP)
}

// columnsText are the columns of a table with their types: what a key can be made of.
func columnsText(t *catalog.Table) string {
	columns := make([]string, len(t.Fields))
	for i, f := range t.Fields {
		columns[i] = fmt.Sprintf("%s %s", f.Name, f.Type)
	}
	return cutText(strings.Join(columns, ", "))
}

// about is what is known of a table: its rows, and what it is bucketed by.
func (s *survey) about(t *catalog.Table) string {
	var parts []string
	if rows, ok := s.rows[t.Name]; ok {
		parts = append(parts, rowsText(rows))
	}
	newest := -1
	for id := range t.Specs {
		newest = max(newest, id)
	}
	for _, f := range t.Specs[newest] {
		column, _ := t.ByID(f.Source)
		if f.Transform.Kind == catalog.Bucket {
			parts = append(parts, fmt.Sprintf("bucket(%d, %s)", f.Transform.N, column.Name))
			continue
		}
		parts = append(parts, fmt.Sprintf("%s(%s)", f.Transform.Kind, column.Name))
	}
	if len(parts) == 0 {
		return "not partitioned"
	}
	return inComment(strings.Join(parts, ", "))
}

// inComment is a text that ends with its line: names may hold anything.
func inComment(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\u0085' || r == '\u2028' || r == '\u2029' {
			return '?'
		}
		return r
	}, text)
}

// comments writes a list of which nothing is read.
func comments(b *strings.Builder, head string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "\n# %s\n", head)
	for _, line := range lines {
		fmt.Fprintf(b, "#   %s\n", inComment(line))
	}
}
