package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/loader/dataset"
)

// A block that works in PyIceberg's configuration works here: in its names, flat or
// nested, with secrets from the environment, and with a word on what means nothing here.
func TestCatalogProperties(t *testing.T) {
	env := map[string]string{"LAKE_SECRET": "hunter2:$x", "HOST": "lake.example"}
	c, err := config.Load(config.Origin{
		Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		File: write(t, `
catalogs:
  default:
    uri: https://${HOST}/api/catalog
    warehouse: prod
    credential: id:${LAKE_SECRET}
    scope: PRINCIPAL_ROLE:ALL
    header.X-Own: $a{b}
    s3: {region: eu-1, path-style-access: true}
    s3.connect-timeout: 5.0
    py-io-impl: pyiceberg.io.pyarrow.PyArrowFileIO
    glue.skip-archive: true
    someone.elses.property: 1
    token: null
  old: {uri: "postgresql+psycopg2://u:p@h/db"}
  folder: {type: directory, tables: {ml.events: a.metadata.json}}
`),
	})
	require.NoError(t, err)
	one := c.Catalogs["default"]
	require.Equal(t, "rest https://lake.example/api/catalog prod default", one.Type+" "+one.URI+" "+one.Warehouse+" "+one.Stored)
	require.Equal(t, map[string]string{
		"credential": "id:hunter2:$x", "scope": "PRINCIPAL_ROLE:ALL", "header.X-Own": "$a{b}", "s3.region": "eu-1",
		"s3.path-style-access": "true", "s3.connect-timeout": "5.0", "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
		"glue.skip-archive": "true", "someone.elses.property": "1",
	}, config.Properties(one))
	require.Equal(t, []string{
		"catalogs.default.py-io-impl (line 11) has no meaning here", "catalogs.default.glue.skip-archive (line 12) has no meaning here",
		"catalogs.default.someone.elses.property (line 13) has no meaning here",
	}, c.Warnings)
	require.Equal(t, "sql", c.Catalogs["old"].Type)
	require.Equal(t, dataset.Catalog{
		Name: "folder", Type: "directory", Stored: "folder",
		Properties: []dataset.Property{{Name: "tables.ml.events", Value: "a.metadata.json", Line: 16}},
	}, c.Catalogs["folder"])
}

func TestCatalogFaults(t *testing.T) {
	for text, want := range map[string]string{
		`{type: rest, uri: "http://h", credentail: a}`:                     `catalogs.a.credentail: unknown field (line 1) (did you mean "credential"?)`,
		`{type: rest, uri: "http://h", s3.acces-key-id: a}`:                `catalogs.a.s3.acces-key-id: unknown field (line 1) (did you mean "s3.access-key-id"?)`,
		`{type: rest, uri: "http://h", token: "x${NONE}y"}`:                "catalogs.a.token: the environment has no variable NONE; set it where Penstock starts (line 1)",
		`{type: sql, uri: "postgresql://u:${NONE}@hunter2/db"}`:            "catalogs.a.uri: the environment has no variable NONE",
		`{type: rest, uri: "http://h", auth: {type: basic}}`:               "catalogs.a.auth.type: is not supported by this version; use token, credential with oauth2-server-uri",
		`{type: rest, uri: "http://h", s3: [a]}`:                           "catalogs.a.s3: must be a single value, not a list",
		`{type: rest}`:                                                     "it needs type and uri",
		`{type: rest, uri: "http://h", token: "${LAKE:-x}"}`:               "catalogs.a.token: variables have no defaults here: write ${LAKE}, and set it where Penstock starts (line 1)",
		`{type: rest, uri: "http://h", s3.endpoint: a, s3: {endpoint: b}}`: "catalogs.a.s3.endpoint: is given twice, by itself and within an object; keep one",
		`{}`: "it needs type and uri",
	} {
		_, err := config.Load(config.Origin{File: write(t, "catalogs: {a: "+text+"}\n"), Env: func(string) (string, bool) { return "", false }})
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

// For how long snapshots are kept is said catalog by catalog; where nothing is said they
// are not.
func TestPinTags(t *testing.T) {
	load := func(block string) (*config.Config, error) {
		return config.Load(config.Origin{File: write(t, "catalogs: {a: {type: rest, uri: \"http://h\"}, b: {type: rest, uri: \"http://h\", "+block+"}}")})
	}
	for text, want := range map[string]time.Duration{
		"pin_tags: {keep: 7d}": 7 * 24 * time.Hour, "pin_tags: {keep: 90m}": 90 * time.Minute, "pin_tags: {keep: 1h}": time.Hour,
		"pin_tags.keep: 3d": 72 * time.Hour, "pin_tags: {keep: 2w}": 14 * 24 * time.Hour, "pin_tags: null": 0,
	} {
		c, err := load(text)
		require.NoError(t, err, text)
		require.Equal(t, want, c.Catalogs["b"].PinTags)
		require.Zero(t, c.Catalogs["a"].PinTags)
		require.Empty(t, c.Catalogs["b"].Properties)
		require.Empty(t, c.Warnings)
	}
	for text, want := range map[string]string{
		"pin_tags: 7d":                            "catalogs.b.pin_tags: must be an object, such as {keep: 7d}",
		"pin_tags: {}":                            "catalogs.b.pin_tags.keep: missing",
		"pin_tags: {keep: null}":                  "catalogs.b.pin_tags.keep: missing",
		"pin_tags: {kep: 7d}":                     `catalogs.b.pin_tags.kep: unknown field (line 1) (did you mean "keep"?)`,
		"pin_tags: {keep: 59m}":                   "catalogs.b.pin_tags.keep: must be from 1h to 3660d",
		"pin_tags: {keep: 0s}":                    "catalogs.b.pin_tags.keep: must be from 1h to 3660d",
		"pin_tags: {keep: 7}":                     `catalogs.b.pin_tags.keep: must be a duration, a whole number and a unit`,
		"pin_tags: {keep: 99999d}":                "catalogs.b.pin_tags.keep: must be from 1h to 3660d",
		"pin_tags: {keep: 1mo}":                   "catalogs.b.pin_tags.keep: months and years have no fixed length",
		"pin_tags: true":                          "catalogs.b.pin_tags: must be an object",
		"pin_tags.keep: 7":                        `catalogs.b["pin_tags.keep"]: must be a duration, a whole number and a unit`,
		"pin_tag: {keep: 7d}":                     `catalogs.b.pin_tag.keep: unknown field (line 1) (did you mean "pin_tags.keep"?)`,
		"pin_tags: {keep: 7d}, pin_tags.keep: 8d": `catalogs.b["pin_tags.keep"]: is given twice`,
		"pin_tags: {keep: [1h, 2]}":               "catalogs.b.pin_tags.keep: must be a duration",
	} {
		_, err := load(text)
		require.ErrorContains(t, err, want, text)
	}
}

// Which namespaces are written to is said catalog by catalog; where nothing is said, none is.
//
// spec: write-1
func TestWrites(t *testing.T) {
	load := func(block string) (*config.Config, error) {
		return config.Load(config.Origin{File: write(t, "catalogs: {a: {type: rest, uri: \"http://h\"}, b: {type: rest, uri: \"http://h\", "+block+"}}")})
	}
	for text, want := range map[string][]string{
		"writes: {namespaces: [features]}": {"features"}, "writes: {namespaces: [a, b.c]}": {"a", "b.c"},
		"writes.namespaces: [a]": {"a"}, "writes: null": nil,
	} {
		c, err := load(text)
		require.NoError(t, err, text)
		require.Equal(t, want, c.Catalogs["b"].WriteNamespaces)
		require.Empty(t, c.Catalogs["a"].WriteNamespaces)
		require.Empty(t, c.Catalogs["b"].Properties)
		require.Empty(t, c.Warnings)
	}
	for text, want := range map[string]string{
		"writes: true":                                      "catalogs.b.writes: must be an object, such as {namespaces: [features]}",
		"writes: [a]":                                       "catalogs.b.writes: must be an object",
		"writes: {}":                                        "catalogs.b.writes.namespaces: missing",
		"writes: {namespaces: []}":                          "catalogs.b.writes.namespaces: must not be empty; leave writes out, and nothing is written",
		"writes: {namespaces: a}":                           "catalogs.b.writes.namespaces: must be a list of namespaces",
		"writes: {namespaces: [a, a]}":                      "namespace a is given twice",
		"writes: {namespaces: [a..b]}":                      `"a..b" is not a namespace`,
		"writes: {namespaces: [\"\"]}":                      `"" is not a namespace`,
		"writes: {namespace: [a]}":                          `catalogs.b.writes.namespace: unknown field (line 1) (did you mean "namespaces"?)`,
		"write: {namespaces: [a]}":                          `(did you mean "writes.namespaces"?)`,
		"writes: {namespaces: [a]}, writes.namespaces: [b]": `catalogs.b["writes.namespaces"]: is given twice`,
	} {
		_, err := load(text)
		require.ErrorContains(t, err, want, text)
	}
}
