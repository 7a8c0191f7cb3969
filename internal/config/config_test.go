package config_test

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

const minimal = "catalogs: {default: {type: sql, uri: \"sqlite:///catalog.db\"}}\n"

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "penstock.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func env(variables map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		text, ok := variables[name]
		return text, ok
	}
}

// All faults of file, environment and flags are reported together, with their lines.
func TestFaults(t *testing.T) {
	_, err := config.Load(config.Origin{
		File:  "testdata/faults.yaml",
		Env:   env(map[string]string{"PENSTOCK_PPROF": "perhaps", "PENSTOCK_LOG_LEVEL": "loud", "PENSTOCK_DRAIN": "-1s"}),
		Flags: map[string]string{"memory": "1kB"},
	})
	e := fault.As(err)
	require.Equal(t, fault.Invalid, e.Kind)
	require.Equal(t, "testdata/faults.yaml", e.File)
	var got strings.Builder
	for _, f := range e.Faults {
		got.WriteString(f.String() + "\n")
	}
	const golden = "testdata/faults.txt"
	if *rewrite {
		require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}

func TestInvalidConfigFiles(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		path string
		kind fault.Kind
		says string
	}{
		"missing":      {filepath.Join(dir, "none.yaml"), fault.NotFound, "there is no config file"},
		"folder":       {dir, fault.Invalid, "is a directory"},
		"empty":        {write(t, ""), fault.Invalid, "is empty"},
		"comment":      {write(t, "# nothing\n"), fault.Invalid, "is empty"},
		"null":         {write(t, "null\n"), fault.Invalid, "is empty"},
		"list":         {write(t, "- a\n"), fault.Invalid, "want a mapping"},
		"syntax":       {write(t, "catalogs:\n  a: {\n"), fault.Invalid, "line 2"},
		"indented":     {write(t, minimal+"datasets:\n  a:\n    training: {table: t}\n    staging:\n    - table: b\n        prefix: c\n"), fault.Invalid, "line 7: "},
		"unclosed":     {write(t, minimal+"datasets:\n  a: {training: {table: \"t}}\n  b: {}\n"), fault.Invalid, "line 3: "},
		"tab":          {write(t, "catalogs:\n\ta: 1\n"), fault.Invalid, "line 2"},
		"two":          {write(t, minimal+"---\n"+minimal), fault.Invalid, "(line 2)"},
		"broken later": {write(t, minimal+"---\na: {\n"), fault.Invalid, "line"},
		"no catalog":   {write(t, "datasets: {}\n"), fault.Invalid, "there is no catalog"},
		"no catalogs":  {write(t, "catalogs:\n"), fault.Invalid, "there is no catalog"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Load(config.Origin{File: c.path})
			e := fault.As(err)
			require.NotNil(t, e)
			require.Equal(t, c.kind, e.Kind)
			require.Equal(t, c.path, e.File)
			require.Contains(t, err.Error(), c.says)
			require.NotContains(t, err.Error(), "%!")
		})
	}
}

func TestSizesWithoutAUnit(t *testing.T) {
	_, err := config.Load(config.Origin{File: write(t, minimal), Flags: map[string]string{"memory": "8"}})
	require.ErrorContains(t, err, "--memory: 8 is 8 bytes: write a unit, as in 8GiB")
}

func TestMisspelledVariables(t *testing.T) {
	environ := []string{
		"PENSTOCK_MAX_STREMS=4", "PENSTOCK_MAX_STREAMS=4", "PENSTOCK_CONFG=a", "PENSTOCK_SERVICE_HOST=10.0.0.1", "PENSTOCK_SERVICE_PORT=8815",
		"PENSTOCK_PORT=tcp://10.0.0.1:8815", "PENSTOCK_PORT_8815_TCP_ADDR=10.0.0.1", "MAX_STREMS=4", "PENSTOCK_LONG=1",
	}
	require.Equal(t, map[string]string{"PENSTOCK_MAX_STREMS": "PENSTOCK_MAX_STREAMS", "PENSTOCK_CONFG": "PENSTOCK_CONFIG"},
		config.MisspelledVariables(environ, []string{"PENSTOCK_CONFIG", "PENSTOCK_URI"}))
}

func TestDefaults(t *testing.T) {
	c, err := config.Load(config.Origin{File: write(t, minimal), Memory: 8 << 30})
	require.NoError(t, err)
	require.Equal(t, config.Server{
		Listen: "127.0.0.1:8815", Memory: 4 << 30, StorageTimeout: time.Minute, MaxMetadata: 256 << 20, ReadTail: 64 << 10, ReadGap: 64 << 10, ReadSize: 32 << 20, ReadAhead: 128 << 20, CacheDisk: 32 << 30, StallTimeout: 2 * time.Hour, MaxStreams: -1, MaxPeerShare: 75, ShareBatches: -1, CacheMemory: -1,
		Drain: 10 * time.Second, TicketLifetime: 24 * time.Hour, JWTKeysMaxAge: 24 * time.Hour, TicketRenewal: 720 * time.Hour, TraceEvery: 100,
		LogLevel: slog.LevelInfo, LogFormat: "text",
	}, c.Server)
	require.Equal(t, map[string]dataset.Catalog{"default": {Name: "default", Type: "sql", URI: "sqlite:///catalog.db", Stored: "default"}}, c.Catalogs)
	require.Empty(t, c.Datasets)
}

// A machine that is too small for a default budget needs one.
func TestSmallMachines(t *testing.T) {
	_, err := config.Load(config.Origin{File: write(t, minimal), Memory: 256 << 20})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "this machine or container has 256 MiB of memory, and the default budget needs 336 MiB")
	c, err := config.Load(config.Origin{File: write(t, minimal), Memory: 256 << 20, Env: env(map[string]string{"PENSTOCK_MEMORY": "32MiB"})})
	require.NoError(t, err)
	require.EqualValues(t, 32<<20, c.Server.Memory)
	c, err = config.Load(config.Origin{File: write(t, minimal), Memory: 512 << 20})
	require.NoError(t, err)
	require.EqualValues(t, 204<<20, c.Server.Memory>>20<<20)
}

func TestBatchBytes(t *testing.T) {
	for _, c := range []struct{ memory, set, want int64 }{{1 << 30, 0, 128 << 20}, {64 << 30, 0, 256 << 20}, {1 << 30, 1 << 20, 1 << 20}} {
		require.Equal(t, c.want, config.Server{Memory: c.memory, MaxBatchBytes: c.set}.BatchBytes())
	}
}

func TestSharedBytes(t *testing.T) {
	for _, c := range []struct{ memory, set, want int64 }{{1 << 30, -1, 128 << 20}, {64 << 30, -1, 1 << 30}, {1 << 30, 0, 0}, {1 << 30, 2 << 20, 2 << 20}} {
		require.Equal(t, c.want, config.Server{Memory: c.memory, ShareBatches: c.set}.SharedBytes())
	}
}

func TestCacheBytes(t *testing.T) {
	for _, c := range []struct{ memory, set, want int64 }{{1 << 30, -1, 256 << 20}, {1 << 30, 0, 0}, {1 << 30, 2 << 20, 2 << 20}, {1 << 30, 1 << 30, 512 << 20}} {
		require.Equal(t, c.want, config.Server{Memory: c.memory, CacheMemory: c.set}.CacheBytes())
	}
}

func TestMappedBytes(t *testing.T) {
	require.Zero(t, config.Server{Memory: 1 << 30}.MappedBytes())
	for memory, want := range map[int64]int64{1 << 30: 128 << 20, 64 << 30: 1 << 30} {
		require.Equal(t, want, config.Server{Memory: memory, LocalSocket: "/a/l"}.MappedBytes())
	}
}

func TestStreams(t *testing.T) {
	for flag, want := range map[string]int{"": 64, "0": 0, "7": 7} {
		flags := map[string]string{"memory": "1GiB"}
		if flag != "" {
			flags["max-streams"] = flag
		}
		c, err := config.Load(config.Origin{File: write(t, minimal), Flags: flags})
		require.NoError(t, err)
		require.Equal(t, want, c.Server.Streams())
	}
	for memory, want := range map[string]int{"1MiB": 8, "1TiB": 4096} {
		c, err := config.Load(config.Origin{File: write(t, minimal), Flags: map[string]string{"memory": memory}})
		require.NoError(t, err)
		require.Equal(t, want, c.Server.Streams())
	}
}

// Every setting has one name in three forms; flags win over the environment,
// the environment over the file.
func TestPrecedence(t *testing.T) {
	type given struct{ file, env, flag, want string }
	values := map[string]given{
		"listen":            {"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", ""},
		"insecure":          {"true", "false", "true", ""},
		"memory":            {"1GiB", "2GiB", "3GiB", ""},
		"spool":             {"/a", "/b", "/c", ""},
		"spool_limit":       {"1GiB", "2GiB", "3GiB", ""},
		"storage_timeout":   {"1s", "2s", "0", ""},
		"max_metadata":      {"1GiB", "2GiB", "3GiB", ""},
		"read_tail":         {"1KiB", "2KiB", "3KiB", ""},
		"read_gap":          {"1KiB", "2KiB", "3KiB", ""},
		"read_size":         {"1KiB", "2KiB", "3KiB", ""},
		"read_ahead":        {"1KiB", "2KiB", "0", ""},
		"max_streams":       {"1", "2", "3", ""},
		"max_peer_share":    {"1", "100", "50", ""},
		"max_batch_bytes":   {"1MiB", "2MiB", "3MiB", ""},
		"cache_dir":         {"/a/c", "/b/c", "/c/c", ""},
		"cache_disk":        {"1MiB", "2MiB", "3MiB", ""},
		"share_batches":     {"1MiB", "2MiB", "0", ""},
		"cache_memory":      {"1MiB", "2MiB", "0", ""},
		"local_socket":      {"/a/l", "/b/l", "/c/l", ""},
		"stall_timeout":     {"1h", "2h", "3h", ""},
		"drain":             {"1s", "2s", "3s", ""},
		"ticket_keys":       {"/a", "/b", "/c", ""},
		"ticket_lifetime":   {"1h", "2h", "3h", ""},
		"ticket_renewal":    {"1h", "2h", "3h", ""},
		"advertise":         {"grpc://a:1", "grpc://b:1", "grpc://c:1", ""},
		"metrics":           {"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", ""},
		"health":            {"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", ""},
		"pprof":             {"true", "false", "true", ""},
		"trace":             {"http://a:1", "http://b:1", "https://a:1", ""},
		"trace_every":       {"1", "2", "3", ""},
		"trace_ca":          {"/a", "/b", "/c", ""},
		"trace_headers":     {"/a", "/b", "/c", ""},
		"log_level":         {"debug", "warn", "error", ""},
		"log_format":        {"json", "text", "json", ""},
		"require_checksums": {"true", "false", "true", ""},
		"tls_cert":          {"/a", "/b", "/c", ""},
		"tls_key":           {"/a", "/b", "/c", ""},
		"tls_client_ca":     {"/a", "/b", "/c", ""},
		"tokens":            {"/a", "/b", "/c", ""},
		"policy":            {"/a", "/b", "/c", ""},
		"jwt_issuer":        {"https://a", "https://b", "https://c", ""},
		"jwt_audience":      {"a", "b", "c", ""},
		"jwt_keys":          {"/a", "https://b/keys", "/c", ""},
		"jwt_keys_max_age":  {"1h", "2h", "3h", ""},
		"audit_log":         {"/a", "stderr", "/c", ""},
	}
	server := func(t *testing.T, name, file, env string, flags map[string]string) config.Server {
		t.Helper()
		// Settings that others need.
		block := map[string]string{"metrics": "127.0.0.1:9", "trace": "https://c:1", "tls_cert": "/cert", "tls_key": "/key", "jwt_issuer": "i", "jwt_audience": "a", "jwt_keys": "/k"}
		if file != "" {
			block[name] = file
		}
		var text strings.Builder
		text.WriteString(minimal + "server:\n")
		for setting, v := range block {
			fmt.Fprintf(&text, "  %s: %q\n", setting, v)
		}
		c, err := config.Load(config.Origin{File: write(t, text.String()), Flags: flags, Env: func(variable string) (string, bool) {
			return env, env != "" && variable == "PENSTOCK_"+strings.ToUpper(name)
		}})
		require.NoError(t, err)
		return c.Server
	}
	for _, s := range config.Settings() {
		t.Run(s.Name, func(t *testing.T) {
			v, ok := values[s.Name]
			require.True(t, ok, "a setting without a test")
			flag := func(text string) map[string]string { return map[string]string{s.Flag(): text} }
			require.NotEqual(t, server(t, s.Name, v.file, "", nil), server(t, s.Name, v.env, "", nil))
			require.Equal(t, server(t, s.Name, v.env, "", nil), server(t, s.Name, v.file, v.env, nil))
			require.Equal(t, server(t, s.Name, v.flag, "", nil), server(t, s.Name, v.file, v.env, flag(v.flag)))
			require.NotEmpty(t, s.Usage)
		})
	}
}

// An address without a port is refused, with one that may be meant.
func TestAddressesWithoutAPort(t *testing.T) {
	for flag, cases := range map[string]map[string]string{
		"listen":    {"127.0.0.1": "write 127.0.0.1:8815", "::1": "write [::1]:8815", "[::]": "write [::]:8815", "8815": "write 127.0.0.1:8815"},
		"metrics":   {"127.0.0.1": "write 127.0.0.1:9100", "::1": "write [::1]:9100", "9100": "write 127.0.0.1:9100"},
		"health":    {"127.0.0.1": "write 127.0.0.1:8816", "::": "write [::]:8816"},
		"advertise": {"grpc://train01": "write train01:8815", "grpc+tls://[::1]": "write [::1]:8815", "grpc://a:1,grpc://b": "write b:8815"},
	} {
		for text, todo := range cases {
			_, err := config.Load(config.Origin{File: write(t, minimal), Flags: map[string]string{flag: text}})
			require.ErrorContains(t, err, todo, text)
		}
	}
}

// A server listens on a socket of the file system too; its metrics do not.
func TestSockets(t *testing.T) {
	long := strings.Repeat("n", 103)
	for text, says := range map[string]string{
		"unix:///run/penstock.sock":    "",
		"unix:///with a space":         "",
		"unix:///" + long[:102]:        "",
		"unix:///" + long:              "more than 103 bytes",
		"unix://run/penstock.sock":     "not of the form unix:///path",
		"unix://":                      "not of the form unix:///path",
		"unix:///run/":                 "not of the form unix:///path",
		"unix:/run/penstock.sock":      "not of the form host:port or unix:///path",
		"grpc+unix:///run/penstock.so": "not of the form host:port or unix:///path",
	} {
		c, err := config.Load(config.Origin{File: write(t, minimal), Flags: map[string]string{"listen": text}})
		if says != "" {
			require.ErrorContains(t, err, says, text)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, text, c.Server.Listen)
	}
	_, err := config.Load(config.Origin{File: write(t, minimal), Flags: map[string]string{"metrics": "unix:///run/metrics.sock"}})
	require.Error(t, err)
	c, err := config.Load(config.Origin{File: write(t, minimal), Flags: map[string]string{"advertise": "grpc+unix:///run/penstock.sock,grpc://a:1"}})
	require.NoError(t, err)
	require.Equal(t, []string{"grpc+unix:///run/penstock.sock", "grpc://a:1"}, c.Server.Advertise)
}

func TestPaths(t *testing.T) {
	path := write(t, minimal+"server: {ticket_keys: keys/tickets}\n")
	c, err := config.Load(config.Origin{File: path})
	require.NoError(t, err)
	require.Equal(t, filepath.Dir(path), c.Dir())
	require.Equal(t, filepath.Join(filepath.Dir(path), "keys/tickets"), c.Server.TicketKeys, "of the file: relative to it")
	c, err = config.Load(config.Origin{File: path, Flags: map[string]string{"ticket-keys": "tickets"}})
	require.NoError(t, err)
	require.Equal(t, "tickets", c.Server.TicketKeys, "of a flag: relative to the working directory")
}

func TestSettingsNeedOthers(t *testing.T) {
	_, err := config.Load(config.Origin{File: write(t, minimal), Flags: map[string]string{"pprof": "true"}})
	require.ErrorContains(t, err, "--pprof: profiles are served beside the metrics")
	_, err = config.Load(config.Origin{File: write(t, minimal), Flags: map[string]string{"cache-dir": "/a", "cache-memory": "0"}})
	require.ErrorContains(t, err, "--cache-dir: columns on disk are read through those in memory")
	for flag, lacks := range map[string]string{
		"tls-cert": "tls_key is not set", "tls-key": "tls_cert is not set", "tls-client-ca": "tls_cert is not set",
		"jwt-issuer": "jwt_keys is not set", "jwt-audience": "jwt_keys is not set", "jwt-keys": "jwt_audience is not set",
	} {
		_, err = config.Load(config.Origin{File: write(t, minimal), Flags: map[string]string{flag: "/a"}})
		require.ErrorContains(t, err, lacks)
	}
}

// An address serves one thing. Port 0 is another port each time.
func TestAddressesAreTaken(t *testing.T) {
	for _, c := range []struct {
		flags map[string]string
		says  string
	}{
		{map[string]string{"metrics": "127.0.0.1:8815"}, "--metrics: 127.0.0.1:8815 is the address of listen too: choose another port"},
		{map[string]string{"health": "127.0.0.1:8815"}, "--health: 127.0.0.1:8815 is the address of listen too"},
		{map[string]string{"metrics": ":9100", "health": ":9100"}, "--health: :9100 is the address of metrics too"},
		{map[string]string{"listen": "127.0.0.1:0", "metrics": "127.0.0.1:0", "health": "127.0.0.1:0"}, ""},
	} {
		_, err := config.Load(config.Origin{File: write(t, minimal), Flags: c.flags})
		if c.says == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, c.says)
	}
}

func TestDefaultCatalog(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"default"}, "default"},
		{[]string{"prod"}, "prod"},
		{[]string{"prod", "default"}, "default"},
		{[]string{"prod", "lab"}, ""},
	} {
		cfg := config.Config{Catalogs: map[string]dataset.Catalog{}}
		for _, name := range c.names {
			cfg.Catalogs[name] = dataset.Catalog{}
		}
		require.Equal(t, c.want, cfg.DefaultCatalog())
	}
}

func TestMachineMemory(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	meminfo := file("MemTotal:       16384 kB\nMemFree:        1 kB\n")
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  int64
	}{
		"none":            {fstest.MapFS{}, 0},
		"machine":         {fstest.MapFS{"proc/meminfo": meminfo}, 16 << 20},
		"no limit":        {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/a\n"), "sys/fs/cgroup/a/memory.max": file("max\n")}, 16 << 20},
		"own group":       {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("4096\n")}, 4096},
		"group around it": {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/memory.max": file("8192\n")}, 8192},
		"container":       {fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/hidden\n"), "sys/fs/cgroup/memory.max": file("1048576\n")}, 1 << 20},
		"version 1": {fstest.MapFS{
			"proc/meminfo": meminfo, "proc/self/cgroup": file("3:cpu:/a\n2:hugetlb,memory:/a\n"),
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": file("2097152\n"),
		}, 2 << 20},
		"version 1 without a limit": {fstest.MapFS{
			"proc/meminfo": meminfo, "proc/self/cgroup": file("2:memory:/\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n"),
		}, 16 << 20},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, config.MachineMemory(c.files)) })
	}
}

// No fault of a configuration shows a password of a URI in it, wherever it stands.
func TestFaultsShowNoPasswords(t *testing.T) {
	const secret = "user:hunter2@host"
	for name, text := range map[string]string{
		"listen":          "server: {listen: \"" + secret + "\"}",
		"listen port":     "server: {listen: \"grpc://" + secret + ":x\"}",
		"socket":          "server: {listen: \"unix://" + secret + "\"}",
		"metrics":         "server: {metrics: \"" + secret + ":x\"}",
		"advertise":       "server: {advertise: [\"grpc://" + secret + ":1\"]}",
		"no location":     "server: {advertise: [\"http://" + secret + "\", \"" + secret + "\"]}",
		"broken location": "server: {advertise: [\"grpc://user:hunt%2er2hunter2@host:b\"]}",
		"a number":        "server: {max_streams: \"a://" + secret + "\"}",
		"a size":          "server: {memory: \"a://" + secret + "\"}",
		"a time":          "server: {drain: \"a://" + secret + "\"}",
		"a word":          "server: {log_format: \"a://" + secret + "\"}",
		"a switch":        "server: {pprof: \"a://" + secret + "\"}",
		"a catalog":       "catalogs: {a: \"postgresql://" + secret + "/db\"}",
		"a field":         "catalogs: {a: {type: sql, \"postgresql://" + secret + "/db\": b}}",
		"a list":          "catalogs: {a: {type: sql, uri: [\"postgresql://" + secret + "/db\"]}}",
		"no YAML":         "a: b: postgresql://" + secret + "/db",
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.HasPrefix(text, "catalogs") && !strings.HasPrefix(text, "a:") {
				text = minimal + text + "\n"
			}
			_, err := config.Load(config.Origin{File: write(t, text)})
			require.Error(t, err)
			require.NotContains(t, err.Error(), "hunter2")
			for _, f := range fault.As(err).Faults {
				require.NotContains(t, f.Message+f.Field+f.Nearest, "hunter2")
			}
		})
	}
}
