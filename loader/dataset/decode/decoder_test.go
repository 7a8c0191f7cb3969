package decode_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
	"github.com/penstock/penstock/loader/dataset/decode"
)

const homefeed = `
training:
  table: lake.ml.impressions
  ref: main
  filter: "surface = 'home'"
key: [request_id, day]
staging:
  - &history
    table: features.user_history_v3
    key: {request_id: req_id, day: day}
    columns: [pins, {column: country, name: user_country}]
    missing: null
  - <<: *history
    table: features.items
    name: items
    key: [item_id]
    snapshot: 8_812
    columns: []
    prefix: i_
    join: inner
    missing: error
    duplicates: last
  - {table: features.genres, ref: v1, filter: , prefix: ""}
`

func TestYAMLForms(t *testing.T) {
	t.Parallel()
	got, err := decode.Dataset("homefeed", document(t, homefeed))
	require.NoError(t, err)
	want := dataset.Dataset{
		Name:     "homefeed",
		Training: dataset.Training{Table: "lake.ml.impressions", Filter: datasettest.Filter("surface = 'home'")},
		Key:      []string{"request_id", "day"},
		Staging: []dataset.Staging{
			{
				Table: "features.user_history_v3", Name: "user_history_v3",
				Key:     []dataset.KeyPair{{Training: "request_id", Staging: "req_id"}, {Training: "day", Staging: "day"}},
				Columns: []dataset.Column{{Column: "pins"}, {Column: "country", Name: "user_country"}},
				Join:    rule.Left, Missing: rule.MissingNull, Duplicates: rule.DuplicatesError,
				Strategy: rule.StrategyAuto, MaxAmplification: 4,
			},
			{
				Table: "features.items", Name: "items", Ref: dataset.Ref{Snapshot: 8812},
				Key: []dataset.KeyPair{{Training: "item_id", Staging: "item_id"}}, Columns: []dataset.Column{},
				Prefix: "i_", Join: rule.Inner, Missing: rule.MissingError, Duplicates: rule.DuplicatesLast,
				Strategy: rule.StrategyAuto, MaxAmplification: 4,
			},
			{
				Table: "features.genres", Name: "genres", Ref: dataset.Ref{Name: "v1"},
				Key:  []dataset.KeyPair{{Training: "request_id", Staging: "request_id"}, {Training: "day", Staging: "day"}},
				Join: rule.Left, Missing: rule.MissingNull, Duplicates: rule.DuplicatesError,
				Strategy: rule.StrategyAuto, MaxAmplification: 4,
			},
		},
	}
	require.Equal(t, want, got)
	same(t, `{"training":{"table":"lake.ml.impressions","filter":"surface = 'home'"},"key":["request_id","day"],"staging":[`+
		`{"table":"features.user_history_v3","key":{"request_id":"req_id","day":"day"},"columns":["pins",{"column":"country","name":"user_country"}]},`+
		`{"table":"features.items","snapshot":8812,"key":["item_id"],"columns":[],"prefix":"i_","join":"inner","missing":"error","duplicates":"last"},`+
		`{"table":"features.genres","ref":"v1"}]}`, got.Canonical())
}

// same compares texts exactly, including order and white space.
func same(t *testing.T, want string, got []byte) {
	t.Helper()
	require.Equal(t, []byte(want), got, "%s", got)
}

// TestDigest checks that the digest depends on the meaning of a dataset, not on its text.
func TestDigest(t *testing.T) {
	t.Parallel()
	digest := func(text string) string {
		d, err := decode.Dataset(strconv.Itoa(len(text)), document(t, text))
		require.NoError(t, err)
		return d.Digest()
	}
	first := digest(`{training: {table: a.b, filter: "x = 1 and y<2"}, key: [k], staging: [{table: c.d}]}`)
	require.Len(t, first, 32)
	for _, same := range []string{
		`{training: {table: a.b, ref: main, filter: "x  =  1  AND  y  <  2"}, key: [k], staging: [{table: c.d}]}`,
		`{training: {table: a.b, filter: "x = 1 and y<2"}, key: [k], staging: [{table: c.d, name: d, key: {k: k}, join: left, missing: null, duplicates: error}]}`,
	} {
		require.Equal(t, first, digest(same))
	}
	for _, other := range []string{
		`{training: {table: a.b, filter: "x = 1 and y<3"}, key: [k], staging: [{table: c.d}]}`,
		`{training: {table: a.b, filter: "x = 1 and y<2"}, key: [k], staging: [{table: c.d, name: e}]}`,
		`{training: {table: a.b, filter: "x = 1 and y<2"}, key: [k], staging: [{table: c.d, columns: []}]}`,
		`{training: {table: a.b, filter: "x = 1 and y<2"}, key: [k], staging: [{table: c.d, key: {k: l}}]}`,
		`{training: {table: a.b, filter: "x = 1 and y<2", snapshot: 1}, key: [k], staging: [{table: c.d}]}`,
	} {
		require.NotEqual(t, first, digest(other))
	}
	made := dataset.Dataset{Training: dataset.Training{Table: "a.b", Filter: datasettest.Filter("x = 1 AND y < 2")}, Key: []string{"k"}, Staging: []dataset.Staging{{Table: "c.d"}}}
	require.Equal(t, first, made.Digest(), "defaults need not be set")
	require.Empty(t, made.Staging[0].Name, "the dataset itself is not changed")
}

func TestQueryDefaults(t *testing.T) {
	t.Parallel()
	base := dataset.Query{
		Rows:    dataset.Rows{Dataset: "d", Order: dataset.Stored, Shuffle: dataset.ShuffleSplits, Lanes: 1},
		Reading: dataset.Reading{Shard: dataset.Shard{Index: dataset.AllShards, Of: 1}, Every: dataset.Every{Of: 1}, Tail: dataset.TailKeep, Count: dataset.CountEstimate, Wire: dataset.WirePlain, Cache: dataset.CacheRead, Endpoints: dataset.EndpointsShards},
	}
	with := func(change func(*dataset.Query)) dataset.Query {
		q := base
		change(&q)
		return q
	}
	for text, want := range map[string]dataset.Query{
		`{"dataset":"d"}`: base,
		`{"dataset":"d","wire":"plain","endpoints":"shards","shuffle":"splits","cache":"read","order":"stored","tail":"keep","count":"estimate","seed":0,"sample":null}`: base,
		`{"dataset":"d","shard":{"of":4}}`: with(func(q *dataset.Query) {
			q.Lanes, q.Shard.Of = 4, 4
		}),
		`{"dataset":"d","shard":{"index":3,"of":4},"lanes":12}`: with(func(q *dataset.Query) {
			q.Lanes, q.Shard = 12, dataset.Shard{Index: 3, Of: 4}
		}),
		`{"dataset":"d","shard":{"index":0},"lanes":3,"batch_rows":6}`: with(func(q *dataset.Query) {
			q.Lanes, q.Shard, q.BatchRows = 3, dataset.Shard{Of: 1}, 6
		}),
		`{"dataset":"d","wire":"indexed"}`: with(func(q *dataset.Query) { q.Wire = dataset.WireIndexed }),
		`{"dataset":"d","endpoints":"splits","global_batch_rows":3}`: with(func(q *dataset.Query) {
			q.Endpoints, q.GlobalBatchRows = dataset.EndpointsSplits, 3
		}),
		`{"dataset":"d","batch_requests":6,"lanes":3}`: with(func(q *dataset.Query) { q.Lanes, q.BatchRequests, q.Requests = 3, 6, true }),
		`{"dataset":"d","limit":9223372036854775807,"lanes":4,"global_batch_rows":16}`: with(func(q *dataset.Query) {
			q.Limit, q.Lanes, q.GlobalBatchRows = 1<<63-1, 4, 16
		}),
		`{"dataset":"d","wire":"auto","dense":{"f":["a",{"column":"b","as":"float"}],"g":{"columns":["c"],"fill":-1}}}`: with(func(q *dataset.Query) {
			fill := float32(-1)
			q.Wire = dataset.WireAuto
			q.Dense = []dataset.Dense{
				{Name: "f", Columns: []dataset.Column{{Column: "a"}, {Column: "b", As: "float"}}},
				{Name: "g", Columns: []dataset.Column{{Column: "c"}}, Fill: &fill},
			}
		}),
		`{"dataset":"d","columns":[{"column":"a","name":"b","as":"category"}]}`: with(func(q *dataset.Query) {
			q.Columns = []dataset.Column{{Column: "a", Name: "b", As: dataset.Category}}
		}),
		`{"dataset":"d","every":{"step":2,"of":3}}`: with(func(q *dataset.Query) { q.Every = dataset.Every{Step: 2, Of: 3} }),
		`{"dataset":"d","every":{"step":0,"of":1}}`: base,
		`{"dataset":"d","lanes":4096,"order":"shuffled","seed":-9223372036854775808}`: with(func(q *dataset.Query) {
			q.Lanes, q.Order, q.Shuffle, q.Seed = 4096, dataset.Shuffled, "", -1<<63
		}),
	} {
		got, err := decode.Query([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		require.Equal(t, got, got.Defaults(), "defaults are set once")
	}
	require.Equal(t, base, dataset.Query{Rows: dataset.Rows{Dataset: "d"}}.Defaults())
	same(t, `{"dataset":"d"}`, base.Canonical())
	same(t, `{"dataset":"d","filter":"a < 1","columns":["a",{"column":"b","name":"c"}],"shard":{"index":0,"of":2}}`,
		dataset.Query{
			Rows:    dataset.Rows{Dataset: "d", Filter: datasettest.Filter("a < 1")},
			Reading: dataset.Reading{Columns: []dataset.Column{{Column: "a"}, {Column: "b", Name: "c"}}, Shard: dataset.Shard{Index: 0, Of: 2}},
		}.Canonical())
}

// TestFaultsSayWhatToWrite checks that errors include what to write instead.
func TestFaultsSayWhatToWrite(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"dataset":"d","seed":7}`:       "seed: has no effect with order: stored; add order: shuffled",
		`{"dataset":"d","shuffle":true}`: `shuffle: must be text, not true or false; write order: "shuffled", and shuffle: "requests", "rows" or "splits"`,
		`{"dataset":"d","shard":[0,4]}`:  `shard: must be an object, not a list; write shard: {"index": 0, "of": 4}`,
		`{"dataset":"d","sample":0.1}`:   `sample: must be an object, not a number with a point or exponent; write sample: {"rate": 0.1`,
		`{"dataset":"d","start":"warm"}`: "start: not supported by this version; leave it out",
		`{"dataset":"d","cursor":{}}`:    "cursor: this is not a cursor: it has neither a version nor a plan; write cursor: and the object received with a batch, unchanged",
	} {
		_, err := decode.Query([]byte(text))
		require.Equal(t, fault.Invalid, fault.KindOf(err), text)
		require.ErrorContains(t, err, want, text)
	}
}

// TestFaultsOfQueries checks that each fault names its field and suggests a remedy.
func TestFaultsOfQueries(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	for text, want := range map[string]string{
		``:                                              "the query is empty",
		`{"dataset":"d"} x`:                             "at position 17: the query is not JSON: invalid character 'x' after top-level value",
		`{"dataset":"é" "a":1}`:                         "at position 16: the query is not JSON: invalid character '\"' after object key:value pair",
		`{"dataset":`:                                   "at position 11: the query is not JSON: unexpected end of JSON input",
		"{\"dataset\":\"\xff\"}":                        "the query is not valid UTF-8",
		`{}`:                                            "dataset: missing",
		`{"dataset":null}`:                              "dataset: missing",
		`{"dataset":1}`:                                 "dataset: must be a dataset's name or a dataset, not a whole number",
		`{"dataset":""}`:                                "dataset: must not be empty",
		`{"dataset":"a\nb"}`:                            "dataset: must not contain control characters",
		`{"dataset":"d","dataset":{}}`:                  "dataset: the field is repeated",
		`{"dataset":{"name":"d"}}`:                      "dataset.training: missing",
		`{"dataset":"d","columns":[]}`:                  "columns: must name at least one column; leave the field out for all",
		`{"dataset":"d","columns":[null]}`:              "columns[0]: must be text, not null",
		`{"dataset":"d","columns":["a","a"]}`:           `columns[1]: columns[0] already has the name "a"; rename one of them`,
		`{"dataset":"d","filter":"a >"}`:                "filter: at position 4: the filter ends too early",
		`{"dataset":"d","shard":{"of":0}}`:              "shard.of: must be at least 1, not 0",
		`{"dataset":"d","shard":{"index":2,"of":2}}`:    "shard.index: shard 2 is out of range for 2 shards; the last one is 1",
		`{"dataset":"d","shard":{"index":1}}`:           "shard.index: shard 1 is out of range for 1 shard; the last one is 0",
		`{"dataset":"d","shard":{"index":-1,"of":2}}`:   "shard.index: must be at least 0, not -1",
		`{"dataset":"d","lanes":5000}`:                  "lanes: must be at most 4096, not 5000",
		`{"dataset":"d","lanes":4,"shard":{"of":3}}`:    "shard.of: 3 shards do not divide 4 lanes; set lanes to a multiple of 3, such as 6",
		`{"dataset":"d","lanes":4096,"shard":{"of":3}}`: "shard.of: 3 shards do not divide 4096 lanes; set lanes to 4095",
		`{"dataset":"d","lanes":6,"shard":{"of":2},"batch_rows":100}`:                 "batch_rows: 100 rows cannot be divided among the 3 lanes of a shard; use a multiple of 3, such as 99",
		`{"dataset":"d","lanes":6,"batch_rows":1}`:                                    "batch_rows: 1 row cannot be divided among the 6 lanes of a shard; use a multiple of 6, such as 6",
		`{"dataset":"d","lanes":6,"batch_rows":16777216}`:                             "such as 16777212",
		`{"dataset":"d","lanes":6,"batch_rows":11}`:                                   "such as 12",
		`{"dataset":"d","lanes":"6"}`:                                                 "lanes: must be a whole number, not text",
		`{"dataset":"d","lanes":6.0}`:                                                 "lanes: must be a whole number, not a number with a point or exponent",
		`{"dataset":"d","batch_size":8}`:                                              `batch_size: unknown field (did you mean "batch_rows"?)`,
		`{"dataset":"d","Where":"a = 1"}`:                                             `Where: unknown field (did you mean "filter"?)`,
		`{"dataset":"d","job":""}`:                                                    "job: must be 1 to 128 letters, digits and characters of ._-/:@+=",
		`{"dataset":"d","job":"two words"}`:                                           "job: must be 1 to 128 letters, digits and characters of ._-/:@+=",
		`{"dataset":"d","job":"né"}`:                                                  "job: must be 1 to 128 letters, digits and characters of ._-/:@+=",
		`{"dataset":"d","job":"` + strings.Repeat("j", 129) + `"}`:                    "job: must be 1 to 128 letters, digits and characters of ._-/:@+=",
		`{"dataset":"d","job":7}`:                                                     "job: must be text, not a whole number",
		`{"dataset":"d","cach":"off"}`:                                                `cach: unknown field (did you mean "cache"?)`,
		`{"dataset":"d","snapshots":{"training":{"schema":1}}}`:                       `snapshots.training.uuid: missing; snapshots.training.snapshot: missing`,
		`{"dataset":"d","snapshots":{"staging":{"s":{"snapshot":-1}}}}`:               `snapshots.staging.s.snapshot: must be at least 1, not -1`,
		`{"dataset":"d","snapshots":{"training":{"snapshot":"88390500955126643.0"}}}`: "snapshots.training.snapshot: must be a whole number, not text; to read a branch or tag, set the ref of training in the dataset",
		`{"dataset":"d","snapshots":{"training":{"snapshot":"-1"}}}`:                  "snapshots.training.snapshot: must be at least 1, not -1",
		`{"dataset":"d","since":"9223372036854775808"}`:                               "since: must be a whole number, not text",
		`{"dataset":"d","seed":"7"}`:                                                  "seed: must be a whole number, not text; write it without quotes",
		`{"dataset":"d","snapshots":{"staging":{"s":{"snapshot":"gold"}}}}`:           "snapshots.staging.s.snapshot: must be a whole number, not text; to read a branch or tag, set the ref of staging.s in the dataset",
		`{"dataset":"d","snapshots":{"training":{}}}`:                                 `snapshots.training.snapshot: missing`,
		`{"dataset":"d","epoch":-1}`:                                                  `epoch: must be at least 0, not -1`,
		`{"dataset":"d","order":"Shuffled"}`:                                          `order: unknown value "Shuffled"; known: stored, shuffled (did you mean "shuffled"?)`,
		`{"dataset":"d","shuffle":"rows"}`:                                            "shuffle: rows has no effect with order: stored; add order: shuffled",
		`{"dataset":"d","shuffle_window":5}`:                                          "shuffle_window: has no effect with order: stored",
		`{"dataset":"d","order":"shuffled","shuffle":"splits","shuffle_window":5}`:    "shuffle_window: has no effect with shuffle: splits, only with requests or rows",
		`{"dataset":"d","wire":"grouped"}`:                                            "wire: grouped sends one row per request, so batches are sized in requests; set batch_requests",
		`{"dataset":"d","cursor":"x"}`:                                                "cursor: must be an object, not text",
		`{"dataset":"d","x":` + deep + `}`:                                            "values are nested more than 32 deep",
		`{"dataset":"d","columns":[` + strings.Repeat(`"a",`, 10_000) + `"a"]}`:       "columns: the list has 10001 entries, the limit is 10000",
		`{"dataset":"` + strings.Repeat("n", 1025) + `"}`:                             "dataset: has 1025 bytes, the limit is 1024",
		`{"dataset":"` + strings.Repeat("n", 1<<20) + `"}`:                            "the query has 1048590 bytes, the limit is 1048576",
		`{"dataset":"d","x":[` + strings.Repeat("0,", 200_000) + `0]}`:                "there are more than 131072 of them",
		`[{"dataset":"d"}]`:                                                           "must be an object, not a list",
		`{"dataset":"d","dense":["a"]}`:                                               "dense: must be an object that maps names to lists of columns, not a list",
		`{"dataset":"d","dense":{"f":"a"}}`:                                           "dense.f: must be a list of columns, or an object with columns and fill, not text",
		`{"dataset":"d","dense":{"f":null}}`:                                          "dense.f: must be a list of columns, or an object with columns and fill, not null",
		`{"dataset":"d","dense":{"f":[]}}`:                                            "dense.f: must name at least one column",
		`{"dataset":"d","dense":{"f":{"fill":0}}}`:                                    "dense.f.columns: missing",
		`{"dataset":"d","dense":{"f":{"columns":["a"],"fil":0}}}`:                     `dense.f.fil: unknown field (did you mean "fill"?)`,
		`{"dataset":"d","dense":{"f":{"columns":["a"],"fill":1e39}}}`:                 "dense.f.fill: must be at most 3.4028234663852886e+38, not 1e+39",
		`{"dataset":"d","dense":{"f":{"columns":["a"],"fill":"x"}}}`:                  "dense.f.fill: must be a number, not text",
		`{"dataset":"d","dense":{"f":[{"column":"a","name":"b"}]}}`:                   `dense.f[0]: the name "b" has no effect`,
		`{"dataset":"d","dense":{"f":[{"column":"a","as":"category"}]}}`:              "dense.f[0].as: category is a form of texts, and dense packs numbers; name the column in columns",
		`{"dataset":"d","columns":[{"column":"a","as":"categorical"}]}`:               `category (did you mean "category"?)`,
		`{"dataset":"d","dense":{"":["a"]}}`:                                          "a column's name has 1 to 1024 bytes",
		`{"dataset":"d","dense":{"f":["a"],"f":["b"]}}`:                               "dense.f: the field is repeated",
	} {
		_, err := decode.Query([]byte(text))
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%.80s", text)
		require.ErrorContains(t, err, want, "%.80s", text)
		require.NotEmpty(t, fault.As(err).Faults)
	}
}

// TestFaultsOfDatasets checks faults that the golden files do not include.
func TestFaultsOfDatasets(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("  - {table: a.b, name: n}\n", 65)
	var bomb strings.Builder
	bomb.WriteString("a: &a [x, x, x, x, x, x, x, x]\n")
	for i := 'b'; i <= 'h'; i++ {
		fmt.Fprintf(&bomb, "%c: &%c [%s*%c]\n", i, i, strings.Repeat(fmt.Sprintf("*%c, ", i-1), 7), i-1)
	}
	for text, want := range map[string]string{
		"training: {table: a.b}\nstaging:\n" + many:                                    "staging: the list has 65 entries, the limit is 64 (line 2)",
		"training: &t {table: a.b, filter: *t}":                                        "values are nested more than 32 deep",
		bomb.String():                                                                  "there are more than 131072 of them",
		"training: {table: a.b}\nstaging: {}":                                          "staging: must be a list, not an object; write staging: [{\"table\": \"namespace.table\"}] (line 2)",
		"training: {? [a] : b}":                                                        "training: a field's name must be text (line 1)",
		"training: {~: b}":                                                             "training: a field's name must be text (line 1)",
		"training: {table: !!binary aGVsbG8=}":                                         "training.table: values of type !!binary are not supported (line 1)",
		"training: {table: !mine x}":                                                   "values of type !mine are not supported",
		"training: {table: a.b, snapshot: 0}":                                          "training.snapshot: must be at least 1, not 0 (line 1)",
		"training: {table: a.b, snapshot: 1e3}":                                        "training.snapshot: must be a whole number, not a number with a point or exponent",
		"training: {<<: [1], table: a.b}":                                              "training.<<: must merge a mapping or a list of them, not a whole number (line 1)",
		"training: {table: a.b, filter: [x]}":                                          "training.filter: must be text, not a list",
		"training: {table: true}":                                                      "training.table: must be text, not true or false; put it in quotes (line 1)",
		"{training: {table: a.b}, staging: [{table: a.c, key: {}}]}":                   "staging[0].key: must have 1 to 32 columns, not 0",
		"{training: {table: a.b}, staging: [{table: a.c, key: {a: ''}}]}":              "staging[0].key.a: must not be empty",
		"{training: {table: a.b}, staging: [{table: a.c, key: {'': a}}]}":              `staging[0].key[""]: a column's name has 1 to 1024 bytes`,
		"{training: {table: a.b, request_level: []}, key: [k]}":                        "training.request_level: must name at least one column",
		"{training: {table: a.b, request_level: [u, v, u]}, key: [k]}":                 `training.request_level[2]: "u" is listed twice`,
		"{training: {table: a.b, request_level: [u]}}":                                 "training.request_level: the dataset has no key, which tells requests apart",
		"{training: {table: a.b}, key: [k], staging: [{table: a.c, missing: {x: 1}}]}": "staging[0].missing.x: unknown field; known: default (line 1); staging[0].missing.default: missing",
		"{training: {table: a.b}, key: [k], staging: [{table: a.c, prefix: p, columns: [a, {column: b, name: pa}]}]}": `staging[0].columns[1]: columns[0] already has the name "pa"`,
		"{training: ml.t}":                      `training: must be an object, not text; write training: {"table": "namespace.table"} (line 1)`,
		"{training: {table: a.b, as_of: 2026}}": "training.as_of: not supported by this version; write ref: and a branch or tag, or snapshot: and a snapshot's id (line 1)",
	} {
		_, err := decode.Dataset("d", document(t, text))
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%.80s", text)
		require.ErrorContains(t, err, want, "%.80s", text)
	}
	for _, name := range []string{"", "a\tb"} {
		_, err := decode.Dataset(name, document(t, "training: {table: a.b}"))
		require.ErrorContains(t, err, "a dataset's name has 1 to 1024 bytes and no control characters")
	}
}

// TestUnservedFields checks that each specified field that this version does not support
// is rejected by name in YAML and JSON, and that null counts as omitted.
func TestUnservedFields(t *testing.T) {
	t.Parallel()
	for path, fields := range map[string]string{
		`{"training":{"table":"a.b",%s}}`:                                         "as_of",
		`{"training":{"table":"a.b"},"staging":[{"table":"c.d","key":["k"],%s}]}`: "as_of",
	} {
		for name := range strings.FieldsSeq(fields) {
			text := fmt.Sprintf(path, `"`+name+`":1`)
			for _, err := range []error{yamlFault(t, text), queryFault(`{"dataset":` + text + `}`)} {
				require.ErrorContains(t, err, "."+name+": not supported by this version")
				require.Len(t, fault.As(err).Faults, 1)
			}
			text = fmt.Sprintf(path, `"`+name+`":null`)
			require.NoError(t, yamlFault(t, text))
			require.NoError(t, queryFault(`{"dataset":`+text+`}`))
		}
	}
	require.ErrorContains(t, queryFault(`{"dataset":"d","start":{}}`), "start: not supported by this version")
}

func yamlFault(t *testing.T, text string) error {
	t.Helper()
	_, err := decode.Dataset("d", document(t, text))
	return err
}

func queryFault(text string) error {
	_, err := decode.Query([]byte(text))
	return err
}

// TestManyFaultsAreCounted checks that malicious input does not produce an endless error.
func TestManyFaultsAreCounted(t *testing.T) {
	t.Parallel()
	err := queryFault(`{"dataset":"d","columns":[` + strings.Repeat("1,", 5000) + `1]}`)
	faults := fault.As(err).Faults
	require.Len(t, faults, 101)
	require.Equal(t, "and 4901 more faults", faults[100].Message)
}

func TestDocumentOrItsValue(t *testing.T) {
	t.Parallel()
	node := document(t, "training: {table: a.b}")
	for _, n := range []*yaml.Node{node, node.Content[0]} {
		d, err := decode.Dataset("d", n)
		require.NoError(t, err)
		require.Equal(t, "a.b", d.Training.Table)
	}
}

// TestFaultsOfFiltersHavePositions checks that a fault of a filter names its field and its
// readPosition in the filter's text.
func TestFaultsOfFiltersHavePositions(t *testing.T) {
	t.Parallel()
	_, err := decode.Query([]byte(`{"dataset": "d", "filter": "day = = 1"}`))
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.Equal(t, 7, fault.As(err).Faults[0].Position)
	require.Equal(t, "filter", fault.As(err).Faults[0].Field)
}

// A snapshot id is a number, or a string of digits as in reports: both are the same query.
//
// spec: output-15
func TestSnapshotIDsAreNumbersOrStrings(t *testing.T) {
	const form = `{"dataset":{"training":{"table":"a.b","snapshot":%[1]s},"key":["k"],"staging":[{"table":"c.d","snapshot":%[1]s}]},"since":%[1]s,` +
		`"snapshots":{"training":{"snapshot":%[1]s},"staging":{"d":{"uuid":"u","snapshot":%[1]s,"schema":0}}}}`
	number, err := decode.Query(fmt.Appendf(nil, form, "88390500955126643"))
	require.NoError(t, err)
	text, err := decode.Query(fmt.Appendf(nil, form, `"88390500955126643"`))
	require.NoError(t, err)
	require.Equal(t, number, text)
	require.Equal(t, int64(88390500955126643), text.Since)
	restore, err := decode.Restore([]byte(`{"table": "a.b", "snapshot": "88390500955126643"}`))
	require.NoError(t, err)
	require.Equal(t, int64(88390500955126643), restore.Snapshot)
}

// A hostile query may have any number of unknown fields. Those beyond the faults that are listed are only counted.
func TestManyUnknownFieldsAreCounted(t *testing.T) {
	const unknown = 5000
	var text strings.Builder
	text.WriteString(`{"dataset": "d"`)
	for i := range unknown {
		fmt.Fprintf(&text, `, "colums%d": 1`, i)
	}
	text.WriteString("}")
	_, err := decode.Query([]byte(text.String()))
	faults := fault.As(err).Faults
	require.Equal(t, "and 4900 more faults", faults[len(faults)-1].Message)
	require.Less(t, testing.AllocsPerRun(1, func() { _, _ = decode.Query([]byte(text.String())) }), 30.0*unknown)
}
