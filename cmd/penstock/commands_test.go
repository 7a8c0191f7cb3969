package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExplainAndDatasets(t *testing.T) {
	l := readLake(t)
	server := start(t, "--config", l.config)
	for _, args := range [][]string{
		{"explain", "home"},
		{"explain", "--query", `{"dataset": "home", "lanes": 2, "filter": "request_id > 3"}`},
		{"datasets"},
		{"datasets", "home"},
		{"datasets", "large"},
		{"datasets", "hme"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			inside := run(t, append(args, "--config", l.config)...)
			require.Equal(t, inside, run(t, append(args, "--uri", server.uri())...))
		})
	}
	got := run(t, "explain", "home", "--config", l.config)
	require.Contains(t, got.stdout, "rows 7 (exact)")
	golden(t, "datasets.txt", run(t, "datasets", "--config", l.config).stdout)
	golden(t, "columns.txt", run(t, "datasets", "home", "--config", l.config).stdout)
	got = run(t, "datasets", "hme", "--config", l.config)
	require.Equal(t, ran{exitFailure, "", "penstock: there is no dataset \"hme\"\n  → did you mean \"home\"?\n"}, got)
}

// Commands exit with 2 after wrong usage and with 1 after all other failures. A failure has the
// same text in process and from a server.
func TestFailuresAndExitCodes(t *testing.T) {
	l := readLake(t)
	server := start(t, "--config", l.config)
	for name, c := range map[string]struct {
		args []string
		code int
		says []string
	}{
		"no command":       {[]string{"sevre"}, exitUsage, []string{`unknown command "sevre"`, "serve", "See: penstock --help"}},
		"no flag":          {[]string{"cat", "--colums", "a"}, exitUsage, []string{"unknown flag: --colums", "See: penstock cat --help"}},
		"a setting":        {[]string{"cat", "--memory", "1GiB"}, exitUsage, []string{"unknown flag: --memory", "it is a setting: write it into the block server of the config file, or set PENSTOCK_MEMORY in the environment"}},
		"two tables":       {[]string{"tables", "a", "b"}, exitUsage, []string{"takes one TABLE or NAMESPACE or CATALOG; \"b\" is a second one"}},
		"two datasets":     {[]string{"cat", "a", "b"}, exitUsage, []string{"takes one DATASET; \"b\" is a second one"}},
		"no dataset":       {[]string{"cat", "--config", l.config}, exitUsage, []string{"name a DATASET"}},
		"no source":        {[]string{"cat", "home"}, exitUsage, []string{"--config FILE", "--uri grpc://host:port"}},
		"both sources":     {[]string{"cat", "home", "--config", "a", "--uri", "b"}, exitUsage, []string{"give one of them"}},
		"format":           {[]string{"cat", "home", "--config", l.config, "--format", "xml"}, exitUsage, []string{"table, csv, jsonl, arrow"}},
		"limit":            {[]string{"cat", "home", "--config", l.config, "--limit", "-1"}, exitUsage, []string{"--limit"}},
		"every form":       {[]string{"cat", "home", "--config", l.config, "--every", "2"}, exitUsage, []string{"want w/n"}},
		"shard form":       {[]string{"cat", "home", "--config", l.config, "--shard", "2"}, exitUsage, []string{"want i/n"}},
		"serve nothing":    {[]string{"serve"}, exitUsage, []string{"--config FILE"}},
		"no file":          {[]string{"cat", "home", "--config", "none.yaml"}, exitFailure, []string{"there is no config file none.yaml", "→"}},
		"uri":              {[]string{"cat", "home", "--uri", "http://a:1"}, exitFailure, []string{"write grpc://a:1"}},
		"tls":              {[]string{"cat", "home", "--uri", "grpc+tls://a:1"}, exitFailure, []string{"no server answers"}},
		"no server":        {[]string{"cat", "home", "--uri", "grpc://127.0.0.1:1"}, exitFailure, []string{"connect to grpc://127.0.0.1:1", "penstock serve"}},
		"query is no JSON": {[]string{"cat", "home", "--config", l.config, "--query", "{"}, exitFailure, []string{"query", "not a JSON object"}},
		"query file":       {[]string{"cat", "--config", l.config, "--query", "@none.json"}, exitFailure, []string{"none.json"}},
		"cursor":           {[]string{"cat", "home", "--config", l.config, "--cursor", "{"}, exitFailure, []string{"cursor", "not JSON"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, c.args...)
			require.Equal(t, c.code, got.code, got.stderr)
			require.Empty(t, got.stdout)
			for _, text := range c.says {
				require.Contains(t, got.stderr, text)
			}
		})
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"dataset": {[]string{"hom"}, "penstock: there is no dataset \"hom\"\n  → did you mean \"home\"?\n"},
		"columns": {[]string{"home", "--columns", "labl,item,xyzzy"}, "penstock: plan dataset home: 2 faults\n" +
			"  columns[0]: the dataset has no column \"labl\" (did you mean \"label\"?)\n" +
			"  columns[2]: the dataset has no column \"xyzzy\"\n"},
		"filter": {[]string{"home", "--filter", "labl = true"}, "penstock: plan dataset home: filter: at position 1: unknown column \"labl\" (did you mean \"label\"?)\n"},
		"field":  {[]string{"--query", `{"dataset": "home", "colums": []}`}, "penstock: read the query: colums: unknown field (did you mean \"columns\"?)\n"},
		"shard":  {[]string{"home", "--shard", "4/2"}, ""},
		"lanes":  {[]string{"home", "--shard", "0/2", "--lanes", "3"}, ""},
		"rows":   {[]string{"home", "--lanes", "4", "--batch-rows", "3"}, ""},
		"table":  {[]string{"gone"}, ""},
	} {
		t.Run("same from a server: "+name, func(t *testing.T) {
			inside := run(t, append([]string{"cat", "--config", l.config}, c.args...)...)
			require.Equal(t, exitFailure, inside.code)
			if c.want != "" {
				require.Equal(t, c.want, inside.stderr)
			}
			require.Equal(t, inside, run(t, append([]string{"cat", "--uri", server.uri()}, c.args...)...))
		})
	}
}

// A server limits the details of a failure to a size that every client accepts. In process, they
// are complete.
func TestAllFaultsArePrintedInProcess(t *testing.T) {
	var columns []string
	for i := range 100 {
		columns = append(columns, fmt.Sprintf("no_such_column_of_the_dataset_%d", i))
	}
	got := run(t, "cat", "home", "--config", readLake(t).config, "--columns", strings.Join(columns, ","))
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "plan dataset home: 100 faults\n")
	for i, name := range columns {
		require.Contains(t, got.stderr, fmt.Sprintf("  columns[%d]: the dataset has no column %q\n", i, name))
	}
}

// explain computes what trainers need, in process and by a server.
//
// spec: output-18, output-19
func TestExplainScale(t *testing.T) {
	l := readLake(t)
	server := start(t, "--config", l.config).uri()
	for _, from := range [][]string{{"--config", l.config}, {"--uri", server}} {
		explain := func(more ...string) ran {
			return run(t, append(append([]string{"explain", "home", "--lanes", "4"}, from...), more...)...)
		}
		got := explain("--scale", "trainers=2,step=10ms", "--batch-rows", "100")
		require.Zero(t, got.code, got.stderr)
		require.Contains(t, got.stdout, "2 trainers × 100 rows / 10ms")
		require.LessOrEqual(t, strings.Count(got.stdout, "\n"), 40)
		var sized struct {
			Servers int
			Figures []struct {
				Name, Unit, How string
				Value           float64
				Rests           string `json:"rests_on"`
			}
		}
		got = explain("--scale", "trainers=2,step=10ms,rows=100", "--json")
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &sized), got.stderr)
		require.Equal(t, 2, sized.Servers)
		require.Equal(t, "rows_per_second", sized.Figures[1].Name)
		require.InDelta(t, 20_000, sized.Figures[1].Value, 0)
		require.Equal(t, "given", sized.Figures[1].Rests)
		require.NotContains(t, got.stdout, `"text"`)
		for load, says := range map[string]string{
			"trainers=3,step=10ms,rows=9":                    "3 trainers do not divide 4 lanes",
			"trainers=2,stepp=10ms,rows=9":                   `(did you mean "step"?)`,
			"trainers=2,step=10,rows=9":                      `"10" is not a time such as 5ms or 1.5s`,
			"trainers=2,step=1us,rows=9000,link=100Mbit/s":   "one stream needs",
			"trainers=2,step=1s,rows=9000,memory=257MiB":     "a server with one stream needs",
			"trainers=2,step=1s,rows=9,link=1,server_price=": "scale.server_price",
		} {
			got = explain("--scale", load)
			require.Equal(t, exitFailure, got.code, load)
			require.Contains(t, got.stderr, says, load)
		}
		got = explain("--scale", "trainers=2,step=10ms")
		require.Regexp(t, `step_rows +\d+ rows +assumed`, got.stdout)
		require.Regexp(t, `rows_per_second +.* +assumed`, got.stdout)
		got = explain("--scale", "trainers=2,step=10ms", "--query", `{"batch_requests": 8}`)
		require.Contains(t, got.stderr, "scale.rows: missing: batches of the query are some requests")
		got = explain("--scale", "trainers=2,step=1s", "--splits")
		require.Contains(t, got.stderr, "give one of them")
	}
}

// datasets and explain print JSON for scripts.
func TestJSONOfDatasetsAndExplain(t *testing.T) {
	l := readLake(t)
	got := run(t, "datasets", "--config", l.config, "--json")
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "1 of 3 datasets cannot be read: gone")
	require.Equal(t, exitFailure, run(t, "datasets", "--config", l.config).code)
	require.Zero(t, run(t, "datasets", "home", "--config", l.config).code)
	var all []datasetJSON
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &all))
	home := slices.IndexFunc(all, func(d datasetJSON) bool { return d.Name == "home" })
	require.NotNil(t, all[home].Rows)
	require.Positive(t, *all[home].Rows)
	require.NotEmpty(t, all[home].Staging)
	require.Nil(t, all[home].Error)

	var planned struct {
		Plan struct {
			Plan string `json:"plan"`
			Rows int64  `json:"rows"`
		} `json:"plan"`
		Columns []columnJSON `json:"columns"`
	}
	got = run(t, "explain", "home", "--config", l.config, "--json")
	require.Zero(t, got.code, got.stderr)
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &planned))
	require.Contains(t, run(t, "explain", "home", "--config", l.config).stdout, "plan "+planned.Plan.Plan)
	require.Equal(t, *all[home].Rows, planned.Plan.Rows)
	require.Equal(t, all[home].Columns, planned.Columns)

	// A dataset that cannot be read is listed with the reason, and the command fails.
	gone := slices.IndexFunc(all, func(d datasetJSON) bool { return d.Name == "gone" })
	require.Equal(t, "not found", all[gone].Error.Kind)
	require.Nil(t, all[gone].Rows)
}

func TestFaultyConfig(t *testing.T) {
	l := readLake(t)
	path := l.file(t, "faulty.yaml", "catalogs:\n  default: {type: sql, uri: \"sqlite:///catalog.db\"}\nserver:\n  listn: a\n  memory: b\n")
	got := run(t, "serve", "--config", path)
	require.Equal(t, ran{exitFailure, "", "penstock: 2 faults in " + path + "\n" +
		"  server.listn: unknown field (line 4) (did you mean \"listen\"?)\n" +
		"  server.memory: \"b\" is not a size such as 512MiB or 4GiB (line 5)\n"}, got)
	path = l.file(t, "nowhere.yaml", "catalogs:\n  a: {type: sql, uri: \"sqlite:///a.db\"}\n  b: {type: hive, uri: \"thrift://b:9083\"}\n")
	got = run(t, "datasets", "--config", path)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "2 faults")
	require.Contains(t, got.stderr, "a.db")
	require.Contains(t, got.stderr, `"hive" is not supported`)
}

func TestVersionAndHelp(t *testing.T) {
	help := run(t, "serve", "--help")
	require.Zero(t, help.code)
	golden(t, "serve-help.txt", help.stdout)
	require.Contains(t, run(t).stdout, "Available Commands")
}
