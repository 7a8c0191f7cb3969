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
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/deletes"
	"github.com/penstock/penstock/loader/plan"
)

// opened is a file whose footer agrees with the manifest and the table.
type opened struct {
	*parquet.File
	object store.Object
	footer *release.Handle // of the memory of the footer
	// constants are the columns that the file lacks because all its rows have one
	// value, and around of which struct they would be: see parquet.ReadOptions.
	constants map[int]parquet.Constant
	deleted   *deletes.Rows // nil: no delete file is for the file
	around    map[int]int
	numbers   map[int]parquet.Numbers // of row lineage
	end       atomic.Pointer[payment] // for what is kept of the file's end; nil: nothing is
}

// payment is memory that was reserved for something.
type payment struct{ parquet.Spare }

// close gives the file back; what its storage says then is too late to matter.
func (o *opened) close() {
	_ = o.object.Close()
	o.footer.Release()
	o.dropEnd()
	if o.deleted != nil {
		o.deleted.Release()
	}
}

// dropEnd ends the payment for the file's end.
func (o *opened) dropEnd() {
	if paid := o.end.Swap(nil); paid != nil {
		paid.Release()
	}
}

// keepEnd pays for the end of a file, and says whether there is one, and memory to spare
// for it.
func (s *Scanner) keepEnd(ctx context.Context, o *opened, end *parquet.End) bool {
	if end == nil || s.options.ReadTail == NoTail {
		return false
	}
	paid, ok := s.spares.take(ctx, end.Bytes(), func() {
		end.Drop()
		o.dropEnd()
	})
	if ok {
		o.end.Store(&payment{paid})
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
		o.deleted, err = s.deletes.Open(ctx, source.Table, f)
	}
	if err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// verify reads the footer and compares it with what is known of the file.
func (s *Scanner) verify(ctx context.Context, source plan.Source, p *projection, f catalog.File, o *opened) error {
	footer, end, err := s.footer(ctx, source.Table, o.object)
	if err != nil {
		return err
	}
	if o.footer, err = s.paid.Hold(ctx, footer, footer.Bytes()); err != nil {
		return err
	}
	if len(p.ids) > 0 {
		if footer, err = named(source.Table, p, footer); err != nil {
			return err
		}
	}
	if !s.keepEnd(ctx, o, end) {
		end = nil
	}
	o.File, err = parquet.Open(ctx, o.object, parquet.Options{Footer: footer, End: end, Gap: s.options.ReadGap, ReadSize: s.options.ReadSize})
	if err != nil {
		return err
	}
	if footer.Rows() != f.Rows {
		return fault.New(fault.Corrupt, "the file's footer counts %d rows, the manifest %d", footer.Rows(), f.Rows).
			WithRemedy("the table's metadata and its file do not belong together: restore the file, or rewrite it")
	}
	if err := insideStructs(source.Table, p, f, footer); err != nil {
		return err
	}
	for _, c := range p.read {
		if catalog.IsLineage(c.ID) {
			o.number(f, c)
		} else if err := o.find(source, f, c); err != nil {
			return err
		}
	}
	return nil
}

// number says what a column of row lineage is where the file does not.
func (o *opened) number(f catalog.File, c catalog.Field) {
	if first, step, known := f.LineageOf(c.ID); known {
		o.numbers[c.ID] = parquet.Numbers{First: first, Step: step}
	}
}

// find sees that a column is in the file, or supplies it.
func (o *opened) find(source plan.Source, f catalog.File, c catalog.Field) error {
	if _, ok := o.Field(c.ID); ok {
		return nil
	}
	nested := !slices.ContainsFunc(source.Table.Fields, func(f catalog.Field) bool { return f.ID == c.ID })
	if nested && !o.HasNestedFieldIDs() {
		return someIDs("the file was written without field ids inside structs")
	}
	return o.supply(source, f, c)
}

// named returns the footer of a file with the field ids that the table's name mapping
// gives, if the file was written without. Of files that have some, readers disagree on
// what the mapping says. Of columns that the table has dropped it is not known: rows would
// stay that equality deletes of these delete.
func named(t *catalog.Table, p *projection, footer *parquet.Footer) (*parquet.Footer, error) {
	switch {
	case footer.HasFieldIDs():
		return footer, nil
	case footer.HasAnyFieldID():
		return nil, someIDs("the file was written with field ids for some columns alone")
	case t.Mapping == nil:
		return nil, fault.New(fault.Invalid, "the file was written without field ids, and the table has no name mapping").
			WithRemedy("set the table's property schema.name-mapping.default, or rewrite the file through Iceberg")
	}
	for _, c := range p.read {
		if _, ok := t.ByID(c.ID); !ok {
			return nil, fault.New(fault.Invalid, "the file was written without field ids, and equality deletes compare column %s, which is not served by this version", c.Name).
				WithRemedy("rewrite the file through Iceberg")
		}
	}
	return footer.Named(t.Mapping.Find)
}

func someIDs(what string) error {
	return fault.New(fault.Invalid, "%s, which is not served by this version", what).WithRemedy("rewrite the file through Iceberg")
}

// supply finds what stands for a column that a file lacks: its value in the file's
// partition, as the specification has it ("Column Projection"), its initial default, or
// null.
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

// identityOf returns the value of a column that a file's partition says, and whether
// it says one.
func identityOf(t *catalog.Table, f catalog.File, id int) (value any, known bool) {
	for i, p := range t.Specs[f.Spec] {
		if p.Source == id && p.Transform.Kind == catalog.Identity && i < len(f.Partition) {
			return f.Partition[i], true
		}
	}
	return nil, false
}

// insideStructs refuses a struct that is read whole, if the value of a field in it is in
// the partition alone.
func insideStructs(t *catalog.Table, p *projection, f catalog.File, footer *parquet.Footer) error {
	for _, field := range t.Nested {
		if _, known := identityOf(t, f, field.ID); !known {
			continue
		}
		if _, there := footer.Field(field.ID); there {
			continue
		}
		for _, c := range p.read {
			if strings.HasPrefix(field.Name, c.Name+".") {
				return fault.New(fault.Invalid, "column %s is not in the file but in its partition values alone, which is not served by this version for %s as a whole", field.Name, c.Name).
					WithRemedy("rewrite the file with all columns, or ask for the fields of %s by name", c.Name)
			}
		}
	}
	return nil
}

// footerOf is what a footer depends on. A file never changes while its table
// lives, but a table that is dropped and made anew may give its files the names
// of the old ones.
type footerOf struct {
	table    string // uuid
	location string
	size     int64
}

func keyOf(t *catalog.Table, location string, size int64) string {
	return digest.Of(footerOf{table: t.Pin.UUID, location: location, size: size})
}

// orForget passes on what a file gave. If that says that the file is corrupt, its footer is
// forgotten: somebody who has restored the file may have given it another tag.
func (s *Scanner) orForget(t *catalog.Table, f catalog.File, err error) error {
	if s.options.Footers != nil && fault.KindOf(err) == fault.Corrupt {
		s.options.Footers.Forget(keyOf(t, f.Location, f.Bytes))
	}
	return err
}

// footer reads an object's footer, or remembers it. What it read of the file's end it
// returns too.
func (s *Scanner) footer(ctx context.Context, t *catalog.Table, object store.Object) (*parquet.Footer, *parquet.End, error) {
	limits := parquet.FooterLimits{Tail: s.options.ReadTail, Bytes: s.options.MaxFooter, Budget: s.options.Budget}
	if s.options.Footers == nil {
		return parquet.ReadEnd(ctx, object, limits)
	}
	var end *parquet.End
	footer, err := s.options.Footers.Get(ctx, keyOf(t, object.Location(), object.Size()), func(ctx context.Context) (footer *parquet.Footer, _ int64, err error) {
		if footer, end, err = parquet.ReadEnd(ctx, object, limits); err != nil {
			return nil, 0, err
		}
		return footer, footer.Bytes(), nil
	})
	return footer, end, err
}
