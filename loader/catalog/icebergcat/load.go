package icebergcat

import (
	"context"
	"errors"

	icetable "github.com/apache/iceberg-go/table"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// loaded is a table's metadata as the catalog names it now.
type loaded struct {
	name     string
	location string // of the metadata file
	file     allowance
	text     []byte // of the metadata file, unpacked
	icetable.Metadata
}

// load reads the metadata of a table. What it holds is charged to held.
func (c *Catalog) load(ctx context.Context, name string, held *budget.Reservation) (*loaded, error) {
	parts, err := catalog.Parts(name)
	if err != nil {
		return nil, err
	}
	file, content, err := c.metadata(ctx, name, parts, held)
	if err != nil {
		return nil, err
	}
	location := file.location
	text, err := file.text(content)
	if err == nil {
		err = file.parsing(text)
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return nil, err
	}
	if err != nil {
		return nil, corrupt(name, location, "metadata of table %s cannot be unpacked: %w", name, err)
	}
	meta, err := icetable.ParseMetadataBytes(text)
	if errors.Is(err, icetable.ErrInvalidMetadataFormatVersion) {
		return nil, fault.New(fault.Invalid, "table %s is of a format version that is not served by this version: %w", name, err).
			In(name, location).WithRemedy("use a table of format version 1, 2 or 3")
	}
	if err != nil {
		return nil, corrupt(name, location, "metadata of table %s cannot be read: %w", name, err)
	}
	return &loaded{name: name, location: location, file: file, text: text, Metadata: meta}, nil
}

// metadata reads the metadata file of a table and says which it is. Writers
// may remove old metadata files, so one that is gone is only missing if the
// catalog still names it.
func (c *Catalog) metadata(ctx context.Context, name string, parts []string, held *budget.Reservation) (file allowance, content []byte, err error) {
	at, err := c.tables.Locate(ctx, locator.Table{Name: name, Parts: parts})
	for err == nil {
		file = c.allow(subject{what: "metadata", table: name, location: at.Location}, held)
		content, err = c.read(ctx, file)
		if fault.KindOf(err) != fault.Corrupt {
			return file, content, err
		}
		now, again := c.tables.Locate(ctx, locator.Table{Name: name, Parts: parts})
		if again == nil && now.Location == at.Location {
			return file, nil, err
		}
		at, err = now, again
	}
	return file, nil, err
}

// read returns the whole of a metadata file, so that what fails afterwards is
// the file's content and not its storage.
func (c *Catalog) read(ctx context.Context, file allowance) ([]byte, error) {
	content, err := c.readFile(ctx, file)
	if err == nil {
		return content, nil
	}
	if _, ok := errors.AsType[*fault.Error](err); !ok {
		return nil, err // the context's
	}
	return nil, fault.As(fault.Op(err, "read table %s", file.table)).In(file.table, file.location)
}

func (c *Catalog) readFile(ctx context.Context, file allowance) (content []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	object, err := c.access.open(ctx, file.location, store.SizeUnknown)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, object.Close()) }()
	if err := file.fits(object.Size(), "as stored"); err != nil {
		return nil, err
	}
	if err := file.charge(object.Size()); err != nil {
		return nil, err
	}
	content = make([]byte, object.Size())
	if err := object.ReadAt(ctx, content, 0); err != nil {
		store.WhenReturned(err, file.held.Split(object.Size()).Release)
		return nil, err
	}
	return content, nil
}

// corrupt is a file of metadata that cannot be right.
func corrupt(table, file, format string, args ...any) *fault.Error {
	return fault.New(fault.Corrupt, format, args...).In(table, file)
}
