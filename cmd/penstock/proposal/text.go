package proposal

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// CatalogText returns the catalogs block of a config file.
func CatalogText(properties []dataset.Property) string {
	var b strings.Builder
	b.WriteString("catalogs:\n  default:\n")
	for _, property := range properties {
		fmt.Fprintf(&b, "    %s: %s\n", Plainly(property.Name), strconv.Quote(property.Value))
	}
	return b.String()
}

// Plainly returns a name as a YAML string. It adds quotes only if YAML could misread the name
// without them.
func Plainly(name string) string {
	plain := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.\-]*$`).MatchString(name)
	if plain && !slices.Contains([]string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(name)) {
		return name
	}
	return strconv.Quote(name)
}

// Config returns the config file for a catalog with these properties.
func (p *Proposal) Config(properties []dataset.Property) string {
	var b strings.Builder
	b.WriteString("# Written by penstock init, which matches tables by names and buckets alone: review it, and\n" +
		"# change it. docs/datasets.md describes every field, docs/catalogs.md every catalog.\n\n")
	b.WriteString(CatalogText(properties))
	if len(p.Datasets) > 0 {
		b.WriteString("\ndatasets:\n")
	}
	named := map[string]bool{}
	for i, d := range p.Datasets {
		p.dataset(&b, d, i == 0)
		named[d.Training.Table] = true
		for _, entry := range d.Staging {
			named[entry.Table] = true
		}
	}
	var others []string
	for _, name := range p.Tables {
		if t := p.known[name]; t != nil && !named[name] {
			others = append(others, name+" "+p.about(t))
		}
	}
	comments(&b, "Tables of no proposed dataset:", others)
	comments(&b, "Left out:", p.skipped)
	b.WriteString("\n# server:\n#   listen: 127.0.0.1:8815\n")
	return b.String()
}

// dataset writes one dataset. If it is the first dataset of the file, dataset also writes comments
// on optional fields.
func (p *Proposal) dataset(b *strings.Builder, d dataset.Dataset, first bool) {
	fmt.Fprintf(b, "  %s:\n    training:\n      table: %s  # %s\n", Plainly(d.Name), Plainly(d.Training.Table), p.about(p.known[d.Training.Table]))
	if first {
		b.WriteString("      # ref: main                 # or another branch, or a tag\n" +
			"      # filter: \"day >= DATE '2026-01-01'\"\n")
	}
	if len(d.Key) > 0 {
		names := make([]string, len(d.Key))
		for i, k := range d.Key {
			names[i] = Plainly(k)
		}
		fmt.Fprintf(b, "    key: [%s]\n", strings.Join(names, ", "))
	}
	if len(d.Staging) == 0 {
		fmt.Fprintf(b, "    # columns: %s\n", inComment(columnsText(p.known[d.Training.Table])))
		b.WriteString("    # key: [column]\n    # staging:\n    #   - table: namespace.table\n" +
			"    #     key: {column: column}  # training column: staging column\n")
		return
	}
	b.WriteString("    staging:\n")
	for i, entry := range d.Staging {
		p.staging(b, entry, first && i == 0)
		b.WriteString(timesText(p.known[d.Training.Table], p.known[entry.Table]))
	}
}

func (p *Proposal) staging(b *strings.Builder, entry dataset.Staging, first bool) {
	fmt.Fprintf(b, "      - table: %s  # %s\n        name: %s\n", Plainly(entry.Table), p.about(p.known[entry.Table]), Plainly(entry.Name))
	pairs := make([]string, len(entry.Key))
	for i, k := range entry.Key {
		pairs[i] = Plainly(k.Training) + ": " + Plainly(k.Staging)
	}
	fmt.Fprintf(b, "        key: {%s}  # training column: staging column\n", strings.Join(pairs, ", "))
	if entry.Prefix != "" {
		fmt.Fprintf(b, "        prefix: %s  # some names are taken\n", Plainly(entry.Prefix))
	}
	if first {
		b.WriteString("        # columns: [some, of, them]  # all but the key, if left out\n" +
			"        # join: left                # or inner, semi, anti, overlay\n" +
			"        # duplicates: error         # or first, last, all: several rows of one key\n" +
			"        # missing: null             # or error, or {default: {column: value}}\n")
	}
}

// timesText returns a comment that proposes a point-in-time join. It chooses the first pair of a
// staging column and a training column that both are dates or both are timestamps of the same type.
// It returns "" if there is no such pair.
func timesText(training, staging *catalog.Table) string {
	for _, s := range staging.Fields {
		for _, t := range training.Fields {
			if isTime(s.Type) && isTime(t.Type) && arrow.TypeEqual(s.Type, t.Type) {
				return fmt.Sprintf("        # point_in_time: {training: %s, staging: %s, tolerance: 7d}  # of several rows, the latest that is not in the future\n",
					Plainly(t.Name), Plainly(s.Name))
			}
		}
	}
	return ""
}

func isTime(t arrow.DataType) bool {
	return t != nil && (t.ID() == arrow.DATE32 || t.ID() == arrow.TIMESTAMP)
}

// columnsText lists the columns of a table with their types, as candidates for a key.
func columnsText(t *catalog.Table) string {
	columns := make([]string, len(t.Fields))
	for i, f := range t.Fields {
		columns[i] = fmt.Sprintf("%s %s", f.Name, f.Type)
	}
	return cutText(strings.Join(columns, ", "))
}

// about describes a table in a few words: its number of rows, if the rows were counted, and its
// newest partition spec.
func (p *Proposal) about(t *catalog.Table) string {
	var parts []string
	if rows, ok := p.rows[t.Name]; ok {
		parts = append(parts, fault.Count(rows, "row"))
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

// inComment replaces characters that could end a comment. Names may contain any characters.
func inComment(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\u0085' || r == '\u2028' || r == '\u2029' {
			return '?'
		}
		return r
	}, text)
}

// comments writes a list as comments under a heading. It writes nothing if the list is empty.
func comments(b *strings.Builder, head string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "\n# %s\n", head)
	for _, line := range lines {
		fmt.Fprintf(b, "#   %s\n", inComment(line))
	}
}
