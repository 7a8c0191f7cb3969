package metadata

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
	"github.com/penstock/penstock/loader/catalog/locator"
	"github.com/penstock/penstock/loader/catalog/tablestore"
)

// Loaded is the current metadata of a table.
type Loaded struct {
	Name     string
	File     metafile.Allowance // of the metadata file
	Text     []byte             // of the metadata file, unpacked
	Returned bool               // whether the catalog returned the metadata, so that it was not read from the file
	Unsaved  bool               // the catalog does not have the table yet, and the file does not exist
	Files    tablestore.Opener
	Prefixes store.Prefixes // the prefixes under which the table's files may be
	stores   store.Kinds
	// noRowIDs is true if metadata of format version 3 does not say what the next free row id is.
	// Early writers did not write it.
	noRowIDs bool
	later    later
	icetable.Metadata
}

// Load reads the metadata of a table. The memory of the metadata is charged to held.
func (s *Source) Load(ctx context.Context, name string, held *budget.Reservation) (*Loaded, error) {
	out, grants, err := s.metadata(ctx, name, held)
	if err == nil {
		err = s.parse(out, grants)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Unsaved parses the metadata of a table that the catalog does not have yet. Location is where its
// metadata file will be written. The memory of the metadata is charged to held.
func (s *Source) Unsaved(name, location string, text []byte, held *budget.Reservation) (*Loaded, error) {
	out := &Loaded{Name: name, File: s.Allow(metafile.Subject{What: "metadata", Table: name, Location: location}, held), Text: text, Unsaved: true}
	if err := s.parse(out, nil); err != nil {
		return nil, err
	}
	return out, nil
}

// parse parses the text of a table's metadata, and sets the Opener that uses the grants for the
// table's files.
func (s *Source) parse(out *Loaded, grants []locator.Grant) (err error) {
	if err := out.File.ChargeParsing(out.Text); err != nil {
		return err
	}
	err = out.parseText()
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	if err != nil {
		return s.OrForget(metadataKey(out.File), metafile.Corrupt(out.Name, out.File.Location, "metadata of table %s cannot be read: %w", out.Name, err))
	}
	out.Files = s.Files.Table(out.Name, out.TableUUID().String(), grants)
	out.Prefixes, out.stores = s.prefixesOf(out), s.Stores
	return nil
}

// parseText parses the text of the metadata.
func (m *Loaded) parseText() (err error) {
	m.noRowIDs, m.later = false, later{}
	m.Metadata, err = icetable.ParseMetadataBytes(m.Text)
	if err == nil {
		return nil
	}
	if unsupported := m.unsupportedVersion(); unsupported != nil {
		return unsupported
	}
	for _, mendable := range []error{
		icetable.ErrInvalidMetadataFormatVersion, icetable.ErrInvalidMetadata, icetable.ErrInvalidRefType,
		iceberg.ErrInvalidSchema, iceberg.ErrInvalidTypeString,
	} {
		if errors.Is(err, mendable) {
			return m.parseAgain(err)
		}
	}
	return err
}

// versionField is the name of the metadata field that has the format version.
const versionField = "format-version"

// unsupportedVersion returns the error for metadata without a format version, or of one that is not supported. It returns nil for a text
// that is not JSON.
func (m *Loaded) unsupportedVersion() error {
	var fields struct {
		Version json.RawMessage `json:"format-version"`
	}
	if err := json.Unmarshal(m.Text, &fields); err != nil {
		return nil // the error of the library says where the text is wrong
	}
	var version int
	e := fault.New(fault.Invalid, "the metadata of table %s has no format version", m.Name)
	if err := json.Unmarshal(fields.Version, &version); err == nil {
		if version >= 1 && version <= LineageVersion {
			return nil
		}
		e = fault.New(fault.Invalid, "table %s has format version %d, which is not supported by this version", m.Name, version)
	}
	return e.In(m.Name, m.File.Location).WithRemedy("use a table of format version 1, 2 or 3")
}

// laterFields returns the fields of metadata that a later format version introduced, with this
// version. In metadata of an older version, such a field has no meaning: Iceberg's Java library
// ignores it, but iceberg-go 0.7.0 refuses the table.
func laterFields() map[string]int { return map[string]int{"last-sequence-number": 2, nextRowID: 3} }

// nextRowID is the name of the metadata field that has the next free row id.
const nextRowID = "next-row-id"

// With returns a copy of m with another text of the metadata, which it parses.
func (m *Loaded) With(text []byte) (*Loaded, error) {
	if err := m.File.ChargeParsing(text); err != nil {
		return nil, err
	}
	out := *m
	out.Text = text
	if err := out.parseText(); err != nil {
		return nil, fault.New(fault.Internal, "the new metadata of table %s cannot be read back: %w", m.Name, err).In(m.Name, m.File.Location)
	}
	return &out, nil
}

// parseAgain parses metadata that iceberg-go refused. It first removes the fields of later versions
// and the unknown refs and types, and adds a next row id if that is missing. If there is nothing to
// remove or add, it returns the error with which the metadata was refused.
func (m *Loaded) parseAgain(refused error) error {
	// Decoding copies the fields, and encoding copies them again.
	if err := m.File.Charge(2 * int64(len(m.Text))); err != nil {
		return err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(m.Text, &fields); err != nil {
		return err
	}
	var version int
	if err := json.Unmarshal(fields[versionField], &version); err != nil {
		return err
	}
	before := len(fields)
	for name, since := range laterFields() {
		if version < since {
			delete(fields, name)
		}
	}
	if next, ok := fields[nextRowID]; version == LineageVersion && (!ok || string(next) == "null") {
		m.noRowIDs = string(fields["last-sequence-number"]) != "0" // if it is 0, the table has no commits, and no row has an id
		fields[nextRowID], before = json.RawMessage("0"), -1
	}
	unknown, err := m.later.remove(fields, m.File)
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err // the error of the memory budget
	}
	if err != nil || !unknown && len(fields) == before {
		return refused
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	if err := m.File.ChargeParsing(text); err != nil {
		return err
	}
	m.Metadata, err = icetable.ParseMetadataBytes(text)
	return err
}

// HasLineage reports whether rows of the table have ids.
func (m *Loaded) HasLineage() bool { return m.Version() >= LineageVersion && !m.noRowIDs }

// Changeable returns an error if no snapshot can be added to the table, because some of its types
// or its next row id are not known.
func (m *Loaded) Changeable() error {
	if err := m.KnowsTypes(); err != nil {
		return err
	}
	if !m.noRowIDs {
		return nil
	}
	return m.Unserved("its metadata of format version 3 has no "+nextRowID+", so new rows cannot be given ids",
		"write it with an engine that sets the field, or create the table again")
}

// metadataPlace has the catalog's response to the question where the metadata of a table is.
type metadataPlace struct {
	locator.Located
	of   locator.Table
	file metafile.Allowance
}

// locate asks the catalog where the metadata of a table is. If the catalog returns the metadata,
// its memory is charged to held.
func (s *Source) locate(ctx context.Context, name string, held *budget.Reservation) (metadataPlace, error) {
	parts, err := catalog.Parts(name)
	if err != nil {
		return metadataPlace{}, err
	}
	file := s.Allow(metafile.Subject{What: "metadata", Table: name}, held)
	of := locator.Table{Name: name, Parts: parts, Most: s.Most, Charge: file.Charge}
	at, known, err := s.expected(ctx, name)
	if !known && err == nil {
		at, err = s.ask(ctx, of)
	}
	return metadataPlace{Located: at, of: of, file: file}, err
}

// metadata returns the text of a table's metadata.
func (s *Source) metadata(ctx context.Context, name string, held *budget.Reservation) (*Loaded, []locator.Grant, error) {
	at, err := s.locate(ctx, name, held)
	if err != nil {
		return nil, nil, err
	}
	return s.metadataAt(ctx, at)
}

// metadataAt returns the text of a table's metadata, from the catalog's response or from the
// metadata file that the response names. Writers may remove old metadata files. So if the file is
// missing, metadataAt asks the catalog again; it is an error only if the catalog still names the
// same file.
func (s *Source) metadataAt(ctx context.Context, of metadataPlace) (_ *Loaded, _ []locator.Grant, err error) {
	at, file, name := of.Located, of.file, of.of.Name
	for err == nil {
		file.Location = at.Location
		if at.Text != nil {
			return &Loaded{Name: name, File: file, Text: at.Text, Returned: true}, at.Grants, nil
		}
		var text []byte
		text, err = s.metadataFile(ctx, file)
		if fault.KindOf(err) != fault.Corrupt {
			return &Loaded{Name: name, File: file, Text: text}, at.Grants, err
		}
		now, again := s.ask(ctx, of.of)
		if again == nil && now.Location == at.Location {
			return nil, nil, err
		}
		at, err = now, again
	}
	return nil, nil, err
}

// metadataFile reads a metadata file and unpacks it.
func (s *Source) metadataFile(ctx context.Context, file metafile.Allowance) ([]byte, error) {
	content, err := s.metadataContent(ctx, file)
	if err != nil {
		return nil, err
	}
	text, err := file.Text(content)
	if _, ok := errors.AsType[*fault.Error](err); err != nil && !ok {
		return nil, s.OrForget(metadataKey(file), metafile.Corrupt(file.Table, file.Location, "metadata of table %s cannot be unpacked: %w", file.Table, err))
	}
	return text, err
}

// Read returns the stored content of a metadata file. Errors that occur after Read are about the
// content, and no longer about the storage.
func (s *Source) Read(ctx context.Context, from tablestore.Opener, file metafile.Allowance) ([]byte, error) {
	content, err := s.readFile(ctx, from, file)
	if err == nil {
		return content, nil
	}
	if _, ok := errors.AsType[*fault.Error](err); !ok {
		return nil, err // the error of the context
	}
	return nil, fault.As(fault.Op(err, "read table %s", file.Table)).In(file.Table, file.Location)
}

func (s *Source) readFile(ctx context.Context, from tablestore.Opener, file metafile.Allowance) (content []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	object, err := from.Open(ctx, file.Location, store.SizeUnknown)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, object.Close()) }()
	if err := file.Fits(object.Size(), "as stored"); err != nil {
		return nil, err
	}
	if err := file.Charge(object.Size()); err != nil {
		return nil, err
	}
	content = make([]byte, object.Size())
	return content, file.Held.Lend(content, func(p *memory.Buffer) error { return object.ReadAt(ctx, p, 0) })
}

// SchemaByID returns a schema of the table, or false.
func (m *Loaded) SchemaByID(id int) (*iceberg.Schema, bool) {
	for _, s := range m.Schemas() {
		if s.ID == id {
			return s, true
		}
	}
	return nil, false
}
