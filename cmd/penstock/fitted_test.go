package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// pricedRow is a row of ml.named in these tests.
type pricedRow struct {
	ID      int64    `json:"id"`
	Price   *float64 `json:"price"`
	Country *string  `json:"country"`
}

// fittedLake writes a table of random prices and countries, and a config file with the dataset priced.
func fittedLake(t *testing.T) (lake, []pricedRow) {
	t.Helper()
	l := lake{dir: t.TempDir()}
	c, done := newCatalog(t, l.dir)
	rng := rand.New(rand.NewPCG(11, 12))
	rows := make([]pricedRow, 3000)
	for i := range rows {
		rows[i].ID = int64(i)
		if rng.IntN(12) > 0 {
			rows[i].Price = new(float64(rng.IntN(500)) / 8)
		}
		if rng.IntN(12) > 0 {
			rows[i].Country = new(string('A' + rune(min(rng.IntN(12), rng.IntN(12)))))
		}
	}
	p := iceberg.PrimitiveTypes
	write(t, c, "ml.named", []iceberg.NestedField{{ID: 1, Name: "id", Type: p.Int64, Required: true}, {ID: 2, Name: "price", Type: p.Float64}, {ID: 3, Name: "country", Type: p.String}}, string(must(json.Marshal(rows))))
	done()
	l.config = l.file(t, "penstock.yaml", "catalogs:\n  default: {type: sql, uri: \"sqlite:///catalog.db\"}\ndatasets:\n  priced:\n    training: {table: ml.named}\n")
	return l, rows
}

// fit fits two lists to the table, and returns the fields of the config file that the command prints.
func (l lake) fit(t *testing.T, buckets, words int) (fields, digest string) {
	t.Helper()
	got := run(t, "fit", "ml.named", "--quantiles", fmt.Sprint("price=", buckets), "--vocabulary", fmt.Sprint("country=", words), "--output", filepath.Join(l.dir, "lists", "fitted.json"), "--config", l.config)
	require.Zero(t, got.code, got.stderr)
	_, fields, found := strings.Cut(got.stdout, "lists:\n\n")
	require.True(t, found, got.stdout)
	_, digest, _ = strings.Cut(got.stdout, "digest ")
	digest, _, _ = strings.Cut(digest, "\n")
	require.Contains(t, fields, "{file: lists/fitted.json, digest: "+digest+", column: price, kind: quantiles}")
	return fields, digest
}

const fittedColumns = "    computed:\n      - {column: bucket, expr: \"bucketize(price, price_bounds)\"}\n      - {column: code, expr: \"lookup(country, country_vocabulary, -1)\"}\n"

// exactBounds returns the distinct values at the ranks k/n.
func exactBounds(rows []pricedRow, n int) []float64 {
	var all, out []float64
	for _, r := range rows {
		if r.Price != nil {
			all = append(all, *r.Price)
		}
	}
	slices.Sort(all)
	for k := 1; k < n; k++ {
		for i, v := range all {
			if (i+1)*n >= k*len(all) {
				out = append(out, v)
				break
			}
		}
	}
	return slices.Compact(out)
}

// exactWords returns the n most frequent countries.
func exactWords(rows []pricedRow, n int) []string {
	counts := map[string]int{}
	var words []string
	for _, r := range rows {
		if r.Country == nil {
			continue
		}
		if counts[*r.Country]++; counts[*r.Country] == 1 {
			words = append(words, *r.Country)
		}
	}
	slices.Sort(words)
	slices.SortStableFunc(words, func(a, b string) int { return counts[b] - counts[a] })
	return words[:min(n, len(words))]
}

// expected returns the bucket and code of each row, by its id, as lines of JSON.
func expected(rows []pricedRow, buckets, words int) map[int64]string {
	bounds, known, out := exactBounds(rows, buckets), exactWords(rows, words), map[int64]string{}
	for _, r := range rows {
		bucket, code := "null", "null"
		if r.Price != nil {
			n := 0
			for _, b := range bounds {
				if *r.Price > b {
					n++
				}
			}
			bucket = strconv.Itoa(n)
		}
		if r.Country != nil {
			code = strconv.Itoa(slices.Index(known, *r.Country))
		}
		out[r.ID] = bucket + " " + code
	}
	return out
}

// computedRows returns the buckets and codes of cat.
func computedRows(t *testing.T, args ...string) map[int64]string {
	t.Helper()
	got := run(t, append([]string{"cat", "--format", "jsonl"}, args...)...)
	require.Zero(t, got.code, got.stderr)
	out := map[int64]string{}
	d := json.NewDecoder(strings.NewReader(got.stdout))
	for d.More() {
		var row struct {
			ID           int64
			Bucket, Code json.RawMessage
		}
		require.NoError(t, d.Decode(&row))
		out[row.ID] = string(row.Bucket) + " " + string(row.Code)
	}
	return out
}

// A stream has the buckets and codes that the fitted lists define, in batches of any size, from any server.
//
// spec: fitted-1, fitted-4, fitted-10
func TestFittedListsInStreams(t *testing.T) {
	l, rows := fittedLake(t)
	require.NoError(t, os.Mkdir(filepath.Join(l.dir, "lists"), 0o700))
	fields, digest := l.fit(t, 8, 5)
	text := string(must(os.ReadFile(l.config)))
	l.file(t, "penstock.yaml", text+fields+fittedColumns+"  plain:\n    training: {table: ml.named}\n"+fields)
	want := expected(rows, 8, 5)
	require.Len(t, want, 3000)

	s := start(t, "--config", l.config)
	for _, size := range []string{"1", "7", "1000", "100000"} {
		limit := []string{"--batch-rows", size, "--config", l.config}
		if size == "1" {
			limit = []string{"--batch-rows", size, "--uri", s.uri()}
		}
		require.Equal(t, want, computedRows(t, append(limit, "priced")...), size)
	}
	require.Equal(t, want, computedRows(t, "priced", "--uri", s.uri(), "--order", "shuffled", "--lanes", "4"))
	own := `{"dataset": "plain", "columns": ["id", {"column": "bucket", "expr": "bucketize(price + 0, price_bounds)"}, {"column": "code", "expr": "lookup(country, country_vocabulary, -1)"}], "filter": "lookup(country, country_vocabulary, -1) >= 0 AND bucketize(price, price_bounds) > 2"}`
	part := map[int64]string{}
	for id, line := range want {
		if !strings.HasSuffix(line, "-1") && !strings.HasSuffix(line, "null") && line[0] > '2' && line[0] <= '9' {
			part[id] = line
		}
	}
	require.NotEmpty(t, part)
	require.Equal(t, part, computedRows(t, "--uri", s.uri(), "--query", own))

	explained := run(t, "explain", "priced", "--splits", "--uri", s.uri())
	require.Zero(t, explained.code, explained.stderr)
	require.Regexp(t, `\nfitted\n  country_vocabulary = FITTED 'sha256:[0-9a-f]{64}', 5 values of a file with the digest `+digest+"\n  price_bounds = FITTED ", explained.stdout)
	require.NotContains(t, run(t, "explain", "priced", "--splits", "--columns", "bucket", "--uri", s.uri()).stdout, "country_vocabulary")
	refused := run(t, "cat", "priced", "--uri", s.uri(), "--query", `{"dataset": "priced", "columns": [{"column": "b", "expr": "bucketize(price, price_bound)"}]}`)
	require.Contains(t, refused.stderr, `unknown column "price_bound" (did you mean "price_bounds"?)`)
}

// A server uses changed lists once its config file has their digest, and refuses files that changed without it.
// Tickets that were made with other values expire.
//
// spec: fitted-4, fitted-7, fitted-8
func TestFittedListsAreReloaded(t *testing.T) {
	l, rows := fittedLake(t)
	require.NoError(t, os.Mkdir(filepath.Join(l.dir, "lists"), 0o700))
	fields, before := l.fit(t, 8, 5)
	bare := string(must(os.ReadFile(l.config)))
	r := &reloaded{file: l.config, text: bare + fields + fittedColumns + "  other:\n    training: {table: ml.named}\n    fitted: {p: {file: lists/fitted.json, digest: " + before + ", kind: quantiles}}\n"}
	r.put(t, r.text)
	r.child = start(t, "--config", r.file)
	r.stderr.find(t, "penstock serves")
	client, err := arrowflight.NewClientWithMiddleware(r.address, nil, nil, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	described, err := client.GetFlightInfo(t.Context(), &arrowflight.FlightDescriptor{Type: arrowflight.DescriptorPATH, Path: []string{"priced"}})
	require.NoError(t, err)
	require.Less(t, len(described.GetEndpoint()[0].GetTicket().GetTicket()), 2000)
	redeem := func() error {
		stream, err := client.DoGet(t.Context(), described.GetEndpoint()[0].GetTicket())
		require.NoError(t, err)
		return drained(stream)
	}

	_, digest := l.fit(t, 4, 3)
	require.NotEqual(t, before, digest)
	said := r.reload(t, r.text+"\n", refused)
	require.Contains(t, said, "datasets.priced.fitted.country_vocabulary")
	require.Contains(t, said, "has the digest "+digest+" instead of "+before)
	require.Contains(t, said, "accept its values with digest: "+digest)
	require.Equal(t, expected(rows, 8, 5), computedRows(t, "priced", "--uri", r.uri()))
	require.ErrorIs(t, redeem(), io.EOF)
	for _, args := range [][]string{{"verify", "priced"}, {"cat", "other"}} {
		got := run(t, append(args, "--config", r.file)...)
		require.NotZero(t, got.code)
		require.Contains(t, got.stderr, "has the digest "+digest)
	}

	r.reload(t, strings.ReplaceAll(r.text, before, digest), inUse)
	require.Equal(t, expected(rows, 4, 3), computedRows(t, "priced", "--uri", r.uri()))
	require.Equal(t, codes.FailedPrecondition, status.Code(redeem()))

	require.NoError(t, os.Remove(filepath.Join(l.dir, "lists", "fitted.json")))
	said = r.reload(t, strings.ReplaceAll(r.text, before, digest)+"\n", refused)
	require.Contains(t, said, "no such file")
	require.Equal(t, expected(rows, 4, 3), computedRows(t, "priced", "--uri", r.uri()))
	_, again := l.fit(t, 4, 3) // although the config file names the missing file
	require.Equal(t, digest, again)
}
