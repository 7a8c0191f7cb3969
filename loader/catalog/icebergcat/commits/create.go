package commits

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
	"github.com/penstock/penstock/loader/catalog/icebergcat/revision"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// MayCreate checks a new table, so that errors occur before its rows are read. See
// commit.Committer.
func (w *TableWriter) MayCreate(table commit.NewTable) (folder string, err error) {
	if err := w.MayWrite(table.Table); err != nil {
		return "", err
	}
	folder, err = w.mayCreate(table)
	return folder, fault.Op(err, "create table %s", table.Table)
}

func (w *TableWriter) mayCreate(table commit.NewTable) (folder string, err error) {
	of, form, err := defined(table)
	if err != nil {
		return "", err
	}
	if _, ours := w.source.Locator.(locator.Swapper); !ours { // other catalogs choose the location themselves
		return "", nil
	}
	return w.newLocation(of, form.table.Location)
}

// defined checks a new table. It returns the table for the locator, and its tableForm.
func defined(table commit.NewTable) (locator.Table, *tableForm, error) {
	parts, err := catalog.Parts(table.Table)
	if err != nil {
		return locator.Table{}, nil, err
	}
	form, err := newForm(table)
	return locator.Table{Name: table.Table, Parts: parts}, form, err
}

// Create creates a table without snapshots. See commit.Committer.
func (w *TableWriter) Create(ctx context.Context, table commit.NewTable) error {
	if err := w.MayWrite(table.Table); err != nil {
		return err
	}
	err := w.create(ctx, table)
	return fault.Op(err, "create table %s", table.Table)
}

func (w *TableWriter) create(ctx context.Context, table commit.NewTable) error {
	ctx, cancel := context.WithTimeout(ctx, commitLimit)
	defer cancel()
	of, form, err := defined(table)
	if err != nil {
		return err
	}
	held := w.source.Hold(table.Table)
	defer held.Release()
	of.Most, of.Charge = w.source.Most, held.Grow
	var outcome locator.Outcome
	switch tables := w.source.Locator.(type) {
	case locator.Updater:
		request, encoding := form.request(of.Parts[len(of.Parts)-1], table.Location)
		if encoding != nil {
			return encoding
		}
		outcome, err = tables.Create(ctx, of, request)
	case locator.Swapper:
		outcome, err = w.insert(ctx, tables, of, form, held)
	default:
		return unwritable(table.Table)
	}
	switch {
	case outcome == locator.Lost:
		return fault.New(fault.Conflict, "table %s already exists", table.Table).In(table.Table, "").WithRemedy("use the table, or choose another name")
	case outcome == locator.Unknown && err != nil:
		return commit.AsUncertain(err)
	}
	return err
}

// newCopies is the number of copies of a new table's metadata that are charged: the content of the
// file, and two copies for parsing it.
const newCopies = 3

// insert writes the metadata file of a new table, and records its location.
func (w *TableWriter) insert(ctx context.Context, tables locator.Swapper, of locator.Table, form *tableForm, held *budget.Reservation) (locator.Outcome, error) {
	to, content, err := w.newMetadata(of, form, func(string) uuid.UUID { return uuid.New() }, held)
	if err != nil {
		return locator.Refused, err
	}
	file := w.source.Allow(metafile.Subject{What: "metadata", Table: of.Name, Location: to}, held)
	return File(ctx, w.source, file, content, func() (locator.Outcome, error) { return tables.Insert(ctx, of, to) })
}

// newMetadata returns the location and the content of the first metadata file of a new table. The
// function id returns the table's uuid, given its folder.
func (w *TableWriter) newMetadata(of locator.Table, form *tableForm, id func(folder string) uuid.UUID, held *budget.Reservation) (to string, content []byte, err error) {
	location, err := w.newLocation(of, form.table.Location)
	if err != nil {
		return "", nil, err
	}
	if content, err = form.metadata(location, id(location), w.source.Now()); err != nil {
		return "", nil, err
	}
	if err := held.Grow(newCopies * int64(len(content))); err != nil {
		return "", nil, err
	}
	if _, err := icetable.ParseMetadataBytes(content); err != nil {
		return "", nil, fault.InvalidField("table", "table %s cannot be created like this: %s", of.Name, err).In(of.Name, "")
	}
	return location + "/" + metadata.Folder + "/00000-" + commit.MetadataID() + metafile.Suffix(""), content, nil
}

// unsaved returns the metadata, without snapshots, of a new table that the catalog does not have
// yet. The uuid of the table is computed from its folder and the token of the change. If the
// process ends before the catalog has the table, and the call is repeated with the token, the table
// has the same uuid. So the files that the first call left in the folder are recognized as files of
// this table.
func (w *TableWriter) unsaved(table commit.NewTable, token string, held *budget.Reservation) (*metadata.Loaded, error) {
	of, form, err := defined(table)
	if err != nil {
		return nil, err
	}
	if _, ours := w.source.Locator.(locator.Swapper); !ours {
		return nil, fault.New(fault.Internal, "the catalog of table %s creates no table with its first snapshot", table.Table).In(table.Table, "")
	}
	id := func(folder string) uuid.UUID {
		if token == "" {
			return uuid.New()
		}
		return uuid.NewSHA1(uuid.NameSpaceURL, []byte(folder+"\x00"+token))
	}
	to, content, err := w.newMetadata(of, form, id, held)
	if err != nil {
		return nil, err
	}
	return w.source.Unsaved(table.Table, to, content, held)
}

// newLocation returns the folder of a new table: the given location, or else a folder below the
// catalog's warehouse. For two different names, the folders below the warehouse are never the same,
// and never inside each other, because programs that remove the orphan files of a table consider
// all files in its folder.
func (w *TableWriter) newLocation(of locator.Table, given string) (string, error) {
	if given == "" && w.warehouse == "" {
		return "", fault.InvalidField("location", "table %s has no location, and the catalog has no warehouse to put it into", of.Name).In(of.Name, "").
			WithRemedy("set warehouse in the catalog's block, or name the table's location")
	}
	if given == "" && slices.ContainsFunc(of.Parts, func(part string) bool { return strings.Contains(part, "/") }) {
		return "", fault.InvalidField("table", "table %s has a slash in its name, so its folder may be that of another table, or inside it", of.Name).In(of.Name, "").
			WithRemedy("choose a name without slashes")
	}
	last := len(of.Parts) - 1
	usual := strings.TrimRight(w.warehouse, "/") + "/" + strings.Join(of.Parts[:last], ".") + "/" + of.Parts[last] // PyIceberg's layout
	location := strings.TrimRight(cmp.Or(given, usual), "/")
	if w.source.Prefixes.Contain(location + "/") {
		return location, nil
	}
	return "", fault.New(fault.Forbidden, "the location %s of table %s is not under the catalog's warehouse or allowed_prefixes", location, of.Name).In(of.Name, "").
		WithRemedy("name a location below them, or list its folder in allowed_prefixes of the catalog's block")
}

// tableForm is a new table in the form that metadata files and requests use.
type tableForm struct {
	table     commit.NewTable
	schema    schemaForm
	spec      []partitionForm
	sort      []sortForm
	highestID int
}

type schemaForm struct {
	Type   string            `json:"type"`
	ID     int               `json:"schema-id"`
	Fields []json.RawMessage `json:"fields"`
}

type partitionForm struct {
	Source    int    `json:"source-id"`
	Field     int    `json:"field-id"`
	Name      string `json:"name"`
	Transform string `json:"transform"`
}

type sortForm struct {
	Transform string `json:"transform"`
	Source    int    `json:"source-id"`
	Direction string `json:"direction"`
	Nulls     string `json:"null-order"`
}

// The id of the first partition field, and the default format version.
const (
	firstPartitionID = 1000
	defaultVersion   = 2
)

// newForm checks a new table, and returns its tableForm.
func newForm(table commit.NewTable) (*tableForm, error) {
	table.Version = cmp.Or(table.Version, defaultVersion)
	if table.Version < 1 || table.Version > metadata.LineageVersion {
		return nil, fault.InvalidField("version", "format version %d is not supported by this version", table.Version).WithRemedy("use format version 1, 2 or 3")
	}
	out := &tableForm{table: table, schema: schemaForm{Type: "struct", Fields: []json.RawMessage{}}, spec: []partitionForm{}}
	for _, column := range table.Columns {
		field, err := revision.EncodeColumn(column)
		if err != nil {
			return nil, err
		}
		out.schema.Fields = append(out.schema.Fields, field)
	}
	text, err := json.Marshal(out.schema)
	if err != nil {
		return nil, err
	}
	schema := &iceberg.Schema{}
	if err := json.Unmarshal(text, schema); err != nil {
		return nil, fault.InvalidField("columns", "the columns of table %s are no Iceberg columns: %s", table.Table, err).In(table.Table, "")
	}
	out.highestID = schema.HighestFieldID()
	for i, p := range table.Partition {
		if err := applies(schema, "partition", p.Transform, p.Column); err != nil {
			return nil, err.In(table.Table, "")
		}
		out.spec = append(out.spec, partitionForm{Source: p.Column, Field: firstPartitionID + i, Name: p.Name, Transform: p.Transform})
	}
	for _, s := range table.Sort {
		s.Transform = cmp.Or(s.Transform, string(catalog.Identity))
		if err := applies(schema, "sort", s.Transform, s.Column); err != nil {
			return nil, err.In(table.Table, "")
		}
		out.sort = append(out.sort, sortForm{
			Source: s.Column, Transform: s.Transform, Direction: map[bool]string{true: "desc", false: "asc"}[s.Descending],
			Nulls: map[bool]string{true: "nulls-last", false: "nulls-first"}[s.NullsLast],
		})
	}
	return out, nil
}

// applies returns an error if the transform is unknown or cannot be applied to the column.
func applies(schema *iceberg.Schema, field, transform string, column int) *fault.Error {
	f, known := schema.FindFieldByID(column)
	if !known {
		return fault.InvalidField(field, "the table has no column with field id %d", column)
	}
	parsed, err := iceberg.ParseTransform(transform)
	if _, unknown := parsed.(iceberg.UnknownTransform); err != nil || unknown || !parsed.CanTransform(f.Type) {
		return fault.InvalidField(field, "column %q of type %s has no transform %q", f.Name, f.Type, transform).
			WithRemedy("write one such as identity, bucket[16], truncate[4], year, month, day or hour")
	}
	return nil
}

// metadata returns the content of the metadata file of the new table.
func (f *tableForm) metadata(location string, id uuid.UUID, now time.Time) ([]byte, error) {
	order := func(id int, fields []sortForm) map[string]any {
		return map[string]any{"order-id": id, "fields": fields}
	}
	orders, current := []any{order(0, []sortForm{})}, 0
	if len(f.sort) > 0 {
		orders, current = append(orders, order(1, f.sort)), 1
	}
	out := map[string]any{
		"format-version": f.table.Version, "table-uuid": id.String(), "location": location,
		"last-updated-ms": max(now.UnixMilli(), 0), "last-column-id": f.highestID,
		"schemas": []any{f.schema}, "current-schema-id": 0,
		"partition-specs": []any{map[string]any{"spec-id": 0, "fields": f.spec}}, "default-spec-id": 0,
		"last-partition-id": firstPartitionID - 1 + len(f.spec),
		"sort-orders":       orders, "default-sort-order-id": current,
		"properties": f.properties(), "snapshots": []any{}, "snapshot-log": []any{}, "metadata-log": []any{}, "refs": map[string]any{},
	}
	switch f.table.Version {
	case 1:
		out["schema"], out["partition-spec"] = f.schema, f.spec
	case metadata.LineageVersion:
		out["next-row-id"] = 0
		fallthrough
	default:
		out["last-sequence-number"] = 0
	}
	return json.Marshal(out)
}

func (f *tableForm) properties() map[string]string {
	if f.table.Properties == nil {
		return map[string]string{}
	}
	return f.table.Properties
}

// request returns the body of the request that creates the table in a REST catalog.
func (f *tableForm) request(name, location string) ([]byte, error) {
	properties := map[string]string{"format-version": strconv.Itoa(f.table.Version)}
	maps.Copy(properties, f.table.Properties)
	request := map[string]any{
		"name": name, "schema": f.schema, "partition-spec": map[string]any{"spec-id": 0, "fields": f.spec},
		"properties": properties, "stage-create": false,
	}
	if location != "" {
		request["location"] = location
	}
	if len(f.sort) > 0 {
		request["write-order"] = map[string]any{"order-id": 1, "fields": f.sort}
	}
	return json.Marshal(request)
}
