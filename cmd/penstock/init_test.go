package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/proposal"
)

// init writes a valid config file for the tables of a catalog, and does not overwrite an existing
// file.
func TestInit(t *testing.T) {
	l := readLake(t)
	file := filepath.Join(t.TempDir(), "new.yaml")
	uri := "sqlite:///" + filepath.Join(l.dir, "catalog.db")
	got := run(t, "init", uri, "--output", file)
	require.Equal(t, ran{0, "", "2 datasets of 3 tables\n  → review " + file + ", change it, and list its datasets: penstock datasets --config " + file + "\n"}, got)
	text := string(must(os.ReadFile(file)))
	golden(t, "init.yaml", strings.ReplaceAll(text, l.dir, "/lake"))
	listed := run(t, "datasets", "--config", file)
	require.Equal(t, exitOK, listed.code, listed.stderr)
	require.Contains(t, listed.stdout, "impressions")
	require.Contains(t, run(t, "cat", "impressions", "--config", file).stderr, "7 rows; history matched 5 of 7")

	again := run(t, "init", uri, "--output", file)
	require.Equal(t, exitFailure, again.code)
	require.Contains(t, again.stderr, "already exists, and is not overwritten\n  → name another file with --output, or - for standard output\n")
	again = run(t, "init", uri, "--output", file, "--json")
	require.Equal(t, exitFailure, again.code)
	require.Contains(t, again.stderr, "  → name another file with --output\n", "--json is refused with --output -")
	require.Equal(t, text, string(must(os.ReadFile(file))))
	require.Equal(t, text, run(t, "init", "uri="+uri, "--output", "-").stdout)
	left, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	require.Len(t, left, 1, "no temporary file is left")
}

// init lists folders, and REST catalogs with several pages. Secrets become environment variables.
// Catalogs that cannot be listed are refused with a remedy.
func TestInitFromRESTAndFolders(t *testing.T) {
	l := readLake(t)
	s := l.serveREST(t)
	s.Names = slices.Sorted(maps.Keys(l.locations(t)))
	s.Page = 1
	file := filepath.Join(t.TempDir(), "rest.yaml")
	got := run(t, "init", "type=rest", "uri="+s.URL, "warehouse=prod", "token=given", "-o", file)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stderr, "  → set CATALOG_TOKEN in the environment of penstock: it replaces token\n")
	text := string(must(os.ReadFile(file)))
	require.Contains(t, text, `token: "${CATALOG_TOKEN}"`)
	require.NotContains(t, text, "given")
	with := process{environment: environment{env: func(name string) (string, bool) { return "given", name == "CATALOG_TOKEN" }}}
	listed := runWith(t, with, "datasets", "--config", file)
	require.Equal(t, exitOK, listed.code, listed.stderr)
	require.Contains(t, listed.stdout, "large")
	kept := filepath.Join(t.TempDir(), "kept.yaml")
	require.Equal(t, exitOK, runWith(t, with, "init", "uri="+s.URL, "warehouse=prod", "token=${CATALOG_TOKEN}", "-o", kept).code)
	require.Equal(t, listed.stdout, runWith(t, with, "datasets", "--config", kept).stdout)

	folders := filepath.Join(t.TempDir(), "folders.yaml")
	got = run(t, "init", "type=directory", "warehouse="+l.dir, "-o", folders)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stderr, "2 datasets of 3 tables")
	require.Equal(t, listed.stdout, run(t, "datasets", "--config", folders).stdout)

	var tables []string
	for name, location := range l.locations(t) {
		if name != "features.history" {
			tables = append(tables, "tables."+name+"="+location)
		}
	}
	folder := run(t, append([]string{"init", "type=directory", "--output", "-"}, tables...)...)
	require.Equal(t, exitOK, folder.code, folder.stderr)
	require.Contains(t, folder.stdout, "  large:\n", "the larger one of two tables without features")
	require.Contains(t, folder.stdout, "12000 rows, bucket(2, request_id)")

	alone := run(t, "init", "type=directory", tables[0], "--output", "-")
	require.Equal(t, exitOK, alone.code, alone.stderr)
	require.Regexp(t, `    # columns: .*request_id int64`, alone.stdout, "candidates for a key")
	require.Contains(t, alone.stdout, "    #     key: {column: column}  # training column: staging column\n")

	for name, c := range map[string]struct {
		args []string
		says []string
	}{
		"a bucket":         {[]string{"type=directory", "warehouse=s3://bucket/lake"}, []string{"folders of s3 are not listed", "name the tables by path"}},
		"no value":         {[]string{"catalog.db"}, []string{`"catalog.db" is not of the form NAME=VALUE`, "uri=sqlite:////path/to/catalog.db"}},
		"nothing":          {nil, []string{"needs the properties of a catalog"}},
		"twice":            {[]string{"uri=sqlite:///a.db", "sqlite:///b.db"}, []string{"uri is given twice"}},
		"a misspelt one":   {[]string{"uri=" + s.URL, "warehose=prod"}, []string{"catalogs.default.warehose", "warehouse"}},
		"no such file":     {[]string{"sqlite:////none/catalog.db"}, []string{"there is no file /none/catalog.db", "→"}},
		"no such folder":   {[]string{"sqlite:///a.db", "--output", "none/new.yaml"}, []string{"write into none", "--output"}},
		"another's name":   {[]string{"sqlite:///" + filepath.Join(l.dir, "catalog.db"), "name=lake"}, []string{`holds no tables of a catalog called "lake"; set name: to one of: default`}},
		"a server's words": {[]string{"uri=" + s.URL, "warehouse=prod", "token=wr0ng"}, []string{"token", "→"}},
	} {
		got := run(t, append([]string{"init", "--output", filepath.Join(t.TempDir(), "x.yaml")}, c.args...)...)
		require.NotEqual(t, exitOK, got.code, name)
		for _, text := range c.says {
			require.Contains(t, got.stderr, text, name)
		}
		require.NotContains(t, got.stderr, "wr0ng")
		require.NotContains(t, got.stderr, ".penstock-init", name)
	}
}

func TestSecretsAreVariables(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string][2]string{
		"credential=id:s3cret":                      {"${CATALOG_CREDENTIAL}", "id:s3cret"},
		"s3.secret-access-key=s3cret":               {"${CATALOG_S3_SECRET_ACCESS_KEY}", "s3cret"},
		"header.X-Api-Key=s3cret":                   {"${CATALOG_HEADER_X_API_KEY}", "s3cret"},
		"postgresql://me:s3cret@db:5432/x":          {"postgresql://me:${CATALOG_URI_PASSWORD}@db:5432/x", "s3cret"},
		"postgresql://db/x?user=a&password=s3cret":  {"${CATALOG_URI}", "postgresql://db/x?user=a&password=s3cret"},
		"uri=postgresql://me:${DB}@db/x":            {"postgresql://me:${DB}@db/x", ""},
		"uri=https://catalog.example.com":           {"https://catalog.example.com", ""},
		"warehouse=s3://bucket/path":                {"s3://bucket/path", ""},
		"oauth2-server-uri=https://h/oauth/tokens":  {"https://h/oauth/tokens", ""},
		"s3.access-key-id=AKIA":                     {"${CATALOG_S3_ACCESS_KEY_ID}", "AKIA"},
		"postgresql+psycopg2://me:a%40s3cret@db/x":  {"postgresql+psycopg2://me:${CATALOG_URI_PASSWORD}@db/x", "a%40s3cret"},
		"rest.sigv4-enabled=true":                   {"true", ""},
		"s3.endpoint=https://user:s3cret@host:9000": {"https://user:${CATALOG_S3_ENDPOINT_PASSWORD}@host:9000", "s3cret"},
	} {
		given, err := properties([]string{arg})
		require.NoError(t, err)
		written, secrets := proposal.WithoutSecrets(given)
		require.Equal(t, want[0], written[0].Value, arg)
		if want[1] == "" {
			require.Empty(t, secrets, arg)
			continue
		}
		require.Len(t, secrets, 1, arg)
		require.Equal(t, want[1], secrets[0].Value, arg)
		require.NotContains(t, proposal.CatalogText(written), "s3cret")
	}
}
