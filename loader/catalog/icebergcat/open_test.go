package icebergcat_test

import (
	"os"
	"path/filepath"
	"testing"

	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

// TestEveryTypeIsOpened: each described type has a function that opens its catalogs, and one that cannot be written to says so.
func TestEveryTypeIsOpened(t *testing.T) {
	for _, of := range dataset.CatalogTypes() {
		o := icebergcat.Options{
			Name: "default", Type: of.Name, Warehouse: t.TempDir(), Store: store.Local{}, WriteNamespaces: []string{"a"},
			AllowedPrefixes: icebergtest.Anywhere(),
		}
		one, err := icebergcat.Open(t.Context(), o)
		if one != nil {
			one.Close()
		}
		require.ErrorContains(t, err, map[bool]string{true: "writes: a catalog of type " + of.Name, false: "uri: "}[of.ReadOnly])
	}
}

// spec: catalog-8
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "text.db"), []byte("this is no database, but long enough to be read as one"), 0o600))
	icebergtest.Execute(t, filepath.Join(dir, "other.db"), `CREATE TABLE a (b INTEGER)`)
	missing := filepath.Join(dir, "none.db")
	good := icebergcat.Options{Name: "default", Type: "sql", URI: "sqlite:///catalog.db", BaseDir: dir, Store: store.Local{}}

	for _, c := range []struct {
		name   string
		change func(*icebergcat.Options)
		kind   fault.Kind
		text   string
	}{
		{"no name", func(o *icebergcat.Options) { o.Name = "" }, fault.Invalid, "name: the catalog has no name"},
		{
			"another type", func(o *icebergcat.Options) { o.Type = "nessie" }, fault.Invalid,
			`type: catalog type "nessie" is not supported by this version; did you mean rest? use one of: directory, rest, sql`,
		},
		{
			"hive", func(o *icebergcat.Options) { o.Type = "hive" }, fault.Invalid,
			`type: catalog type "hive" is not supported by this version; put an Iceberg REST catalog in front of it, and use type: rest`,
		},
		{
			"glue", func(o *icebergcat.Options) { o.Type = "glue" }, fault.Invalid,
			`use Glue's own Iceberg REST endpoint: type: rest, uri: https://glue.REGION.amazonaws.com/iceberg, warehouse: ACCOUNT, rest.sigv4-enabled: true`,
		},
		{
			"another database", func(o *icebergcat.Options) { o.URI = "mysql://u:p@h/db" }, fault.Invalid,
			`uri: a catalog on "mysql" is not supported by this version; write sqlite:////absolute/path, sqlite:///path relative to the config file, or postgresql://host/database with user and password`,
		},
		{"no uri", func(o *icebergcat.Options) { o.URI = "" }, fault.Invalid, `uri: a catalog on ""`},
		{"two slashes", func(o *icebergcat.Options) { o.URI = "sqlite://catalog.db" }, fault.Invalid, "names no file"},
		{"in memory", func(o *icebergcat.Options) { o.URI = "sqlite:///:memory:" }, fault.Invalid, "names no file"},
		{"no path", func(o *icebergcat.Options) { o.URI = "sqlite:///" }, fault.Invalid, "names no file"},
		{
			"parameters", func(o *icebergcat.Options) { o.URI = "sqlite:///catalog.db?timeout=3" }, fault.Invalid,
			"parameters of sqlite:///catalog.db?timeout=3 are not supported by this version",
		},
		{
			"another storage", func(o *icebergcat.Options) { o.Warehouse = "s3://bucket/path" }, fault.Invalid,
			`warehouse: storage scheme "s3" is not supported by this version`,
		},
		{
			"no file", func(o *icebergcat.Options) { o.URI = "sqlite:///none.db" }, fault.NotFound,
			"catalog default: there is no file " + missing,
		},
		{"a folder", func(o *icebergcat.Options) { o.URI = "sqlite:///" + dir }, fault.Invalid, dir + " is not a file"},
		{"no database", func(o *icebergcat.Options) { o.URI = "sqlite:///text.db" }, fault.Corrupt, "file is not a database"},
		{
			"no catalog", func(o *icebergcat.Options) { o.URI = "sqlite:///other.db" }, fault.Invalid,
			"other.db holds no Iceberg catalog: it has no table iceberg_tables",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := good
			c.change(&o)
			_, err := icebergcat.Open(t.Context(), o)
			require.ErrorContains(t, err, c.text)
			require.Equal(t, c.kind.String(), fault.KindOf(err).String())
		})
	}
	require.NoFileExists(t, missing, "a missing catalog is not made")
}

func TestOpenFindsTheFile(t *testing.T) {
	dir := t.TempDir()
	odd := filepath.Join(dir, "a #1 50% café.db")
	icebergtest.Execute(t, odd, icebergtest.LegacyTables()...)
	for _, o := range []icebergcat.Options{
		{URI: "sqlite:////" + odd[1:]},
		{URI: "sqlite:////" + odd[1:], BaseDir: "/nowhere"},
		{URI: "sqlite:///a #1 50% café.db", BaseDir: dir},
		{URI: "sqlite:///./a #1 50% café.db", BaseDir: filepath.Join(dir, "b", "..")},
		{URI: "sqlite:///" + filepath.Base(odd), BaseDir: dir, Warehouse: "file:///w"},
	} {
		o.Name, o.Type = "default", "sql"
		_, err := icebergcat.Open(t.Context(), o)
		require.NoError(t, err)
	}
}

// A catalog of PyIceberg has no column iceberg_type, and one of Spark has rows of type TABLE
// only for new tables; neither is changed.
func TestForeignCatalogs(t *testing.T) {
	w := icebergtest.NewWriter(t)
	w.Create(t, "ml.events", icebergtest.IDSchema())
	spec := w.Load(t, "ml.events").Spec()
	w.Add(t, "ml.events", "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, nil))
	metadata := w.Load(t, "ml.events").MetadataLocation()
	insert := func(columns, values string) string {
		return `INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location` + columns +
			`) VALUES ('default', 'ml', 'events', '` + metadata + `'` + values + `)`
	}
	addType := `ALTER TABLE iceberg_tables ADD COLUMN iceberg_type VARCHAR(5)`

	for name, statements := range map[string][]string{
		"without types":   {insert("", "")},
		"of type table":   {addType, insert(", iceberg_type", ", 'TABLE'")},
		"of unknown type": {addType, insert("", "")},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "catalog.db")
			icebergtest.Execute(t, path, append(icebergtest.LegacyTables(), statements...)...)
			before, err := os.ReadFile(path)
			require.NoError(t, err)

			o := w.Options()
			o.BaseDir = dir
			c, err := icebergcat.Open(t.Context(), o)
			require.NoError(t, err)
			table, err := c.Table(t.Context(), "ml.events", dataset.Ref{})
			require.NoError(t, err)
			files, err := c.Files(t.Context(), table, []int{1}, nil)
			require.NoError(t, err)
			require.Len(t, files, 1)
			_, err = c.Table(t.Context(), "ml.event", dataset.Ref{})
			require.ErrorContains(t, err, `did you mean "ml.events"?`)

			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, before, after)
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, 1, "nothing is left beside the file")
		})
	}
}

func TestUnknownTableSaysWhatTheFileHolds(t *testing.T) {
	w := icebergtest.NewWriter(t)
	o := w.Options()
	c, err := icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	_, err = c.Table(t.Context(), "ml.events", dataset.Ref{})
	require.ErrorContains(t, err, "catalog.db has no tables; check its uri")
	require.Equal(t, fault.NotFound, fault.KindOf(err))

	w.Create(t, "ml.events", icebergtest.IDSchema())
	for _, name := range []string{"prod", "a", "Default", "default "} {
		o.Name = name
		other, err := icebergcat.Open(t.Context(), o)
		require.NoError(t, err)
		_, err = other.Table(t.Context(), "ml.events", dataset.Ref{})
		require.ErrorContains(t, err, `holds no tables of a catalog called "`+name+`"; set name: to one of: default`)
		require.Equal(t, fault.NotFound, fault.KindOf(err))
	}
}

func TestViewsAreRefused(t *testing.T) {
	w := icebergtest.NewWriter(t)
	require.NoError(t, w.CreateNamespace(t.Context(), icebergtest.Ident("ml"), nil))
	require.NoError(t, w.CreateView(t.Context(), icebergtest.Ident("ml.recent"), icebergtest.IDSchema(), "SELECT 1 AS id", nil))
	_, err := w.Open(t).Table(t.Context(), "ml.recent", dataset.Ref{})
	require.EqualError(t, err, "ml.recent is a view, not a table; name a table: views are not served")
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

// Spark writes locations with one slash, other writers with three or none.
func TestLocations(t *testing.T) {
	for name, prefix := range map[string]string{"one slash": "file:", "three slashes": "file://", "plain": ""} {
		t.Run(name, func(t *testing.T) {
			w := icebergtest.NewWriter(t)
			w.Create(t, "ml.events", icebergtest.IDSchema(), icecatalog.WithLocation(prefix+filepath.Join(w.Dir, "events")))
			tbl := w.Load(t, "ml.events")
			w.Add(t, "ml.events", "", icebergtest.DataFile(t, tbl.Spec(), prefix+"/data/a.parquet", nil, nil))
			require.Contains(t, w.Load(t, "ml.events").CurrentSnapshot().ManifestList, prefix+w.Dir)
			c := w.Open(t)
			table, err := c.Table(t.Context(), "ml.events", dataset.Ref{})
			require.NoError(t, err)
			files, err := c.Files(t.Context(), table, []int{1}, nil)
			require.NoError(t, err)
			require.Len(t, files, 1)
			require.Equal(t, prefix+"/data/a.parquet", files[0].Location)
		})
	}
}
