package metadata

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat/column"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
	"github.com/penstock/penstock/loader/dataset"
)

// The table properties that are read.
const (
	nameMappingProperty   = "schema.name-mapping.default"
	encryptionKeyProperty = "encryption.key-id"
)

// Fields returns the columns with the given field ids. The name of a nested column is its path.
func (m *Loaded) Fields(schema *iceberg.Schema, ids []int) ([]iceberg.NestedField, error) {
	all := column.All(schema)
	if m.HasLineage() {
		for _, f := range catalog.LineageFields() {
			all = append(all, iceberg.NestedField{ID: f.ID, Name: f.Name, Type: iceberg.PrimitiveTypes.Int64})
		}
	}
	index := make(map[int]int, len(all)) // the position of each field id in all; tables may have 100,000 columns
	for i, f := range all {
		index[f.ID] = i
	}
	out := make([]iceberg.NestedField, len(ids))
	for i, id := range ids {
		at, found := index[id]
		if !found {
			return nil, fault.New(fault.Invalid, "table %s has no column with field id %d", m.Name, id).In(m.Name, "")
		}
		out[i] = all[at]
	}
	return out, nil
}

// Servable returns an error if the table's properties do not allow reading it.
func (m *Loaded) Servable() error {
	properties := m.Properties()
	if _, ok := properties[encryptionKeyProperty]; ok {
		return m.Unserved("it is encrypted (property "+encryptionKeyProperty+")", "read a copy that is not encrypted")
	}
	return nil
}

// Table pins the current state of a ref. The zero Ref is main. If the table has no snapshots, main
// is pinned at NoSnapshot. A branch is pinned with the table's current schema, and a tag or a
// snapshot with the schema with which the snapshot was committed.
func (s *Source) Table(ctx context.Context, name string, ref dataset.Ref) (*catalog.Table, error) {
	return s.pinned(ctx, tableOf{name: name, ref: ref}, func(meta *Loaded) (dataset.TablePin, error) {
		pin, err := meta.Resolve(ref)
		if err != nil {
			return pin, err
		}
		_, schema, err := meta.Check(pin)
		if err != nil {
			return pin, err
		}
		return meta.Mapped(pin, schema)
	})
}

// isTag reports whether a ref of the table is a tag.
func (m *Loaded) isTag(name string) bool {
	for ref, to := range m.Refs() {
		if ref == name {
			return to.SnapshotRefType == icetable.TagRef
		}
	}
	return false
}

// At opens a state that was pinned before. It returns Expired if the snapshot, the schema or
// the table no longer exists, or NotFound if there is no table of that name.
func (s *Source) At(ctx context.Context, name string, pin dataset.TablePin) (*catalog.Table, error) {
	return s.pinned(ctx, tableOf{name: name, pin: pin}, func(*Loaded) (dataset.TablePin, error) { return pin, nil })
}

// Resolve returns the pin of the current state of a ref, without a name mapping.
func (m *Loaded) Resolve(ref dataset.Ref) (dataset.TablePin, error) {
	pin := dataset.TablePin{UUID: m.TableUUID().String(), Snapshot: dataset.NoSnapshot, Schema: m.CurrentSchema().ID}
	if ref.Snapshot != 0 {
		snapshot := m.SnapshotByID(ref.Snapshot)
		if snapshot == nil {
			return pin, catalog.UnknownSnapshot(m.Name, ref.Snapshot, m.SnapshotTimes())
		}
		pin.Snapshot, pin.Schema = ref.Snapshot, m.schemaOf(snapshot, pin.Schema)
		return pin, nil
	}
	refs := maps.Collect(m.Refs())
	name := cmp.Or(ref.Name, icetable.MainBranch)
	if err := m.UnknownRef(name); err != nil {
		return pin, err
	}
	named, ok := refs[name]
	if !ok && name == icetable.MainBranch {
		return pin, nil
	}
	if !ok {
		return pin, catalog.UnknownRef(m.Name, name, slices.Sorted(maps.Keys(refs)))
	}
	snapshot := m.SnapshotByID(named.SnapshotID)
	if snapshot == nil {
		return pin, metafile.Corrupt(m.Name, m.File.Location, "%s of table %s points to snapshot %d, which does not exist",
			name, m.Name, named.SnapshotID)
	}
	pin.Snapshot = named.SnapshotID
	if named.SnapshotRefType == icetable.TagRef {
		pin.Schema = m.schemaOf(snapshot, pin.Schema)
	}
	return pin, nil
}

// schemaOf returns the id of the schema with which a snapshot was committed. If the writer did not
// record it, schemaOf returns current, like other engines.
func (m *Loaded) schemaOf(s *icetable.Snapshot, current int) int {
	if s.SchemaID == nil {
		return current
	}
	return *s.SchemaID
}

// SnapshotTimes returns the ids and times of all snapshots.
func (m *Loaded) SnapshotTimes() []catalog.SnapshotTime {
	snapshots := m.Snapshots()
	out := make([]catalog.SnapshotTime, len(snapshots))
	for i, s := range snapshots {
		out[i] = catalog.SnapshotTime{ID: s.SnapshotID, Time: time.UnixMilli(s.TimestampMs)}
	}
	return out
}

// Check returns the snapshot and the schema of a pin, or an error if one of them no longer exists.
// The snapshot is nil if the pin is of an empty table.
func (m *Loaded) Check(pin dataset.TablePin) (*icetable.Snapshot, *iceberg.Schema, error) {
	if uuid := m.TableUUID().String(); uuid != pin.UUID {
		return nil, nil, catalog.RecreatedTable(m.Name, pin.UUID, uuid)
	}
	schemas := m.Schemas()
	i := slices.IndexFunc(schemas, func(s *iceberg.Schema) bool { return s.ID == pin.Schema })
	if pin.Snapshot == dataset.NoSnapshot {
		if i < 0 {
			return nil, nil, catalog.ExpiredSchema(m.Name, pin.Schema)
		}
		return nil, schemas[i], nil
	}
	snapshot := m.SnapshotByID(pin.Snapshot)
	if snapshot == nil {
		return nil, nil, catalog.ExpiredSnapshot(m.Name, pin.Snapshot)
	}
	if i < 0 {
		return nil, nil, catalog.ExpiredSchema(m.Name, pin.Schema)
	}
	return snapshot, schemas[i], nil
}

// TableAt returns the table at a pin, from the metadata m. It returns the errors of Check.
func (s *Source) TableAt(ctx context.Context, m *Loaded, pin dataset.TablePin) (*catalog.Table, error) {
	_, schema, err := m.Check(pin)
	if err != nil {
		return nil, err
	}
	mapping, err := s.mapping(ctx, m, pin, schema)
	if err != nil {
		return nil, err
	}
	defaults, err := column.Defaults(m.File, m.Text, schema)
	if err != nil {
		return nil, err
	}
	specs := make(map[int]catalog.Spec)
	for _, spec := range m.PartitionSpecs() {
		specs[spec.ID()] = convertSpec(spec)
	}
	var lineage []catalog.Field
	if m.HasLineage() {
		lineage = catalog.LineageFields()
	}
	return &catalog.Table{
		Name: m.Name, Location: m.Location(), Pin: pin, Fields: column.Convert(schema.Fields()), Nested: column.Convert(column.Nested(schema)),
		Specs: specs, SortOrders: convertOrders(m.SortOrders()), Defaults: defaults, Mapping: mapping, Lineage: lineage,
		OtherNames: m.otherNames(schema), Origins: origins(schema), Statistics: catalog.LastKept(m.KeptStatistics()),
	}, nil
}

// origins returns the origins of those columns of a schema that promotions made, by field id.
func origins(schema *iceberg.Schema) map[int]dataset.ColumnOrigin {
	var out map[int]dataset.ColumnOrigin
	for _, f := range schema.Fields() {
		if o, ok := dataset.OriginOf(f.Doc); ok {
			if out == nil {
				out = map[int]dataset.ColumnOrigin{}
			}
			out[f.ID] = o
		}
	}
	return out
}

// otherNames returns the top-level columns of the table's other schemas that the pinned schema does
// not have with the same name and id. To be fast, it first compares columns at the same position,
// because the schemas of a table mostly have the same columns at the same positions.
func (m *Loaded) otherNames(pinned *iceberg.Schema) []catalog.OtherName {
	var out []catalog.OtherName
	var seen map[catalog.OtherName]bool // without Current
	current := m.CurrentSchema()
	for _, schema := range append([]*iceberg.Schema{current}, m.Schemas()...) { // the current schema first, so that Current is set for its columns
		if schema.ID == pinned.ID {
			continue
		}
		for i, f := range schema.Fields() {
			if i < pinned.NumFields() && pinned.Field(i).ID == f.ID && pinned.Field(i).Name == f.Name {
				continue
			}
			if seen == nil {
				seen = map[catalog.OtherName]bool{}
				for _, p := range pinned.Fields() {
					seen[catalog.OtherName{ID: p.ID, Name: p.Name}] = true
				}
			}
			if one := (catalog.OtherName{ID: f.ID, Name: f.Name}); !seen[one] {
				seen[one] = true
				o, _ := dataset.OriginOf(f.Doc)
				one.Current, one.Entry, one.Table = schema.ID == current.ID, o.Entry, o.Table
				out = append(out, one)
			}
		}
	}
	return out
}

// LineageVersion is the first format version with row ids.
const LineageVersion = 3

// convertOrders converts sort orders. It leaves out the order of unsorted tables.
func convertOrders(orders []icetable.SortOrder) map[int]catalog.SortOrder {
	var out map[int]catalog.SortOrder
	for _, order := range orders {
		var fields catalog.SortOrder
		for _, f := range order.Fields() {
			transform, ok := kindOf(f.Transform)
			if !ok || len(f.SourceIDs) != 1 {
				transform = catalog.Transform{Kind: catalog.Other}
			}
			fields = append(fields, catalog.SortField{
				Source: f.SourceID(), Transform: transform,
				Descending: f.Direction == icetable.SortDESC, NullsFirst: f.NullOrder == icetable.NullsFirst,
			})
		}
		if len(fields) > 0 && out == nil {
			out = map[int]catalog.SortOrder{}
		}
		if len(fields) > 0 {
			out[order.OrderID()] = fields
		}
	}
	return out
}

// convertSpec converts a partition spec, without void fields.
func convertSpec(spec iceberg.PartitionSpec) catalog.Spec {
	var out catalog.Spec
	for _, f := range spec.Fields() {
		if t, ok := ConvertTransform(f); ok {
			out = append(out, catalog.PartitionField{ID: f.FieldID, Source: f.SourceID(), Name: f.Name, Transform: t})
		}
	}
	return out
}

// ConvertTransform converts the transform of a partition field. It returns false for void. A
// transform of several columns becomes Other.
func ConvertTransform(f iceberg.PartitionField) (catalog.Transform, bool) {
	if len(f.SourceIDs) > 1 {
		return catalog.Transform{Kind: catalog.Other}, true
	}
	return kindOf(f.Transform)
}

func kindOf(transform iceberg.Transform) (catalog.Transform, bool) {
	switch t := transform.(type) {
	case iceberg.VoidTransform:
		return catalog.Transform{}, false
	case iceberg.IdentityTransform:
		return catalog.Transform{Kind: catalog.Identity}, true
	case iceberg.BucketTransform:
		return catalog.Transform{Kind: catalog.Bucket, N: t.NumBuckets}, true
	case iceberg.TruncateTransform:
		return catalog.Transform{Kind: catalog.Truncate, N: t.Width}, true
	case iceberg.YearTransform:
		return catalog.Transform{Kind: catalog.Year}, true
	case iceberg.MonthTransform:
		return catalog.Transform{Kind: catalog.Month}, true
	case iceberg.DayTransform:
		return catalog.Transform{Kind: catalog.Day}, true
	case iceberg.HourTransform:
		return catalog.Transform{Kind: catalog.Hour}, true
	default:
		return catalog.Transform{Kind: catalog.Other}, true
	}
}

// Unserved returns the error for a table that this version does not support.
func (m *Loaded) Unserved(what, remedy string) error {
	return fault.New(fault.Invalid, "table %s: %s: not supported by this version", m.Name, what).
		In(m.Name, m.File.Location).WithRemedy("%s", remedy)
}
