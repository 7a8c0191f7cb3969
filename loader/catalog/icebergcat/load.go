package icebergcat

import (
	"context"
	"encoding/json"
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
	files    opener // of the table
	icetable.Metadata
}

// load reads the metadata of a table. What it holds is charged to held.
func (c *Catalog) load(ctx context.Context, name string, held *budget.Reservation) (*loaded, error) {
	parts, err := catalog.Parts(name)
	if err != nil {
		return nil, err
	}
	out, grants, err := c.metadata(ctx, name, parts, held)
	if err == nil {
		err = out.file.parsing(out.text)
	}
	if err != nil {
		return nil, err
	}
	out.Metadata, err = icetable.ParseMetadataBytes(out.text)
	if errors.Is(err, icetable.ErrInvalidMetadataFormatVersion) {
		err = out.parseAgain(err)
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return nil, err
	}
	if err != nil {
		return nil, c.orForget(out.file.key(), corrupt(name, out.location, "metadata of table %s cannot be read: %w", name, err))
	}
	out.files = c.accessTo(tableOf{name: name, uuid: out.TableUUID().String()}, grants)
	return out, nil
}

// laterFields are fields of metadata with the format version that introduced them. In
// metadata of an older version they mean nothing: Iceberg's Java library does not look at
// them, and iceberg-go 0.7.0 refuses the table.
func laterFields() map[string]int { return map[string]int{"last-sequence-number": 2, "next-row-id": 3} }

// parseAgain parses metadata that iceberg-go refused by its format version: without fields
// of later versions, if it has some. Or it returns why the metadata is refused.
func (m *loaded) parseAgain(refused error) error {
	// The fields are copied out of the text, and into a new one.
	if err := m.file.charge(2 * int64(len(m.text))); err != nil {
		return err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(m.text, &fields); err != nil {
		return err
	}
	var version int
	if err := json.Unmarshal(fields["format-version"], &version); err != nil || version < 1 || version > lineageVersion {
		return fault.New(fault.Invalid, "table %s is of a format version that is not served by this version: %w", m.name, refused).
			In(m.name, m.location).WithRemedy("use a table of format version 1, 2 or 3")
	}
	before := len(fields)
	for name, since := range laterFields() {
		if version < since {
			delete(fields, name)
		}
	}
	if len(fields) == before {
		return refused
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	if err := m.file.parsing(text); err != nil {
		return err
	}
	m.Metadata, err = icetable.ParseMetadataBytes(text)
	return err
}

// metadata gets the text of a table's metadata: from the catalog, or from the file that it
// names. Writers may remove old metadata files, so one that is gone is only missing if the
// catalog still names it.
func (c *Catalog) metadata(ctx context.Context, name string, parts []string, held *budget.Reservation) (*loaded, []locator.Grant, error) {
	file := c.allow(subject{what: "metadata", table: name}, held)
	wanted := locator.Table{Name: name, Parts: parts, Most: c.options.MaxMetadata, Charge: file.charge}
	at, err := c.tables.Locate(ctx, wanted)
	for err == nil {
		file.location = at.Location
		if at.Text != nil {
			return &loaded{name: name, location: at.Location, file: file, text: at.Text}, at.Grants, nil
		}
		var text []byte
		text, err = c.metadataFile(ctx, file)
		if fault.KindOf(err) != fault.Corrupt {
			return &loaded{name: name, location: at.Location, file: file, text: text}, at.Grants, err
		}
		now, again := c.tables.Locate(ctx, wanted)
		if again == nil && now.Location == at.Location {
			return nil, nil, err
		}
		at, err = now, again
	}
	return nil, nil, err
}

// metadataFile reads a metadata file and unpacks it.
func (c *Catalog) metadataFile(ctx context.Context, file allowance) ([]byte, error) {
	content, err := c.metadataContent(ctx, file)
	if err != nil {
		return nil, err
	}
	text, err := file.text(content)
	if _, ok := errors.AsType[*fault.Error](err); err != nil && !ok {
		return nil, c.orForget(file.key(), corrupt(file.table, file.location, "metadata of table %s cannot be unpacked: %w", file.table, err))
	}
	return text, err
}

// read returns the whole of a metadata file, so that what fails afterwards is
// the file's content and not its storage.
func (c *Catalog) read(ctx context.Context, from opener, file allowance) ([]byte, error) {
	content, err := c.readFile(ctx, from, file)
	if err == nil {
		return content, nil
	}
	if _, ok := errors.AsType[*fault.Error](err); !ok {
		return nil, err // the context's
	}
	return nil, fault.As(fault.Op(err, "read table %s", file.table)).In(file.table, file.location)
}

func (c *Catalog) readFile(ctx context.Context, from opener, file allowance) (content []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	object, err := from.open(ctx, file.location, store.SizeUnknown)
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
