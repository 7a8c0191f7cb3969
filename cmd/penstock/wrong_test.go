package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wrong is a mistake that a new user could make, and the required parts of its error.
type wrong struct {
	name    string
	config  string   // the config file; "" means rightConfig
	args    []string // flags after "cat home --config FILE", or a whole command line that begins with a command
	place   string   // the place of the mistake: a file and line, the path of a field, or a flag
	nearest string   // the nearest valid name; "" if there is none
	todo    string   // the remedy
}

// rightConfig is a valid config file. The test cases change it.
const rightConfig = `catalogs:
  default: {type: sql, uri: "sqlite:///catalog.db"}
datasets:
  home:
    training: {table: ml.impressions}
    key: [request_id]
    staging:
      - {table: features.history, key: {request_id: req_id}}
`

// change returns the config file with one text replaced.
func change(left, right string) string {
	if !strings.Contains(rightConfig, left) {
		panic(left)
	}
	return strings.Replace(rightConfig, left, right, 1)
}

// asked returns the flags of a query with the given fields.
func asked(fields string) []string { return []string{"--query", `{"dataset": "home", ` + fields + `}`} }

func wrongs() []wrong {
	return append(append(wrongFiles(), wrongQueries()...), wrongCommands()...)
}

func wrongFiles() []wrong {
	entry := "- {table: features.history, key: {request_id: req_id}}"
	return []wrong{
		{"a catalog of no type", change("type: sql", "type: sqlite"), nil, "catalog default: type", "did you mean sql?", "use one of: directory, rest, sql"},
		{"another file of the catalog", change("catalog.db", "catlog.db"), nil, "catlog.db", "catalog.db", "correct its uri"},
		{"a catalog that is not a database", change("catalog.db", "penstock.yaml"), nil, "penstock.yaml", "", "name the catalog's SQLite file in its uri"},
		{"a folder that is none", change(`type: sql, uri: "sqlite:///catalog.db"`, "type: directory, warehouse: wh"), nil, "/wh", "", "check that warehouse is a folder"},
		{"a variable that is not set", change("sqlite:///", "sqlite:///${LAKE_OF_NOBODY}/"), nil, "catalogs.default.uri", "", "set it where Penstock starts"},
		{"no namespace", change("ml.impressions", "impressions"), nil, "datasets.home.training.table: (line 5)", "", "write namespace.table"},
		{"a table by a wrong name", change("ml.impressions", "ml.impresions"), nil, "table ml.impresions", "ml.impressions", "did you mean"},
		{"the table alone", change("{table: ml.impressions}", "ml.impressions"), nil, "datasets.home.training: (line 5)", "", `write training: {"table": "namespace.table"}`},
		{"the key alone", change("key: [request_id]", "key: request_id"), nil, "datasets.home.key: (line 6)", "", `write key: ["request_id"]`},
		{"a misspelt field", change("staging:", "stagings:"), nil, "datasets.home.stagings: (line 7)", "staging", "did you mean"},
		{"a key of another name", change(entry, "- {table: features.history}"), nil, "staging[0].key", "req_id", "write key: {request_id: req_id}"},
		{"a staging column as the key of both", change("key: {request_id: req_id}", "key: [req_id]"), nil, "staging[0].key", "request_id", "write key: {request_id: req_id}"},
		{"a key the other way about", change("key: {request_id: req_id}", "key: {req_id: request_id}"), nil, "staging[0].key", "", "the training column comes first; write key: {request_id: req_id}"},
		{"a key of another type", change("key: {request_id: req_id}", "key: {request_id: country}"), nil, "staging[0].key", "req_id", "write key: {request_id: req_id}"},
		{"a column of no name", change("req_id}}", "req_id}, columns: [contry]}"), nil, "staging[0].columns[0]", "country", "did you mean"},
		{"two columns of one name", change("req_id}}", "req_id}, columns: [{column: country, name: item}]}"), nil, "staging[0]", "", `set prefix: "history_"`},
		{"a join of no name", change("req_id}}", "req_id}, join: lft}"), nil, "datasets.home.staging[0].join: (line 8)", "left", "known: left, inner"},
		{"pandas' word for a key", change("key: {request_id: req_id}}", "on: request_id}"), nil, "datasets.home.staging[0].on: (line 8)", "key", "did you mean"},
		{"pandas' word for a join", change("req_id}}", "req_id}, how: left}"), nil, "datasets.home.staging[0].how: (line 8)", "join", "did you mean"},
		{"a branch of no name", change("ml.impressions}", "ml.impressions, ref: mian}"), nil, "table ml.impressions", "main", "name one of its refs: main"},
		{"another word for a setting", rightConfig + "server: {port: 8815}\n", nil, "server.port: (line 9)", "listen", "did you mean"},
		{"a size of one letter", rightConfig + "server: {memory: 4G}\n", nil, "server.memory: (line 9)", "", "write 4GiB"},
		{"a size in words", rightConfig + "server: {memory: 4 gigs}\n", nil, "server.memory: (line 9)", "", "such as 512MiB or 4GiB"},
		{"a port alone", rightConfig + "server: {listen: 8815}\n", nil, "server.listen: (line 9)", "", "write 127.0.0.1:8815"},
		{"a level of another program", rightConfig + "server: {log_level: warning}\n", nil, "server.log_level: (line 9)", "warn", "did you mean"},
		{"a catalog of another database", change(`type: sql, uri: "sqlite:///catalog.db"`, `uri: "mysql://host/lake"`), nil, "catalogs.default: (line 2)", "", "set type: sql, rest or directory"},
		{"a time of no column", change("req_id}}", "req_id}, point_in_time: {staging: ts, tolerance: 1d}}"), nil, "point_in_time.training: missing", "", `write training: "column"`},
		{"a key as one text", change("key: [request_id]", "key: request_id, item"), nil, "datasets.home.key: (line 6)", "", `write key: ["request_id", "item"]`},
		{"a direction of another form", change("req_id}}", "req_id}, duplicates: last, order_by: [country descending]}"), nil, "staging[0].order_by[0]: (line 8)", "", `write "country desc"`},
		{"a direction by a sign", change("req_id}}", "req_id}, duplicates: last, order_by: [-country]}"), nil, "staging[0].order_by[0]: (line 8)", "", `write "country desc"`},
		{"a type of SQL", change("req_id}}", "req_id}, columns: [{column: country, as: bigint}]}"), nil, "staging[0].columns[0].as: (line 8)", "long", "did you mean"},
		{"a default of no column", change("req_id}}", "req_id}, missing: 0}"), nil, "staging[0].missing: (line 8)", "", "write {default: {column: 0}}"},
		{"a catalog server without its address", change(`type: sql, uri: "sqlite:///catalog.db"`, "type: rest"), nil, "catalogs.default: (line 2)", "", `{type: rest, uri: "https://`},
		{"a tab", rightConfig + "\tserver: 1\n", nil, "line 9", "", "indented by spaces, not by tabs"},
	}
}

func wrongQueries() []wrong {
	filter := func(text string) []string { return []string{"--filter", text} }
	return []wrong{
		{"a word of PyTorch", "", asked(`"batch_size": 4`), "batch_size", "batch_rows", "did you mean"},
		{"one column, not a list", "", asked(`"columns": "item, label"`), "columns", "", `write columns: ["item", "label"]`},
		{"a pin that is a number", "", asked(`"snapshots": {"training": 12}`), "snapshots.training", "", `write training: {"snapshot": 12}`},
		{"a staging pin that is a number", "", asked(`"snapshots": {"staging": {"history": 12}}`), "snapshots.staging.history", "", `write history: {"snapshot": 12}`},
		{"a share in percent", "", asked(`"sample": {"rate": 10}`), "sample.rate", "", "10 % is 0.1"},
		{"all columns", "", asked(`"columns": ["*"]`), "columns[0]", "", "omit columns to get all of them"},
		{"columns without commas", "", []string{"--columns", "label country item"}, "columns[0]", "", "with commas"},
		{"a column by a wrong name", "", asked(`"columns": ["labl"]`), "columns[0]", "label", "did you mean"},
		{"shuffle as a switch", "", asked(`"shuffle": true`), "shuffle", "", `write order: "shuffled"`},
		{"a seed alone", "", asked(`"seed": 7`), "seed", "", "add order: shuffled"},
		{"a shard as a pair", "", asked(`"shard": [0, 4]`), "shard", "", `write shard: {"index": 0, "of": 4}`},
		{"lanes that do not divide", "", asked(`"lanes": 3, "batch_rows": 4`), "batch_rows", "", "use a multiple of 3, such as 3"},
		{"an epoch before the first", "", asked(`"epoch": -1`), "epoch", "", "must be at least 0"},
		{"a pin of no table", "", asked(`"snapshots": {"staging": {"histroy": {"snapshot": 1}}}`), "snapshots.staging", "history", "did you mean"},
		{"a pin that is gone", "", asked(`"snapshots": {"training": {"snapshot": 1}}`), "ml.impressions", "", "its snapshots are "},
		{"no cursor", "", asked(`"cursor": {}`), "cursor", "", "the object received with a batch, unchanged"},
		{"a filter in Python", "", filter("label == true AND score > 1"), "filter: at position 8", "", "equality is written ="},
		{"a filter in C", "", filter("item <> 'a' && score > 1"), "filter: at position 13", "", "joined by AND"},
		{"a filter of no column", "", filter("labl = true"), "filter: at position 1", "label", "did you mean"},
		{"a filter of a staging key", "", filter("req_id = 3"), "filter: at position 1", "request_id", "it is a key of history; name it in the entry's columns to offer it"},
		{"a staging key as a column", "", asked(`"columns": ["req_id"]`), "columns[0]", "request_id", "name it in the entry's columns to offer it"},
		{"a part of a column's name", "", asked(`"columns": ["request"]`), "columns[0]", "request_id", "did you mean"},
		{"a string without quotes", "", filter("item = plain"), "filter: at position 8", "", "a string is written in single quotes"},
		{"a number in quotes", "", filter("request_id = '3'"), `column "request_id" (int64)`, "", "write a number without quotes"},
		{"a time with a zone", "", filter("ts > TIMESTAMP '2026-10-01 00:00:00Z'"), `column "ts" (timestamp[us])`, "", "leave the offset out"},
		{"a column of a table", "", filter("history.country = 'de'"), "filter: at position 1", "country", "columns have no table's name before them"},
		{"not a number", "", filter("score = NaN"), "filter: at position 9", "", "there is no literal of it"},
		{"a date without quotes", "", filter("ts > 2026-10-01"), "filter: at position 6", "", "write TIMESTAMP '2026-10-01 12:00:00'"},
		{"quotes of a word processor", "", filter("item = \u2018de\u2019"), "filter: at position 8", "", "straight single quotes"},
		{"a match by a pattern", "", filter("item ~ 'd.*'"), "filter: at position 6", "", "LIKE"},
		{"an id in quotes", "", asked(`"snapshots": {"training": {"snapshot": "12"}}`), "ml.impressions", "", "its snapshots are "},
		{"an unknown function", "", filter("lowr(item) = 'a'"), "filter: at position 1", "lower", ""},
	}
}

func wrongCommands() []wrong {
	return []wrong{
		{"a flag misspelt", "", []string{"serve", "--confg", "penstock.yaml"}, "--confg", "--config", "did you mean"},
		{"a flag with one dash", "", []string{"cat", "home", "-config", "penstock.yaml"}, "-config", "--config", "take two dashes"},
		{"another word for a flag", "", []string{"--batch-size", "4"}, "--batch-size", "--batch-rows", "did you mean"},
		{"a field that is not a flag", "", []string{"--wire", "indexed"}, "--wire", "", "write --query"},
		{"a flag without its value", "", []string{"cat", "home", "--config", "--limit", "1"}, "--config", "", "--config FILE"},
		{"a file as an argument", "", []string{"serve", "penstock.yaml"}, `"penstock.yaml"`, "", "--config penstock.yaml"},
		{"a number in words", "", []string{"--limit", "ten"}, "--limit ten", "", "want a whole number"},
		{"a setting's flag", "", []string{"serve", "--config", "penstock.yaml", "--listen", "8815"}, "--listen", "", "write 127.0.0.1:8815"},
		{"another config file", "", []string{"cat", "home", "--config", "penstok.yaml"}, "penstok.yaml", "penstock.yaml", "name it with --config"},
		{"a form of no name", "", []string{"--format", "json"}, "--format json", "jsonl", "the formats are table"},
		{"a folder that is not there", "", []string{"--format", "csv", "--output", "none/x.csv"}, "none/x.csv", "", "name a file in a folder that exists"},
		{"a file of another form", "", []string{"--format", "csv", "--output", "x.parquet"}, "--output x.parquet", "", "leave --format out"},
		{"a file of no form", "", []string{"--output", "x.json"}, "--output x.json", "", "add --format"},
		{"a compressed file", "", []string{"--output", "x.csv.gz"}, "--output x.csv.gz", "", ".csv"},
		{"a file without a form", "", []string{"--output", "rows"}, "--output rows", "", ".parquet"},
		{"a folder as a file", "", []string{"--format", "csv", "--output", "."}, "--output .", "", "name a file in it"},
		{"a command misspelt", "", []string{"explane", "home"}, `"explane"`, "explain", "Did you mean this?"},
		{"a dataset misspelt", "", []string{"cat", "hom", "--config", "penstock.yaml"}, `dataset "hom"`, "home", "did you mean"},
		{"a server that is not there", "", []string{"cat", "home", "--uri", "127.0.0.1:1"}, "127.0.0.1:1", "", "penstock serve --config FILE"},
		{"a flag of other servers", "", []string{"serve", "--config", "penstock.yaml", "--port", "8815"}, "--port", "--listen", "did you mean"},
		{"another server's address of the web", "", []string{"cat", "home", "--uri", "http://train01:8815"}, "uri", "", "write grpc://train01:8815"},
		{"a server without its port", "", []string{"cat", "home", "--uri", "127.0.0.1"}, "the host 127.0.0.1 and no port", "", "write grpc://127.0.0.1:8815"},
		{"an address to serve on without its port", "", []string{"serve", "--config", "penstock.yaml", "--listen", "::1"}, "--listen", "", "write [::1]:8815"},
		{"the address that serve prints", "", []string{"cat", "home", "--uri", "unix:///run/p"}, "uri", "", "write grpc+unix:///run/p"},
		{"an address of the web", "", []string{"cat", "home", "--uri", "http://127.0.0.1:8815"}, "uri", "", "write grpc://127.0.0.1:8815"},
	}
}

// Each error names the place of the mistake, the nearest valid name if there is one, and a remedy.
// It names the config file only if the mistake is there.
//
// spec: output-13
func TestErrorsOfWrongInputs(t *testing.T) {
	l := readLake(t)
	t.Chdir(l.dir)
	require.Equal(t, exitOK, run(t, "cat", "home", "--config", l.file(t, "right.yaml", rightConfig)).code)
	all := wrongs()
	require.GreaterOrEqual(t, len(all), 40)
	for _, w := range all {
		t.Run(w.name, func(t *testing.T) {
			file := "penstock.yaml"
			if w.config != "" {
				file = "wrong.yaml"
				l.file(t, file, w.config)
				defer os.Remove(filepath.Join(l.dir, file)) //nolint:errcheck // or the next one takes its place
			}
			args := w.args
			if len(args) == 0 || strings.HasPrefix(args[0], "-") {
				args = append([]string{"cat", "home", "--config", file}, args...)
			}
			got := run(t, args...)
			require.NotEqual(t, exitOK, got.code)
			require.Empty(t, got.stdout)
			for part := range strings.SplitSeq(w.place, ": (") { // the line number follows the place
				require.Contains(t, got.stderr, part, "the place")
			}
			if w.nearest != "" {
				require.Contains(t, strings.ReplaceAll(got.stderr, strings.Join(args, " "), ""), w.nearest, "the nearest right name")
			} else {
				require.NotContains(t, strings.ToLower(got.stderr), "did you mean")
			}
			require.Contains(t, got.stderr, w.todo, "what to do")
			if strings.Contains(w.place, "(line") {
				require.Contains(t, got.stderr, "wrong.yaml")
			}
			if w.config == "" {
				require.NotContains(t, got.stderr, "file: ", "nothing is wrong with the config file")
			}
		})
	}
}
