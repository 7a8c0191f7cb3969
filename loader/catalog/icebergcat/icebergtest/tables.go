package icebergtest

import (
	"context"
	"database/sql"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/dataset"
)

// Events is the table of most tests.
const Events = "ml.events"

// FormatVersion sets the format version of a new table.
func FormatVersion(n string) icecatalog.CreateTableOpt {
	return icecatalog.WithProperties(iceberg.Properties{icetable.PropertyFormatVersion: n})
}

// List opens main of a table and lists its files, with the given columns to read.
func List(t *testing.T, c *icebergcat.Catalog, columns ...int) ([]catalog.File, error) {
	t.Helper()
	table, err := c.Table(t.Context(), Events, dataset.Ref{})
	require.NoError(t, err)
	return c.Files(t.Context(), table, columns, nil)
}

// DeleteFile builds a delete file with a partition spec.
func DeleteFile(t *testing.T, spec iceberg.PartitionSpec, content iceberg.ManifestEntryContent, format iceberg.FileFormat) iceberg.DataFile {
	t.Helper()
	b, err := iceberg.NewDataFileBuilder(spec, content, Location("deletes"), format, nil, nil, nil, 1, 100)
	require.NoError(t, err)
	switch {
	case content == iceberg.EntryContentEqDeletes:
		b.EqualityFieldIDs([]int{1})
	case format == iceberg.PuffinFile:
		b.ReferencedDataFile(Location("a")).ContentOffset(4).ContentSizeInBytes(40)
	}
	return b.Build()
}

// Field returns an optional column.
func Field(id int, name string, typ iceberg.Type) iceberg.NestedField {
	return iceberg.NestedField{ID: id, Name: name, Type: typ}
}

// StructOf returns a struct.
func StructOf(fields ...iceberg.NestedField) iceberg.Type {
	return &iceberg.StructType{FieldList: fields}
}

// ListOf returns a list.
func ListOf(id int, element iceberg.Type) iceberg.Type {
	return &iceberg.ListType{ElementID: id, Element: element}
}

// NestedSchema returns a schema with structs, lists and required fields. Its column user.in.KEY,
// inside two structs, has the given name and type.
func NestedSchema(key string, typ iceberg.Type) *iceberg.Schema {
	required := func(f iceberg.NestedField) iceberg.NestedField {
		f.Required = true
		return f
	}
	return iceberg.NewSchema(0,
		IDSchema().Field(0),
		Field(2, "user", StructOf(
			required(Field(3, "n", iceberg.PrimitiveTypes.Int32)),
			required(Field(4, "in", StructOf(required(Field(5, key, typ)), Field(6, "tags", ListOf(7, typ)))))),
		),
		required(Field(8, "day", StructOf(required(Field(9, "at", iceberg.PrimitiveTypes.Date))))),
		Field(10, "pairs", ListOf(11, StructOf(Field(12, "x", typ)))),
	)
}

// Execute runs SQL statements on a SQLite file. It leaves the journal mode as SQLite chooses it,
// like PyIceberg and Spark.
func Execute(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: "_pragma=synchronous(OFF)"}).String())
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	for _, s := range statements {
		_, err := db.ExecContext(t.Context(), s)
		require.NoError(t, err, s)
	}
}

// LegacyTables returns the statements that create the tables of a catalog without the column
// iceberg_type.
func LegacyTables() []string {
	return []string{
		`CREATE TABLE iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL,
			table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000),
			PRIMARY KEY (catalog_name, table_namespace, table_name))`,
		`CREATE TABLE iceberg_namespace_properties (catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL,
			property_key VARCHAR(255) NOT NULL, property_value VARCHAR(1000) NOT NULL,
			PRIMARY KEY (catalog_name, namespace, property_key))`,
	}
}

// IDSchema returns a schema with one column: id, a required long.
func IDSchema() *iceberg.Schema {
	return iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64, Required: true})
}

// SetMapping sets the table property with the name mapping, as other programs write it.
func (w *Writer) SetMapping(t *testing.T, text string) {
	t.Helper()
	w.Update(t, Events, icetable.NewSetPropertiesUpdate(iceberg.Properties{icetable.DefaultNameMappingKey: text}))
}

// MappedTable makes a table with a struct, a list and a map.
func MappedTable(t *testing.T) *Writer {
	t.Helper()
	w := NewWriter(t)
	long := iceberg.PrimitiveTypes.Int64
	w.Create(t, Events, iceberg.NewSchema(0, Field(1, "id", long), Field(2, "user", StructOf(Field(3, "n", long))),
		Field(4, "tags", ListOf(5, long)),
		Field(6, "pairs", &iceberg.MapType{KeyID: 7, KeyType: long, ValueID: 8, ValueType: long})))
	return w
}

// Name mappings of MappedTable.
const (
	OwnNames = `[{"field-id":1,"names":["id"]},{"field-id":2,"names":["user"],"fields":[{"field-id":3,"names":["n"]}]},
		{"field-id":4,"names":["tags"],"fields":[{"field-id":5,"names":["element"]}]},
		{"field-id":6,"names":["pairs"],"fields":[{"field-id":7,"names":["key"]},{"field-id":8,"names":["value"]}]}]`
	// OtherNames maps fewer columns to the same field ids, and has earlier names of these columns.
	// It also has entries that change nothing: a field id that the table does not have, and a name
	// without a field id.
	OtherNames = `[{"field-id":99,"names":["id"]},{"names":["gone"],"fields":[{"names":["x"]}]},
		{"field-id":4,"names":["labels","tags"],"fields":[{"field-id":5,"names":["element"]}]},
		{"field-id":1,"names":["ID","id_","ID"]}]`
	// OtherAgain is OtherNames in another order.
	OtherAgain = `[{"names":["id_","ID"],"field-id":1},{"fields":[{"field-id":5,"names":["element"]}],"field-id":4,"names":["tags","labels"]}]`
)

// CatalogFile writes the SQLite file of a catalog with one table, in the given journal mode.
func CatalogFile(t *testing.T, path, mode, metadata string) {
	t.Helper()
	query := url.Values{"_pragma": {"journal_mode(" + mode + ")", "synchronous(OFF)"}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String())
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	insert := `INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location)
		VALUES ('default', 'ml', 'events', '` + metadata + `')`
	for _, s := range append(LegacyTables(), insert) {
		_, err := db.ExecContext(t.Context(), s)
		require.NoError(t, err, s)
	}
	require.NoError(t, db.Close())
}

// Appends makes a table with n appends of one file each. It returns the table's partition spec and
// the ids of the snapshots.
func Appends(t *testing.T, w *Writer, n int) (spec iceberg.PartitionSpec, ids []int64) {
	t.Helper()
	spec = w.Create(t, Events, IDSchema()).Spec()
	for i := range n {
		ids = append(ids, w.Add(t, Events, "", DataFile(t, spec, Location(strconv.Itoa(i)), nil, nil)))
	}
	return spec, ids
}

// Since returns the names of the files that were appended after a snapshot. In tables of Appends,
// the names are numbers.
func Since(t *testing.T, c catalog.Catalog, id int64) ([]string, error) {
	t.Helper()
	table, err := c.Table(t.Context(), Events, dataset.Ref{})
	require.NoError(t, err)
	files, err := c.Appended(t.Context(), table, id, []int{1}, nil)
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(f.Location, "/warehouse/"), ".parquet"))
	}
	return names, err
}

// Opens is a store that records the locations of the files that were opened.
type Opens struct {
	store.Store
	mu    sync.Mutex
	Files []string
}

// Open records a location, and opens the file.
func (o *Opens) Open(ctx context.Context, location string, size int64) (store.Object, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.Files = append(o.Files, location)
	return o.Store.Open(ctx, location, size)
}
