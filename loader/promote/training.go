package promote

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/parquet/extend"
	"github.com/penstock/penstock/internal/parquet/write"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
)

// trainingTable is a training table in a state of its main branch.
type trainingTable struct {
	shown string // its name in datasets
	table string // its name in its catalog
	state *commit.TableState
}

// named returns the table with its name in datasets.
func (t trainingTable) named() *catalog.Table {
	out := *t.state.Table
	out.Name = t.shown
	return &out
}

// madeBefore reports whether the current schema has the columns of a definition.
func (t trainingTable) madeBefore(d *definition) bool {
	return slices.ContainsFunc(promotions(t.state.Schemas), func(e earlier) bool { return t.isOf(e, d) && t.isCurrent(e) })
}

// isOf reports whether an earlier promotion had the given definition.
func (t trainingTable) isOf(e earlier, d *definition) bool {
	return identity(t.state.Table.Pin.UUID, d, e.attempt()) == e.id
}

// renew gives a definition an id that no earlier promotion has, because the files of earlier
// promotions have other columns.
func (t trainingTable) renew(d *definition) {
	for _, e := range promotions(t.state.Schemas) {
		if t.isOf(e, d) {
			d.attempt = max(d.attempt, e.attempt()+1)
		}
	}
	d.id = identity(t.state.Table.Pin.UUID, d, d.attempt)
}

// isCurrent reports whether the current schema has the columns of a promotion.
func (t trainingTable) isCurrent(e earlier) bool {
	current, _ := t.state.SchemaOf(t.state.Current)
	return slices.ContainsFunc(current.Fields, func(f catalog.Field) bool { return f.ID == e.columns[0].ID })
}

// oldName returns the new name of a replaced column.
func (t trainingTable) oldName(c newColumn) string {
	name := c.name + oldSuffix
	if f, taken := t.state.Table.Field(name); taken && f.ID != c.replaces {
		return name + "_" + strconv.Itoa(c.replaces)
	}
	return name
}

// partitioned reports whether the table has a partition field with the given name.
func (t trainingTable) partitioned(name string) bool {
	for _, spec := range t.state.Table.Specs {
		if slices.ContainsFunc(spec, func(f catalog.PartitionField) bool { return f.Name == name }) {
			return true
		}
	}
	return false
}

// folderOf returns the folder for the replacement of a file: the old file's folder if it is in the
// table's data folder, and the data folder otherwise.
func (t trainingTable) folderOf(location string) string {
	folder := t.state.DataFolder()
	if dir := location[:strings.LastIndexByte(location, '/')]; strings.HasPrefix(dir+"/", folder+"/") {
		return dir
	}
	return folder
}

// replacementName returns the name of a file's replacement, which begins with the prefix of the
// promotion and the given number. The name has a mark for each earlier promotion whose columns the
// file has, because the replacement has them too. If the name would be too long, the marks of the
// oldest promotions are left out. If such a promotion is repeated, it writes the file again.
func (t trainingTable) replacementName(f catalog.File, prefix, number string) string {
	parts := []string{prefix, number}
	name := catalog.ReplacementName(strings.Join(parts, "-"), f)
	for _, e := range promotions(t.state.Schemas) {
		of := filePrefix(e.id, e.columns[0].ID)
		if of == prefix || !hasPromotion(f.Location, of) {
			continue
		}
		parts = append(parts, strings.TrimPrefix(of, commit.OwnPrefix))
		longer := catalog.ReplacementName(strings.Join(parts, "-"), f)
		if len(longer) > maxName {
			break
		}
		name = longer
	}
	return name
}

// columnOptions returns the options for adding the new columns to old files, except those that
// differ by run.
func (t trainingTable) columnOptions(d *definition) extend.Options {
	out := extend.Options{OtherNames: true, Write: write.Options{FormatVersion: t.state.Version, PageRows: sampleRows}}
	if mapping := t.state.Table.Mapping; mapping != nil {
		out.NameMapping = mapping.Find
	}
	fields := make([]arrow.Field, len(d.columns))
	for i, c := range d.columns {
		fields[i] = identified(c.name, c.stored, c.column.ID)
		if c.uuid {
			out.Write.UUIDs = append(out.Write.UUIDs, c.column.ID)
		}
	}
	out.Write.Schema = arrow.NewSchema(fields, nil)
	return out
}

// files lists the files of main.
func (t trainingTable) files(ctx context.Context, of catalog.Catalog) ([]catalog.File, error) {
	if !t.state.Table.HasSnapshot() {
		return nil, nil
	}
	return of.Files(ctx, t.named(), nil, nil)
}
