package backfill

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// Promote returns Spark SQL that copies columns of staging entries into the training table. One of
// its statements rewrites the table. Each row gets the values that reading the dataset would return
// for it.
func Promote(in Target, entries []string) (string, error) {
	p := overwriting{target: in}
	if err := p.choose(entries); err != nil {
		return "", err
	}
	bound, err := resolve.Bind(p.dataset, in.Training, p.tables)
	if err != nil {
		return "", fault.Op(err, "dataset %s", in.Dataset.Name)
	}
	for i, s := range p.dataset.Staging {
		input, err := newPromotedEntry(fmt.Sprintf("s%d", i+1), s, in.Training, p.tables[i])
		if err != nil {
			return "", err
		}
		input.lenient = !in.Dataset.Training.Filter.IsZero()
		if err := input.check(); err != nil {
			return "", err
		}
		p.inputs = append(p.inputs, input)
	}
	if err := p.columns(bound.Outputs); err != nil {
		return "", err
	}
	return p.text(), nil
}

// overwriting is an INSERT OVERWRITE statement under construction.
type overwriting struct {
	target  Target
	dataset dataset.Dataset // the dataset, but with only the entries that are promoted
	tables  []*catalog.Table
	inputs  []*promotedEntry
	added   []string // definitions of the new columns
	values  []string // the expressions of all columns, including new columns; each ends with AS and the column's name
}

// choose copies the entries with the given names from the dataset, in the order that they have in
// the dataset.
func (p *overwriting) choose(names []string) error {
	d := p.target.Dataset.Defaults()
	already := resolve.PromotedNames(d, p.target.Training)
	chosen, err := d.Promoted(names, already)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(names, func(name string) bool { return slices.Contains(already, name) }); i >= 0 {
		return fault.InvalidField("entries", "entry %s was promoted already", names[i]).WithRemedy("name only entries that were not promoted")
	}
	p.dataset = dataset.Dataset{Training: dataset.Training{Table: d.Training.Table}, Key: d.Key, Staging: chosen}
	for i, s := range d.Staging {
		if slices.Contains(names, s.Name) {
			p.tables = append(p.tables, p.target.Staging[i])
		}
	}
	return nil
}

// columns adds the expressions of all columns, and the definitions of new columns.
func (p *overwriting) columns(outputs []resolve.Output) error {
	for _, f := range p.target.Training.Fields {
		value := "t." + quoted(f.Name)
		for _, o := range outputs {
			if o.Table != resolve.TrainingTable || o.Field.ID != f.ID {
				continue
			}
			for _, by := range o.Overlays {
				value = p.inputs[by.Table].overlay(by.Field, value)
			}
		}
		p.values = append(p.values, value+" AS "+quoted(f.Name))
	}
	for _, o := range outputs {
		if o.Table == resolve.TrainingTable {
			continue
		}
		of, ok := sparkType(o.Type())
		if !ok {
			return fault.New(fault.Invalid, "Spark SQL cannot declare column %q of type %s", o.Name, o.Type()).
				WithRemedy("leave it out of the entry's columns, or promote without --print")
		}
		value, err := p.inputs[o.Table].value(o, of)
		if err != nil {
			return err
		}
		p.added = append(p.added, quoted(o.Name)+" "+of)
		p.values = append(p.values, value+" AS "+quoted(o.Name))
	}
	return nil
}

// text returns the whole script.
func (p *overwriting) text() string {
	var b strings.Builder
	table := p.target.sqlTable(p.target.Training.Name)
	comment(&b, "", fmt.Sprintf("Columns of staging entries of dataset %s become columns of its training table, %s. Review this file, and run it in Spark with the SQL extensions of Iceberg.",
		p.target.Dataset.Name, p.target.Training.Name))
	comment(&b, "", "The whole table is rewritten. Stop all other writers first: rows that they commit while the statement runs are lost. Deleted rows are left out, and in format version 3 rows get new row ids.",
		"To undo this, if nothing else was committed since: CALL "+quoted("<catalog>")+".system.rollback_to_snapshot, with the snapshot that was current before.")
	for i, s := range p.dataset.Staging {
		if s.MinMatch > 0 {
			comment(&b, "", fmt.Sprintf("Entry %s has min_match %v, which the statement does not check. Check it first with penstock verify.", p.dataset.Staging[i].Name, s.MinMatch))
		}
	}
	if len(p.added) > 0 {
		fmt.Fprintf(&b, "\nALTER TABLE %s ADD COLUMNS (\n  %s\n);\n", table, strings.Join(p.added, ",\n  "))
	}
	p.sorted(&b, table)
	b.WriteString("\n")
	comment(&b, "", "All partitions are replaced, including those of older partition specs.")
	b.WriteString("SET spark.sql.sources.partitionOverwriteMode = static;\n\n")
	fmt.Fprintf(&b, "INSERT OVERWRITE %s BY NAME\nSELECT\n  %s\nFROM %s AS t\n", table, strings.Join(p.values, ",\n  "), table)
	for _, input := range p.inputs {
		input.join(&b, p.target)
	}
	return strings.TrimSuffix(b.String(), "\n") + ";\n"
}

// sorted writes the statement that sets the order in which the rewritten rows are written. It
// writes nothing if the table already has a sort order.
func (p *overwriting) sorted(b *strings.Builder, table string) {
	b.WriteString("\n")
	if len(p.target.Training.SortOrders) > 0 {
		comment(b, "", "The table declares a sort order, and Spark keeps it.")
		return
	}
	var by []string
	for _, name := range p.dataset.Key {
		if column, ok := columnOf(p.target.Training, name); ok {
			by = append(by, column)
		}
	}
	if len(by) == 0 {
		return
	}
	comment(b, "", "Rows are shuffled by partition, so that each partition gets few files, and are sorted within each partition.")
	fmt.Fprintf(b, "ALTER TABLE %s WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY %s;\n", table, strings.Join(by, ", "))
}

// columnOf returns the Spark SQL name of a column of a table. The column may be nested in structs.
func columnOf(t *catalog.Table, name string) (string, bool) {
	for _, fields := range [][]catalog.Field{t.Fields, t.Nested} {
		for _, f := range fields {
			if f.Name == name {
				return sqlColumn(t, f), true
			}
		}
	}
	return "", false
}
