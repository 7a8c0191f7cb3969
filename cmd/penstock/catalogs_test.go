package main

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/internal/store/s3/gatewaytest"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
	"github.com/penstock/penstock/loader/catalog/sqlcat/postgrestest"
	"github.com/penstock/penstock/loader/dataset"
)

const catalogsPage = "../../docs/catalogs.md"

// blocks returns the YAML blocks of the page on catalogs, by their headings.
func blocks(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile(catalogsPage)
	require.NoError(t, err)
	out := map[string][]string{}
	for section := range strings.SplitSeq(string(page), "\n## ") {
		heading, body, _ := strings.Cut(section, "\n")
		for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(body, -1) {
			out[heading] = append(out[heading], m[1])
		}
	}
	return out
}

// locations returns the metadata files of the lake's tables, by name.
func (l lake) locations(t *testing.T) map[string]string {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(l.dir, "catalog.db")+"?mode=ro")
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	rows, err := db.QueryContext(t.Context(), `SELECT table_namespace || '.' || table_name, metadata_location FROM iceberg_tables`)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	out := map[string]string{}
	for rows.Next() {
		var name, location string
		require.NoError(t, rows.Scan(&name, &location))
		out[name] = location
	}
	require.NoError(t, rows.Err())
	return out
}

// metadataOf returns the text of a table's metadata file.
func metadataOf(t *testing.T, location string) []byte {
	t.Helper()
	path, err := store.Path(location)
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return text
}

// database writes another SQL catalog of tables with the given metadata locations.
func database(t *testing.T, driver, uri string, locations map[string]string) {
	t.Helper()
	db, err := sql.Open(driver, uri)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	_, err = db.ExecContext(t.Context(), `CREATE TABLE iceberg_tables (catalog_name VARCHAR(255), table_namespace VARCHAR(255), table_name VARCHAR(255),
		metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000))`)
	require.NoError(t, err)
	for name, location := range locations {
		namespace, table, _ := strings.Cut(name, ".")
		_, err = db.ExecContext(t.Context(), fmt.Sprintf(`INSERT INTO iceberg_tables VALUES ('default', '%s', '%s', '%s', NULL)`, namespace, table, location))
		require.NoError(t, err)
	}
}

// serveREST serves the lake's tables as the REST catalog that the page describes.
func (l lake) serveREST(t *testing.T) *restcattest.Server {
	t.Helper()
	locations := l.locations(t)
	s := restcattest.Start(t)
	s.Warehouse, s.Scope = "prod", "PRINCIPAL_ROLE:ALL"
	s.Token, s.Client, s.Secret = "given", "penstock", "secret"
	s.Tables = func(namespace []string, name string) (restcattest.Table, bool) {
		location, ok := locations[strings.Join(namespace, ".")+"."+name]
		if !ok {
			return restcattest.Table{}, false
		}
		return restcattest.Table{Location: location, Metadata: metadataOf(t, location)}, true
	}
	return s
}

// Every block of the page returns the same rows as the lake's own catalog, after only addresses and
// paths are replaced.
func TestCatalogsPageBlocksWork(t *testing.T) {
	l := readLake(t)
	datasets := "datasets:" + strings.SplitN(string(must(os.ReadFile(l.config))), "datasets:", 2)[1]
	want := run(t, "cat", "home", "--config", l.config)
	require.Zero(t, want.code, want.stderr)
	read := func(t *testing.T, block string, env map[string]string, replace ...string) {
		t.Helper()
		for i := 0; i < len(replace); i += 2 {
			require.Contains(t, block, replace[i])
		}
		text := strings.NewReplacer(replace...).Replace(block)
		folder := lake{dir: t.TempDir()}
		if strings.Contains(block, "warehouse/impressions.metadata.json") {
			require.NoError(t, os.Mkdir(filepath.Join(folder.dir, "warehouse"), 0o700))
			locations := l.locations(t)
			folder.file(t, "warehouse/impressions.metadata.json", string(metadataOf(t, locations["ml.impressions"])))
			text += "      features.history: " + locations["features.history"] + "\n"
		}
		path := folder.file(t, "penstock.yaml", text+datasets)
		got := runWith(t, process{environment: environment{env: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}}, "cat", "home", "--config", path)
		require.Zero(t, got.code, got.stderr)
		require.Equal(t, want.stdout, got.stdout)
	}
	page := blocks(t)
	seen := 0
	each := func(heading string, test func(t *testing.T, block string)) {
		for i, block := range page[heading] {
			seen++
			t.Run(fmt.Sprintf("%s %d", heading, i+1), func(t *testing.T) { test(t, block) })
		}
	}
	const file = "/var/lib/penstock/catalog.db"
	each("SQL: SQLite", func(t *testing.T, block string) { read(t, block, nil, file, filepath.Join(l.dir, "catalog.db")) })
	each("Tables with wrong sizes", func(t *testing.T, block string) { read(t, block, nil, file, filepath.Join(l.dir, "catalog.db")) })
	each("Keeping pinned snapshots", func(t *testing.T, block string) {
		own := newLake(t, t.TempDir())
		read(t, block, nil, file, filepath.Join(own.dir, "catalog.db"))
		require.NotEmpty(t, own.tags(t, "ml.impressions"))
	})
	each("Writing to tables", func(t *testing.T, block string) {
		own := newLake(t, t.TempDir())
		before := own.content(t)
		read(t, block, nil, file, filepath.Join(own.dir, "catalog.db"), "s3://lake/warehouse", own.dir)
		require.Equal(t, before, own.content(t), "reading writes nothing")
	})
	each("Which files are read", func(t *testing.T, block string) {
		read(t, block, nil, file, filepath.Join(l.dir, "catalog.db"), "/var/lib/penstock/warehouse", l.dir)
	})
	each("SQL: PostgreSQL", func(t *testing.T, block string) {
		uri := postgrestest.Start(t).Database(t)
		database(t, "pgx", strings.Replace(uri, "+psycopg2", "", 1), l.locations(t))
		_, address, _ := strings.Cut(uri, "@")
		read(t, block, map[string]string{"CATALOG_PASSWORD": url.QueryEscape(postgrestest.Password)}, "127.0.0.1:5432/iceberg", address)
	})
	each("REST", func(t *testing.T, block string) {
		s := l.serveREST(t)
		if strings.Contains(block, "sigv4") {
			s.Token, s.Client = "", ""
			s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
				signed := strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=id/") &&
					strings.Contains(r.Header.Get("Authorization"), "/eu-central-1/glue/aws4_request")
				if !signed {
					w.WriteHeader(http.StatusForbidden)
				}
				return !signed
			}
		}
		read(t, block, map[string]string{"CATALOG_TOKEN": "given", "CATALOG_SECRET": "secret", "AWS_KEY": "id", "AWS_SECRET": "key"}, "http://127.0.0.1:8181", s.URL)
		require.Equal(t, 1, strings.Count(strings.Join(s.Asked(), " "), "/v1/config"))
	})
	each("A folder without a catalog", func(t *testing.T, block string) {
		read(t, block, nil, "/var/lib/penstock/warehouse", l.dir)
	})
	each("Files on S3", func(t *testing.T, block string) {
		g, err := gatewaytest.Start(t.Context(), t.TempDir())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, g.Close()) })
		require.NoError(t, g.MakeBucket(t.Context(), "lake"))
		locations := l.locations(t)
		for name, location := range locations {
			require.NoError(t, g.Put(t.Context(), "lake", name+".metadata.json", metadataOf(t, location)))
			locations[name] = "s3://lake/" + name + ".metadata.json"
		}
		path := filepath.Join(t.TempDir(), "catalog.db")
		database(t, "sqlite", "file:"+path, locations)
		read(t, block, map[string]string{"S3_KEY": gatewaytest.Access, "S3_SECRET": gatewaytest.Secret}, file, path, "http://127.0.0.1:9000", g.URL,
			"type: sql", "type: sql\n    allowed_prefixes: [/]") // the files of these tables are local
	})
	total := 0
	for _, section := range page {
		total += len(section)
	}
	require.Equal(t, total, seen, "every block of the page is read")
}

func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}

// The page documents every property that Penstock reads.
func TestCatalogsPageHasAllProperties(t *testing.T) {
	page := string(must(os.ReadFile(catalogsPage)))
	names := s3.Properties()
	for _, of := range dataset.CatalogTypes() {
		names = append(names, icebergcat.Properties(of.Name)...)
	}
	for _, name := range names {
		switch name {
		case "header.":
			name = "header.NAME"
		case "tables.":
			name = "tables:"
		case "rest.authorization-url": // the old name of oauth2-server-uri, as in Java
			continue
		}
		require.True(t, strings.Contains(page, "`"+name+"`") || strings.Contains(page, name+"\n"), name)
	}
}

// Planning a query again makes one request per table to the catalog, and none to storage.
//
// spec: catalog-2
func TestSecondPlanMakesOneRequestPerTable(t *testing.T) {
	l := readLake(t)
	s := l.serveREST(t)
	text := strings.SplitN(string(must(os.ReadFile(l.config))), "datasets:", 2)[1]
	folder := lake{dir: t.TempDir()}
	config := folder.file(t, "penstock.yaml", "catalogs: {default: {uri: "+s.URL+", warehouse: prod, token: given}}\ndatasets:"+text)
	c := start(t, "--config", config)
	defer c.signal(t)
	plan := func() []string {
		s.Asked()
		got := run(t, "explain", "home", "--uri", c.uri())
		require.Zero(t, got.code, got.stderr)
		return s.Asked()
	}
	const training, staging = "GET /v1/namespaces/ml/tables/impressions", "GET /v1/namespaces/features/tables/history"
	c.stderr.find(t, "dataset cannot be read") // the last dataset: the server plans all of them when it starts
	plan()                                     // the first explanation also reads the sizes of columns
	for range 2 {
		require.ElementsMatch(t, []string{training, staging}, plan())
	}
}
