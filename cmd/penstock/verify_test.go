package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader"
)

func TestVerify(t *testing.T) {
	l := readLake(t)
	server := start(t, "--config", l.config)
	strict := `{"dataset": {"training": {"table": "ml.impressions"}, "key": ["request_id"], "staging": [` +
		`{"table": "features.history", "key": {"request_id": "req_id"}, "min_match": 0.9, "missing": "error"}]}}`
	for name, c := range map[string]struct {
		args []string
		code int
		says []string
	}{
		"clean":       {[]string{"verify", "home"}, exitOK, []string{"staging history, features.history: 2 files, 4 rows", "matches: 5 of 7 training rows", "no findings that break a stream or a rule\nworth knowing: 1 finding\n  checksums\n"}},
		"filter":      {[]string{"verify", "home", "--filter", "request_id = 3"}, exitOK, []string{"matches: 1 of 1 training row", "3 keys (3 rows) without a training row"}},
		"findings":    {[]string{"verify", "--query", strict}, exitFindings, []string{"breaks a stream: 1 finding\n  missing, history", "breaks a rule: 1 finding\n  match_rate, history", "min_match requires 90%"}},
		"no such":     {[]string{"verify", "hom"}, exitUnverified, []string{`there is no dataset "hom"`}},
		"no table":    {[]string{"verify", "gone"}, exitUnverified, []string{"ml.impresions does not exist"}},
		"no dataset":  {[]string{"verify"}, exitUsage, []string{"name a DATASET"}},
		"bad filter":  {[]string{"verify", "home", "--filter", "a ="}, exitUnverified, []string{"filter"}},
		"not a query": {[]string{"verify", "home", "--query", "{"}, exitUnverified, []string{"not a JSON object"}},
		"as json":     {[]string{"verify", "home", "--json"}, exitOK, []string{`"orphan_keys": 0`, `"partition": "bucket[3](req_id) = 0"`, `"grade": "note"`}},
		"as json too": {[]string{"verify", "--query", strict, "--json"}, exitFindings, []string{`"kind": "match_rate"`}},
	} {
		t.Run(name, func(t *testing.T) {
			inside := run(t, append(c.args, "--config", l.config)...)
			require.Equal(t, c.code, inside.code, "%s%s", inside.stdout, inside.stderr)
			for _, says := range c.says {
				require.Contains(t, inside.stdout+inside.stderr, says)
			}
			require.Equal(t, c.code == exitOK || c.code == exitFindings, inside.stderr == "", "only the report is printed")
			require.Equal(t, inside, run(t, append(c.args, "--uri", server.uri())...))
		})
	}
	got := run(t, "verify", "home", "--config", l.config, "--json")
	v := verificationOf(t, got.stdout)
	require.Equal(t, run(t, "verify", "home", "--config", l.config).stdout, v.String())
	require.Equal(t, exitUnverified, run(t, "verify", "home", "--uri", "grpc://127.0.0.1:1").code)
	require.Equal(t, exitUsage, run(t, "verify", "home").code)
}

// The keys in a report stay correct after the memory that they were decoded into is reused.
func TestVerifyNamesKeys(t *testing.T) {
	l := lake{dir: t.TempDir()}
	c, done := newCatalog(t, l.dir)
	p := iceberg.PrimitiveTypes
	key := func(i int) string { // short keys, and long keys, which a report truncates
		return fmt.Sprintf("key-%04d%s", i, strings.Repeat("-long", i%2*20))
	}
	shown := func(i int) string { return key(i)[:min(len(key(i)), 64)] + strings.Repeat("…", i%2) }
	const keys = 2000
	var training, staging []string
	for i := range keys {
		if i%5 != 0 { // the other staging keys are orphans
			training = append(training, fmt.Sprintf(`{"name": %q}`, key(i)))
		}
		for range 1 + i%7/6 { // every seventh key has two rows
			staging = append(staging, fmt.Sprintf(`{"name": %q, "v": %d}`, key(i), i))
		}
	}
	name := iceberg.NestedField{ID: 1, Name: "name", Type: p.String}
	write(t, c, "ml.named", []iceberg.NestedField{name}, "["+strings.Join(training, ",")+"]")
	write(t, c, "features.named", []iceberg.NestedField{name, {ID: 2, Name: "v", Type: p.Int64}}, "["+strings.Join(staging, ",")+"]")
	done()
	l.config = l.file(t, "penstock.yaml", `
catalogs: {default: {type: sql, uri: "sqlite:///catalog.db"}}
datasets: {d: {training: {table: ml.named}, key: [name], staging: [{table: features.named}]}}
`)
	got := run(t, "verify", "d", "--config", l.config, "--json")
	require.Equal(t, exitFindings, got.code, got.stderr)
	v := verificationOf(t, got.stdout)
	orphans, twice := map[string]bool{}, map[string]bool{}
	for i := range keys {
		orphans[shown(i)], twice[shown(i)] = i%5 == 0, i%7 == 6
	}
	join := v.Tables[1].Join
	require.EqualValues(t, keys/5, join.OrphanKeys)
	require.Len(t, join.Orphans, 5)
	for _, k := range join.Orphans {
		require.True(t, orphans[k.Key], "%q is no orphan", k.Key)
	}
	require.Len(t, join.Duplicates, 5)
	for _, k := range join.Duplicates {
		require.True(t, twice[k.Key], "%q is there once", k.Key)
	}
}

// Ids in another format match nothing: cat warns, and verify shows the keys of both tables.
//
// spec: join-97, join-98
func TestIDsInAnotherFormat(t *testing.T) {
	l := lake{dir: t.TempDir()}
	c, done := newCatalog(t, l.dir)
	var training, staging []string
	for i := range 120 {
		training = append(training, fmt.Sprintf(`{"id": "R-%07d"}`, i))
		staging = append(staging, fmt.Sprintf(`{"id": "%d", "v": %d}`, i, i))
	}
	id := iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.String}
	write(t, c, "ml.named", []iceberg.NestedField{id}, "["+strings.Join(training, ",")+"]")
	write(t, c, "features.named", []iceberg.NestedField{id, {ID: 2, Name: "v", Type: iceberg.PrimitiveTypes.Int64}}, "["+strings.Join(staging, ",")+"]")
	done()
	l.config = l.file(t, "penstock.yaml", `
catalogs: {default: {type: sql, uri: "sqlite:///catalog.db"}}
datasets: {d: {training: {table: ml.named}, key: [id], staging: [{table: features.named}]}}
`)
	got := run(t, "cat", "d", "--format", "csv", "--config", l.config)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Equal(t, "120 rows; named matched 0 of 120\n"+
		"warning: named: 0 of 120 training rows match (0%); penstock verify d compares the keys of both tables\n", got.stderr)
	got = run(t, "verify", "d", "--config", l.config)
	require.Equal(t, exitFindings, got.code, got.stderr)
	require.Contains(t, got.stdout, "few_matches, named\n    0 of 120 training rows match (0%): keys of both tables differ in letters before or after the digits")
	require.Regexp(t, `\n    training id \(utf8\)  staging id \(utf8\)\n    "R-0000\d{3}" +"\d+"\n`, got.stdout)
}

// A damaged, truncated or missing file is a finding. The other tables are still read.
func TestVerifyDamagedFiles(t *testing.T) {
	l := newLake(t, t.TempDir())
	var file string
	require.NoError(t, filepath.WalkDir(l.dir, func(path string, _ os.DirEntry, err error) error {
		if strings.Contains(path, "history") && strings.HasSuffix(path, ".parquet") {
			file = path
		}
		return err
	}))
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	for name, damage := range map[string]func() error{
		"cut":      func() error { return os.WriteFile(file, whole[:len(whole)/2], 0o600) },
		"garbage":  func() error { return os.WriteFile(file, []byte(strings.Repeat("x", len(whole))), 0o600) },
		"zeros":    func() error { return os.WriteFile(file, slices.Concat(make([]byte, 200), whole[200:]), 0o600) },
		"deletion": func() error { return os.Remove(file) },
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, damage())
			got := run(t, "verify", "home", "--config", l.config)
			require.Equal(t, exitFindings, got.code, got.stderr)
			require.Contains(t, got.stdout, "breaks a stream: 1 finding\n  unreadable, history, ")
			require.Contains(t, got.stdout, "1 file unreadable")
			require.Contains(t, got.stdout, "matches: 2 of 7 training rows")
		})
	}
}

// verify lists files that have pages without checksums, such as those of iceberg-go. If checksums
// are required, such files are refused with a remedy.
func TestRequiredChecksums(t *testing.T) {
	l := readLake(t)
	got := run(t, "verify", "home", "--config", l.config)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stdout, "  checksums\n    pages without a checksum in 4 of 4 files (training: 2, history: 2), where damage may go unnoticed\n")
	require.Equal(t, 4, strings.Count(run(t, "verify", "home", "--config", l.config, "--json").stdout, `"no_checksum": true`))

	strict := process{environment: environment{env: func(name string) (string, bool) { return "true", name == "PENSTOCK_REQUIRE_CHECKSUMS" }}}
	got = runWith(t, strict, "cat", "home", "--config", l.config)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "has pages without a checksum, which this server requires")
	require.Contains(t, got.stderr, "turn require_checksums off")
	require.NotContains(t, got.stdout, "CH")
	got = runWith(t, strict, "verify", "home", "--config", l.config)
	require.Equal(t, exitFindings, got.code)
	require.Contains(t, got.stdout, "breaks a stream: 4 findings")
	require.Contains(t, got.stdout, "unreadable, training, ")
}

// verificationOf decodes a report, in which snapshot ids are strings.
func verificationOf(t *testing.T, text string) loader.Verification {
	t.Helper()
	var out loader.Verification
	numbers := regexp.MustCompile(`"snapshot": "([0-9]+)"`).ReplaceAllString(text, `"snapshot": $1`)
	require.NoError(t, json.Unmarshal([]byte(numbers), &out))
	return out
}
