package stage

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/datafile"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/extsort"
)

// StoredRows are rows of files of an earlier snapshot that are to be added to the table again.
type StoredRows struct {
	Table   string             // as users write it
	State   *commit.TableState // the current state of the branch
	Past    *catalog.Table     // the table at the earlier snapshot, with the current schema
	Files   []catalog.File     // of Past
	Removed []string           // locations of current files that are removed by the same change
}

// CheckStored checks keys like Stage: it looks for keys that occur repeatedly among the stored
// rows, or both in stored rows and in rows of the current files that stay. It returns Invalid for
// keys that a reader does not accept, and the errors of reading files.
func (s *Stager) CheckStored(ctx context.Context, readers []DatasetReader, rows StoredRows) error {
	tables, name, err := s.options.Route(rows.Table)
	if err != nil {
		return err
	}
	target, err := datafile.Match(supported(rows.State.Table), rows.State, datafile.MatchOptions{})
	if err != nil {
		return err
	}
	c := &staging{
		Stager: s, readers: readers, request: dataset.TableWrite{Table: name}, shown: rows.Table, tables: tables, target: target, stored: true,
		rows: datafile.NewCall(s.options.Rows, nil),
	}
	if c.checks, err = c.newKeyChecks(); err != nil {
		return err
	}
	defer releaseChecks(c.checks)
	for _, k := range c.checks {
		if err := k.checkStored(ctx, rows); err != nil {
			return fault.Op(err, "compare the keys of the rows")
		}
	}
	return nil
}

// supported returns the columns of a table whose types are supported.
func supported(t *catalog.Table) *arrow.Schema {
	var fields []arrow.Field
	for _, f := range t.Fields {
		if f.Type.ID() != arrow.NULL {
			fields = append(fields, f.Arrow())
		}
	}
	return arrow.NewSchema(fields, nil)
}

// checkStored adds the keys of stored rows, and compares them with those of the table.
func (k *keyCheck) checkStored(ctx context.Context, rows StoredRows) error {
	fields, ok := k.fields(rows.Past)
	if !ok {
		return nil
	}
	ids := catalog.FieldIDs(fields)
	files, err := k.call.tables.Files(ctx, rows.Past, ids, nil)
	if err != nil {
		return err
	}
	stored := map[string]bool{}
	for _, f := range rows.Files {
		stored[f.Location] = true
	}
	table := *rows.Past
	table.Name = rows.Table
	for _, f := range files {
		if !stored[f.Location] || !k.numberFile(&table, f) {
			continue
		}
		if err := k.readFile(ctx, &table, fields, f, k.sorter); err != nil {
			return err
		}
	}
	if err := k.finish(ctx); err != nil {
		return err
	}
	return k.compareWithTable(ctx, rows.State, rows.Removed, partitionsOf(rows.State.Spec, rows.Files))
}

// numberFile numbers the partition of a file. It returns false if the check is aligned and the
// file lacks a value for a coarse field: such a file is not aligned with any partition.
func (k *keyCheck) numberFile(table *catalog.Table, f catalog.File) bool {
	if !k.aligned {
		return true
	}
	spec, of := table.Specs[k.call.target.State.Spec], table.Specs[f.Spec]
	if !covers(of, spec) {
		return false
	}
	k.parts.number(coarseValues(spec, of, f.Partition))
	return true
}

// partitionsOf returns the distinct partitions of files of a spec, or nil if one of the files has
// another spec.
func partitionsOf(spec int, files []catalog.File) []extsort.Partition {
	var out []extsort.Partition
	seen := map[string]bool{}
	for _, f := range files {
		if f.Spec != spec {
			return nil
		}
		if key := string(catalog.AppendPartition(nil, f.Partition)); !seen[key] {
			seen[key] = true
			out = append(out, extsort.Partition{Values: slices.Clone(f.Partition)})
		}
	}
	return out
}
