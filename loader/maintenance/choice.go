package maintenance

import (
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// partitionChoice selects files by their partitions.
type partitionChoice struct {
	table  *catalog.Table
	wanted []fieldChoice
}

// fieldChoice has the selected values of a partition field, as texts.
type fieldChoice struct {
	field catalog.PartitionField
	texts []string
}

// partitionForms is the remedy for partitions without files.
const partitionForms = "write a day as 2026-11-01, a month as 2026-11, an hour as 2026-11-01-13, null as null"

// choosePartitions parses texts such as day=2026-11-01: the name of a field of the table's current partition
// spec, and a value as catalog.PartitionField.Text writes it.
func choosePartitions(state *commit.TableState, texts []string) (*partitionChoice, error) {
	out := &partitionChoice{table: state.Table}
	spec := state.Table.Specs[state.Spec]
	var names []string
	for _, p := range spec {
		names = append(names, p.Name)
	}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		at := slices.Index(names, name)
		if !ok || at < 0 {
			f := fault.Field{Field: "partition", Message: "table " + state.Table.Name + " has no partition field " + strconv.Quote(name), Nearest: fault.Nearest(name, names)}
			return nil, fault.As(fault.Fields([]fault.Field{f})).WithRemedy("write a field and a value, as in day=2026-11-01; the fields are %s", strings.Join(names, ", "))
		}
		i := slices.IndexFunc(out.wanted, func(w fieldChoice) bool { return w.field.ID == spec[at].ID })
		if i < 0 {
			i = len(out.wanted)
			out.wanted = append(out.wanted, fieldChoice{field: spec[at]})
		}
		out.wanted[i].texts = append(out.wanted[i].texts, value)
	}
	return out, nil
}

// has reports whether a file is in the selected partitions. It is false for files of specs that
// lack one of the fields.
func (c *partitionChoice) has(f catalog.File) bool {
	for _, w := range c.wanted {
		if text, ok := c.text(w, f); !ok || !slices.Contains(w.texts, text) {
			return false
		}
	}
	return true
}

// tells reports whether the partition of a file determines whether the file is selected.
func (c *partitionChoice) tells(f catalog.File) bool {
	return !slices.ContainsFunc(c.wanted, func(w fieldChoice) bool { return c.table.Specs[f.Spec].SameField(w.field) < 0 })
}

// text returns the value of a field in the partition of a file, or false if the file's spec lacks
// the field.
func (c *partitionChoice) text(w fieldChoice, f catalog.File) (string, bool) {
	at := c.table.Specs[f.Spec].SameField(w.field)
	if at < 0 {
		return "", false
	}
	column, _ := c.table.ByID(w.field.Source)
	return w.field.Text(f.Partition[at], column), true
}

// missing returns NotFound for a selected value that none of the files has.
func (c *partitionChoice) missing(files []catalog.File) error {
	for _, w := range c.wanted {
		seen := map[string]bool{}
		for _, f := range files {
			if text, ok := c.text(w, f); ok {
				seen[text] = true
			}
		}
		for _, text := range w.texts {
			if !seen[text] {
				return fault.New(fault.NotFound, "no file of table %s is in partition %s=%s", c.table.Name, w.field.Name, text).In(c.table.Name, "").
					WithRemedy(partitionForms)
			}
		}
	}
	return nil
}
