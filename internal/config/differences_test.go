package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/config"
)

// TestUnlikeConfigurations checks which differences of two files count.
func TestUnlikeConfigurations(t *testing.T) {
	const text = `
catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db", s3.region: a, s3.endpoint: "http://b"}
  lab: {type: sql, uri: "sqlite:///lab.db"}
server:
  memory: 1GiB
  advertise: [grpc://a:1, grpc://b:1]
  ticket_keys: keys
  pprof: false
`
	flags := map[string]string{"drain": "1m"}
	load := func(text string) *config.Config {
		t.Helper()
		c, err := config.Load(config.Origin{File: write(t, text), Flags: flags, Memory: 8 << 30})
		require.NoError(t, err)
		return c
	}
	paths := strings.NewReplacer("ticket_keys: keys", "ticket_keys: /keys") // those of a file are relative to its folder
	was := load(paths.Replace(text))
	for _, c := range []struct {
		from, to           string
		catalogs, settings []string
	}{
		{"", "", nil, nil},
		{"1GiB", "1024MiB", nil, nil},
		{"  pprof: false\n", "", nil, nil},
		{"  pprof: false\n", "  stall_timeout: 120m\n", nil, nil},
		{"s3.region: a, s3.endpoint: \"http://b\"", "s3: {endpoint: \"http://b\", region: a}", nil, nil},
		{"\ncatalogs:", "\n\n# more lines\ncatalogs:", nil, nil},
		{"  pprof: false\n", "  drain: 3m\n", nil, nil}, // the flag overrides both
		{"1GiB", "2GiB", nil, []string{"memory"}},
		{"  memory: 1GiB\n", "", nil, []string{"memory"}},
		{"grpc://b:1", "grpc://c:1", nil, []string{"advertise"}},
		{"  pprof: false\n", "  max_streams: 7\n  log_level: debug\n", nil, []string{"max_streams", "log_level"}},
		{"catalog.db", "other.db", []string{"default"}, nil},
		{"s3.region: a", "s3.region: b", []string{"default"}, nil},
		{"  lab: {type: sql, uri: \"sqlite:///lab.db\"}\n", "", []string{"lab"}, nil},
		{"  lab:", "  new: {type: sql, uri: \"sqlite:///new.db\"}\n  lab:", []string{"new"}, nil},
		{"  lab:", "  new:", []string{"lab", "new"}, nil},
	} {
		require.Contains(t, text, c.from)
		is := load(paths.Replace(strings.Replace(text, c.from, c.to, 1)))
		require.Equal(t, c.catalogs, was.CatalogsUnlike(is), c.to)
		require.Equal(t, c.catalogs, is.CatalogsUnlike(was), c.to)
		require.Equal(t, c.settings, was.SettingsUnlike(is), c.to)
		require.Equal(t, c.settings, is.SettingsUnlike(was), c.to)
	}
}
