package backfill

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// property is a property of an Iceberg table.
type property struct{ name, value, reason string }

// properties returns the properties that a staging table needs.
func properties() []property {
	return []property{
		{"format-version", "2", "Files have sequence numbers. The rules duplicates: first and last order commits by them."},
		{"write.parquet.compression-codec", "zstd", "Lists and texts that repeat from row to row shrink to a fraction of their size."},
		{"write.target-file-size-bytes", "268435456", "A bucket is read as a whole, so it should have few files, of 128 to 512 MB each."},
		{"write.metadata.delete-after-commit.enabled", "true", "A backfill commits often. This deletes old metadata files, but no snapshots."},
	}
}

// quoted returns a name as an identifier of Spark SQL.
func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// sqlTable returns the name of a table in Spark SQL.
func (t Target) sqlTable(table string) string {
	if t.SQLName != nil {
		table = t.SQLName(table)
	}
	parts := strings.Split(table, ".")
	for i := range parts {
		parts[i] = quoted(parts[i])
	}
	return strings.Join(parts, ".")
}

// term returns the Spark SQL for a partition transform of a column.
func term(t catalog.Transform, column string) string {
	switch t.Kind {
	case catalog.Identity, catalog.Other:
		return column
	case catalog.Bucket:
		return fmt.Sprintf("bucket(%d, %s)", t.N, column)
	case catalog.Truncate:
		return fmt.Sprintf("truncate(%d, %s)", t.N, column)
	case catalog.Year, catalog.Month, catalog.Day, catalog.Hour:
		return fmt.Sprintf("%ss(%s)", t.Kind, column)
	}
	return column
}

// describeField returns the text that describes a partition field in the comments of a script.
func describeField(f catalog.PartitionField, column string) string {
	if f.Transform.Kind == catalog.Other {
		return f.Name
	}
	return term(f.Transform, column)
}

// statement is the prefix of a text that is an SQL statement. The function comment writes such a
// text on one line.
const statement = "  "

// comment writes each text as one or more comment lines. Line breaks and tabs in a text become
// spaces, because names may contain them.
func comment(b *strings.Builder, indent string, texts ...string) {
	const width = 96
	for _, text := range texts {
		line := indent + "--"
		if strings.HasPrefix(text, statement) {
			b.WriteString(line + statement + strings.Join(strings.Fields(text), " ") + "\n")
			continue
		}
		for word := range strings.FieldsSeq(text) {
			if len(line)+1+len(word) > width && line != indent+"--" {
				b.WriteString(line + "\n")
				line = indent + "--"
			}
			line += " " + word
		}
		b.WriteString(line + "\n")
	}
}

// script adds the layout's entry to dataset d, and checks the resulting dataset. It returns this
// dataset and the SQL that creates and fills the staging table. tables are the tables of d's
// entries. The texts in further are comments at the end of the SQL.
func (s *stagingLayout) script(to Target, d dataset.Dataset, tables []*catalog.Table, further []string) (*Script, error) {
	d.Staging = append(slices.Clone(d.Staging), s.entry)
	if err := check(d, to.Training, append(slices.Clone(tables), s.table)); err != nil {
		return nil, err
	}
	var b strings.Builder
	comment(&b, "", fmt.Sprintf("A staging table for %s, the training table of dataset %s. Review this file, and run it in Spark with the SQL extensions of Iceberg.",
		to.Training.Name, d.Name))
	comment(&b, "", s.advice...)
	if len(s.leftOut) > 0 {
		comment(&b, "", "Partition fields of the training table that the staging table does not have:")
		comment(&b, "", s.leftOut...)
	}
	table := to.sqlTable(s.table.Name)
	s.create(&b, table)
	s.sorted(&b, table)
	s.insert(&b, table)
	if len(further) > 0 {
		b.WriteString("\n")
		comment(&b, "", further...)
	}
	return &Script{SQL: b.String(), Dataset: d, Layout: s.layout(), added: true}, nil
}

// create writes the statement that creates the table.
func (s *stagingLayout) create(b *strings.Builder, table string) {
	fmt.Fprintf(b, "\nCREATE TABLE %s (\n", table)
	for i, f := range s.table.Fields {
		t, _ := sparkType(f.Type)
		end := ","
		if i == len(s.table.Fields)-1 {
			end = ""
		}
		fmt.Fprintf(b, "  %s %s%s\n", quoted(f.Name), t, end)
	}
	b.WriteString(")\nUSING iceberg\n")
	if s.bucketed {
		comment(b, "", "The number of buckets of the key divides that of the training table or is a multiple of it, so that a bucket is joined with few others.")
	}
	fmt.Fprintf(b, "PARTITIONED BY (%s)\nTBLPROPERTIES (\n", strings.Join(s.terms, ", "))
	all := properties()
	for i, p := range all {
		end := ","
		if i == len(all)-1 {
			end = ""
		}
		comment(b, "  ", p.reason)
		fmt.Fprintf(b, "  '%s' = '%s'%s\n", p.name, p.value, end)
	}
	b.WriteString(");\n")
}

// sorted writes the statement that sets the order in which the rows of the staging table are
// written.
func (s *stagingLayout) sorted(b *strings.Builder, table string) {
	b.WriteString("\n")
	comment(b, "", "Rows are shuffled by partition, so that each partition gets few files, and are sorted within each partition: tables that are sorted by the key are merged without an index.")
	if slices.ContainsFunc(s.table.Fields, func(f catalog.Field) bool { return arrow.IsNested(f.Type.ID()) }) {
		comment(b, "", "Histories of a user are several times smaller if the rows of a user are neighbors: sort by the user, with --sort, if the table has that column. Sorting by the key of a request does not make them smaller.")
	}
	columns := make([]string, len(s.sort))
	for i, name := range s.sort {
		columns[i] = quoted(name)
	}
	fmt.Fprintf(b, "ALTER TABLE %s WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY %s;\n", table, strings.Join(columns, ", "))
}

// insert writes the statement that fills the staging table.
func (s *stagingLayout) insert(b *strings.Builder, table string) {
	b.WriteString("\n")
	rows := "one row for each key"
	if s.aligned != "" {
		rows += " and partition of " + s.aligned
	}
	comment(b, "", "<source> is a table, a view, or a query in parentheses, with these columns and "+rows+". Null keys match nothing.")
	if s.aligned != "" {
		comment(b, "", "INSERT INTO adds the rows again if it runs again. INSERT OVERWRITE replaces the partitions that get rows, if spark.sql.sources.partitionOverwriteMode is dynamic.")
	} else {
		comment(b, "", "INSERT INTO adds the rows again if it runs again: empty the table first.")
	}
	columns := make([]string, len(s.table.Fields))
	for i, f := range s.table.Fields {
		columns[i] = quoted(f.Name)
	}
	keys := make([]string, len(s.entry.Key))
	for i, k := range s.entry.Key {
		keys[i] = quoted(k.Staging) + " IS NOT NULL"
	}
	fmt.Fprintf(b, "INSERT INTO %s\nSELECT %s\nFROM <source>\nWHERE %s;\n", table, strings.Join(columns, ", "), strings.Join(append(keys, s.days...), " AND "))
}

// swapInTraining returns the comments of a script whose new column replaces a column of the
// training table.
func swapInTraining(in Target, added string, old resolve.Output) []string {
	table := in.sqlTable(in.Training.Name)
	return []string{
		fmt.Sprintf("The dataset gives %s the name %s: an overlay. Rows without a match keep the value of the training table.", added, old.Name),
		"To swap the names in the training table, once it has the new column too:",
		statement + fmt.Sprintf("ALTER TABLE %s RENAME COLUMN %s TO %s;", table, quoted(old.Field.Name), quoted(old.Field.Name+"_old")),
		statement + fmt.Sprintf("ALTER TABLE %s RENAME COLUMN %s TO %s;", table, quoted(added), quoted(old.Field.Name)),
	}
}

// swapInStaging returns the comments of a script whose new column replaces a column of a staging
// table.
func swapInStaging(in Target, old resolve.Output) []string {
	t := in.Staging[old.Table]
	return append([]string{
		fmt.Sprintf("The dataset gives the new column the name %s, and no longer reads the old one of %s. To remove the old one, once no run and no other dataset reads it:", old.Name, t.Name),
		statement + fmt.Sprintf("ALTER TABLE %s DROP COLUMN %s;", in.sqlTable(t.Name), sqlColumn(t, old.Field)),
	}, in.readers(t)...)
}

// sqlColumn returns the Spark SQL name of a column of a table. The column may be nested in structs.
func sqlColumn(t *catalog.Table, f catalog.Field) string {
	if !slices.ContainsFunc(t.Nested, func(n catalog.Field) bool { return n.ID == f.ID }) {
		return quoted(f.Name)
	}
	parts := strings.Split(f.Name, ".")
	for i := range parts {
		parts[i] = quoted(parts[i])
	}
	return strings.Join(parts, ".")
}

// readers returns a comment that names the other datasets that read a table, or nil if there are
// none.
func (t Target) readers(table *catalog.Table) []string {
	var names []string
	for _, d := range t.Others {
		of := func(s dataset.Staging) bool { return s.Table == table.Name }
		if d.Training.Table == table.Name || slices.ContainsFunc(d.Staging, of) {
			names = append(names, d.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{"Other datasets of the config file that read this table: " + strings.Join(names, ", ") + "."}
}

// removal returns the script that removes a column from its table. all means that the column's
// staging entry was removed from the dataset, because it read nothing else.
func (t Target) removal(table *catalog.Table, o resolve.Output, all bool) string {
	var b strings.Builder
	name := t.sqlTable(table.Name)
	comment(&b, "", fmt.Sprintf("This removes %s from dataset %s. First change the config file. Runs that have begun keep reading the column by the schema in their pins, as long as the snapshots and files of the pins exist.",
		o.Name, t.Dataset.Name))
	comment(&b, "", t.readers(table)...)
	b.WriteString("\n")
	if all {
		comment(&b, "", "The dataset reads nothing else of this table. To remove the table instead, once no run and no other dataset reads it:",
			statement+"DROP TABLE "+name+";")
	}
	fmt.Fprintf(&b, "ALTER TABLE %s DROP COLUMN %s;\n", name, sqlColumn(table, o.Field))
	return b.String()
}
