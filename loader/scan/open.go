package scan

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/release"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/waits"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/deletes"
	"github.com/penstock/penstock/loader/plan"
)

// opened is a file whose footer matches the manifest and the table.
type opened struct {
	*parquet.File
	object store.Object
	footer *release.Handle // holds the footer's reserved memory
	// constants are the columns that the file lacks and that have one value in all rows. around has
	// the enclosing struct of each such column, if there is one. See parquet.ReadOptions.
	constants map[int]parquet.Constant
	deleted   *deletes.Rows // nil: no delete file applies to the file
	around    map[int]int
	numbers   map[int]parquet.Numbers   // of row lineage columns
	mapped    bool                      // its field ids come from the table's name mapping
	end       atomic.Pointer[endMemory] // memory of the kept end of the file; nil: the end is not kept
}

// endMemory is the memory reserved for the end of a file.
type endMemory struct{ parquet.Spare }

// close releases the file. An error of its storage no longer matters.
func (o *opened) close() {
	_ = o.object.Close()
	o.footer.Release()
	o.releaseEnd()
	if o.deleted != nil {
		o.deleted.Release()
	}
}

// releaseEnd releases the memory of the file's end.
func (o *opened) releaseEnd() {
	if held := o.end.Swap(nil); held != nil {
		held.Release()
	}
}

// reserveEnd reserves memory to keep the end of a file. It returns false if there is no end to
// keep, or no memory to spare.
func (s *Scanner) reserveEnd(ctx context.Context, o *opened, end *parquet.FileTail) bool {
	if end == nil || s.options.ReadTail == NoTail {
		return false
	}
	held, ok := s.spares.take(ctx, end.Bytes(), func() {
		end.Drop()
		o.releaseEnd()
	})
	if ok {
		o.end.Store(&endMemory{held})
	}
	return ok
}

// open opens one file of a source.
func (s *Scanner) open(ctx context.Context, source plan.Source, p *projection, f catalog.File) (*opened, error) {
	object, err := s.options.Files.Open(ctx, source.Table, f.Location, f.Bytes)
	if err != nil {
		return nil, err
	}
	o := &opened{object: object, constants: map[int]parquet.Constant{}, around: map[int]int{}, numbers: map[int]parquet.Numbers{}}
	if err = s.verify(ctx, source, p, f, o); err == nil && !f.Deletes.None() {
		end := waits.Begin(ctx, waits.Deletes)
		o.deleted, err = s.deletes.Open(ctx, source.Table, f)
		end()
	}
	if err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// verify reads the footer and checks that it matches the manifest and the table.
func (s *Scanner) verify(ctx context.Context, source plan.Source, p *projection, f catalog.File, o *opened) error {
	footer, end, err := s.footer(ctx, source.Table, o.object)
	if err != nil {
		return err
	}
	if o.footer, err = s.footers.Hold(ctx, footer, footer.Bytes()); err != nil {
		return err
	}
	if len(p.ids) > 0 {
		o.mapped = !footer.HasFieldIDs()
		if footer, err = withFieldIDs(source.Table, p, footer); err != nil {
			return err
		}
	}
	if !s.reserveEnd(ctx, o, end) {
		end = nil
	}
	o.File, err = parquet.Open(ctx, o.object, parquet.Options{Footer: footer, End: end, Gap: s.options.ReadGap, ReadSize: s.options.ReadSize})
	if err != nil {
		return err
	}
	if footer.Rows() != f.Rows {
		return fault.New(fault.Corrupt, "the file's footer counts %d rows, the manifest %d", footer.Rows(), f.Rows).
			WithRemedy("the table's metadata and its file do not match: restore the file, or rewrite it")
	}
	if err := refusePartial(source.Table, p, f, footer); err != nil {
		return err
	}
	for _, c := range p.read {
		if catalog.IsLineage(c.ID) {
			o.setNumbers(f, c)
		} else if err := o.find(source, f, c); err != nil {
			return err
		}
	}
	return nil
}

// setNumbers sets the values of a row lineage column for rows without a stored value.
func (o *opened) setNumbers(f catalog.File, c catalog.Field) {
	if first, step, known := f.LineageOf(c.ID); known {
		o.numbers[c.ID] = parquet.Numbers{First: first, Step: step}
	}
}

// find checks that a column is in the file, or supplies it.
func (o *opened) find(source plan.Source, f catalog.File, c catalog.Field) error {
	if _, ok := o.Field(c.ID); ok {
		return nil
	}
	nested := !slices.ContainsFunc(source.Table.TopLevel(), func(f catalog.Field) bool { return f.ID == c.ID })
	if nested && !o.HasNestedFieldIDs() {
		return someIDs("the file was written without field ids inside structs")
	}
	return o.supply(source, f, c)
}

// withFieldIDs returns the footer of a file with field ids. If the file was written without ids,
// the table's name mapping supplies them. Files with some ids are refused, since readers disagree
// on how to apply the mapping. Files are also refused if equality deletes compare a column that the
// table has dropped: the mapping does not name this column, so deleted rows would be returned.
func withFieldIDs(t *catalog.Table, p *projection, footer *parquet.Footer) (*parquet.Footer, error) {
	switch {
	case footer.HasFieldIDs():
		return footer, nil
	case footer.HasAnyFieldID():
		return nil, someIDs("the file was written with field ids for only some columns")
	case t.Mapping == nil:
		return nil, fault.New(fault.Invalid, "the file was written without field ids, and the table has no name mapping").
			WithRemedy("set the table's property schema.name-mapping.default, or rewrite the file through Iceberg")
	}
	for _, c := range p.read {
		if _, ok := t.ByID(c.ID); !ok {
			return nil, fault.New(fault.Invalid, "the file was written without field ids, and equality deletes compare column %s, which is not supported by this version", c.Name).
				WithRemedy("rewrite the file through Iceberg")
		}
	}
	return footer.ApplyNameMapping(t.Mapping.Find)
}

func someIDs(what string) error {
	return fault.New(fault.Invalid, "%s, which is not supported by this version", what).WithRemedy("rewrite the file through Iceberg")
}

// supply supplies a column that a file lacks, as the specification requires ("Column
// Projection"): its value in the file's partition, its initial default, or null.
func (o *opened) supply(source plan.Source, f catalog.File, c catalog.Field) error {
	t := source.Table
	value, known := identityOf(t, f, c.ID)
	switch {
	case source.Complete:
		return fault.New(fault.Corrupt, "the file has no column %s (field id %d)", c.Name, c.ID)
	case known && value != nil:
		constant, err := constantOf(c, value)
		if err != nil {
			return err
		}
		o.constants[c.ID] = constant
		return nil
	case !known && o.byDefault(t, c):
		return nil
	case c.Required:
		return fault.New(fault.Corrupt, "the file has no column %s (field id %d), which the table requires", c.Name, c.ID).
			WithRemedy("rewrite the file with all required columns")
	default:
		return nil
	}
}

// identityOf returns the value of a column in a file's partition, and whether the
// partition has one.
func identityOf(t *catalog.Table, f catalog.File, id int) (value any, known bool) {
	for i, p := range t.Specs[f.Spec] {
		if p.Source == id && p.Transform.Kind == catalog.Identity && i < len(f.Partition) {
			return f.Partition[i], true
		}
	}
	return nil, false
}

// refusePartial refuses to read a whole struct if one of its fields is only in the file's partition
// values, and not in the file.
func refusePartial(t *catalog.Table, p *projection, f catalog.File, footer *parquet.Footer) error {
	for _, field := range t.Nested {
		if _, known := identityOf(t, f, field.ID); !known {
			continue
		}
		if _, there := footer.Field(field.ID); there {
			continue
		}
		for _, c := range p.read {
			if strings.HasPrefix(field.Name, c.Name+".") {
				return fault.New(fault.Invalid, "column %s is not in the file but only in its partition values, which is not supported by this version for %s as a whole", field.Name, c.Name).
					WithRemedy("rewrite the file with all columns, or ask for the fields of %s by name", c.Name)
			}
		}
	}
	return nil
}

// footerID identifies a footer. A file of a table never changes, but a table that was
// dropped and recreated may reuse file names.
type footerID struct {
	table    string // uuid
	location string
}

func keyOf(t *catalog.Table, location string) string {
	return digest.Of(footerID{table: t.Pin.UUID, location: location})
}

// forgetIfCorrupt returns the given error unchanged. If the error says that the file is corrupt,
// forgetIfCorrupt drops the file's cached footer: a restored file may have another footer and
// entity tag.
func (s *Scanner) forgetIfCorrupt(t *catalog.Table, f catalog.File, err error) error {
	if s.options.Footers != nil && fault.KindOf(err) == fault.Corrupt {
		s.options.Footers.Forget(keyOf(t, f.Location))
	}
	return err
}

// footer returns an object's footer, from the cache or from the file. If it reads the
// file, it also returns the file's end.
func (s *Scanner) footer(ctx context.Context, t *catalog.Table, object store.Object) (*parquet.Footer, *parquet.FileTail, error) {
	limits := parquet.FooterLimits{Tail: s.options.ReadTail, Bytes: s.options.MaxFooter, Budget: s.options.Budget}
	if s.options.Footers == nil {
		return parquet.ReadFooterAndTail(ctx, object, limits)
	}
	var end *parquet.FileTail
	key := keyOf(t, object.Location())
	read := func(ctx context.Context) (footer *parquet.Footer, _ int64, err error) {
		if footer, end, err = parquet.ReadFooterAndTail(ctx, object, limits); err != nil {
			return nil, 0, err
		}
		return footer, footer.Bytes(), nil
	}
	footer, err := s.options.Footers.Get(ctx, key, read)
	if err == nil && footer.FileSize() != object.Size() { // another file had this name
		s.options.Footers.Forget(key)
		footer, err = s.options.Footers.Get(ctx, key, read)
	}
	return footer, end, err
}
