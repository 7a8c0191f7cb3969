package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	icesql "github.com/apache/iceberg-go/catalog/sql"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cmd/penstock/client"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3/gatewaytest"
	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
)

// guard is a proxy in front of a gateway. Each of its keys gives access to one prefix, for a number
// of requests or a period of time. The gateway itself has a single key.
type guard struct {
	gateway *url.URL
	uses    int
	life    time.Duration // 0: unlimited

	mu    sync.Mutex
	given int
	below map[string]string // path prefix, by key
	left  map[string]int    // remaining requests, by key
	until map[string]time.Time
	ended int // requests refused because their key was used up or expired
}

// give returns a new key for a prefix.
func (g *guard) give(prefix string) map[string]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.given++
	id := fmt.Sprintf("AKIAVENDED%d", g.given)
	g.below[id], g.left[id] = prefix, g.uses
	key := map[string]string{"s3.access-key-id": id, "s3.secret-access-key": "secret", "s3.session-token": "session"}
	if g.life > 0 {
		g.until[id] = time.Now().Add(g.life)
		key["s3.session-token-expires-at-ms"] = strconv.FormatInt(g.until[id].UnixMilli(), 10)
	}
	return key
}

// newGuard returns a guard in front of a gateway, with keys that allow any number of requests.
func newGuard(t *testing.T, gateway string) *guard {
	t.Helper()
	target, err := url.Parse(gateway)
	require.NoError(t, err)
	return &guard{gateway: target, uses: math.MaxInt, below: map[string]string{}, left: map[string]int{}, until: map[string]time.Time{}}
}

// judge returns S3's error code for a request; "" if it is allowed.
func (g *guard) judge(r *http.Request) string {
	m := regexp.MustCompile(`Credential=([^/]+)/`).FindStringSubmatch(r.Header.Get("Authorization"))
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case m == nil || g.below[m[1]] == "" || !strings.HasPrefix(r.URL.Path, g.below[m[1]]):
		return "AccessDenied"
	case g.left[m[1]] == 0, g.life > 0 && time.Now().After(g.until[m[1]]):
		g.ended++
		return "ExpiredToken"
	}
	g.left[m[1]]--
	return ""
}

// start starts the guard, and returns its URL.
func (g *guard) start(t *testing.T) string {
	t.Helper()
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(g.gateway)
		for _, name := range []string{"Authorization", "X-Amz-Security-Token", "X-Amz-Date"} {
			r.Out.Header.Del(name)
		}
		nothing := sha256.Sum256(nil)
		digest := hex.EncodeToString(nothing[:])
		r.Out.Header.Set("X-Amz-Content-Sha256", digest)
		err := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }).SignHTTP(context.WithoutCancel(r.In.Context()),
			aws.Credentials{AccessKeyID: gatewaytest.Access, SecretAccessKey: gatewaytest.Secret}, r.Out, digest, "s3", "us-east-1", time.Now())
		if err != nil {
			panic(err)
		}
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code := g.judge(r); code != "" {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(map[string]int{"AccessDenied": http.StatusForbidden, "ExpiredToken": http.StatusBadRequest}[code])
			_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", code)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// bucket holds the files of all tables.
const bucket = "lake"

// onS3 copies the files of a table to a bucket, and creates a table of the copies.
func onS3(t *testing.T, g *gatewaytest.Gateway, name string, from, to *icesql.Catalog) {
	t.Helper()
	source, err := from.LoadTable(t.Context(), strings.Split(name, "."))
	require.NoError(t, err)
	spec := source.Spec()
	table, err := to.CreateTable(t.Context(), strings.Split(name, "."), source.Schema(), icecatalog.WithPartitionSpec(&spec))
	require.NoError(t, err)
	planned, err := source.Scan().PlanFiles(t.Context())
	require.NoError(t, err)
	var files []iceberg.DataFile
	for i, scanned := range planned {
		path, err := store.Path(scanned.File.FilePath())
		require.NoError(t, err)
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		key := fmt.Sprintf("%s/data/%d.parquet", name, i)
		require.NoError(t, g.Put(t.Context(), bucket, key, content))
		b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, "s3://"+bucket+"/"+key, iceberg.ParquetFile,
			scanned.File.Partition(), nil, nil, scanned.File.Count(), int64(len(content)))
		require.NoError(t, err)
		files = append(files, b.Build())
	}
	tx := table.NewTransaction()
	require.NoError(t, tx.ReplaceDataFilesWithDataFiles(t.Context(), nil, files, nil, icetable.WithoutAutoNameMapping()))
	_, err = tx.Commit(t.Context())
	require.NoError(t, err)
}

// Two tables in one bucket are joined. Each is read with its own keys, and each key allows one
// request. The rows are the same as from the tables on local disk.
//
// spec: catalog-3
func TestTablesAreReadWithVendedKeys(t *testing.T) {
	l := readLake(t)
	gateway, err := gatewaytest.Start(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, gateway.Close()) })
	require.NoError(t, gateway.MakeBucket(t.Context(), bucket))
	g := newGuard(t, gateway.URL)
	g.uses = 1
	storage := g.start(t)

	remote := lake{dir: t.TempDir()}
	from, doneFrom := openCatalogOf(t, l.dir)
	to, doneTo := newCatalog(t, remote.dir)
	for _, name := range []string{"ml.impressions", "features.history", "ml.large"} {
		onS3(t, gateway, name, from, to)
	}
	doneFrom()
	doneTo()
	locations := remote.locations(t)
	s := restcattest.Start(t)
	s.Tables = func(namespace []string, table string) (restcattest.Table, bool) {
		name := strings.Join(namespace, ".") + "." + table
		location, ok := locations[name]
		if !ok {
			return restcattest.Table{}, false
		}
		return restcattest.Table{
			Location: location, Metadata: metadataOf(t, location),
			Config: map[string]string{"s3.endpoint": storage, "s3.region": "us-east-1"},
			Credentials: []restcattest.Credential{
				{Prefix: "s3://" + bucket + "/", Config: g.give("/nowhere")},
				{Prefix: "s3://" + bucket + "/" + name + "/", Config: g.give("/" + bucket + "/" + name + "/")},
			},
		}, true
	}
	datasets := "datasets:" + strings.SplitN(string(must(os.ReadFile(l.config))), "datasets:", 2)[1]
	path := remote.file(t, "penstock.yaml", "catalogs: {default: {type: rest, uri: "+s.URL+", allowed_prefixes: [/, \"s3://\"]}}\n"+datasets)
	for _, dataset := range []string{"home", "large"} {
		want := run(t, "cat", dataset, "--config", l.config)
		require.Zero(t, want.code, want.stderr)
		got := run(t, "cat", dataset, "--config", path)
		require.Zero(t, got.code, got.stderr)
		require.Equal(t, want.stdout, got.stdout, dataset)
	}
	require.Positive(t, g.ended, "keys ended under the streams")

	s.Change(func(s *restcattest.Server) {
		under := s.Tables
		s.Tables = func(namespace []string, table string) (restcattest.Table, bool) {
			out, ok := under(namespace, table)
			out.Credentials = out.Credentials[:min(1, len(out.Credentials))]
			return out, ok
		}
	})
	got := run(t, "cat", "home", "--config", path)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "AccessDenied")
	require.NotContains(t, got.stdout+got.stderr, "secret")
}

// A stream runs several times longer than its table's keys are valid: for ten seconds, or for ten
// minutes if PENSTOCK_LONG is set.
//
// spec: catalog-4
func TestKeysAreRenewedDuringAStream(t *testing.T) {
	life, whole := 3*time.Second, 10*time.Second
	if os.Getenv("PENSTOCK_LONG") != "" {
		life, whole = 30*time.Second, 10*time.Minute
	}
	const rows, rowBytes, batchRows = 1024, 64 << 10, 4
	gateway, err := gatewaytest.Start(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, gateway.Close()) })
	require.NoError(t, gateway.MakeBucket(t.Context(), bucket))
	g := newGuard(t, gateway.URL)
	g.life = life
	storage := g.start(t)

	local, remote := lake{dir: t.TempDir()}, lake{dir: t.TempDir()}
	from, doneFrom := newCatalog(t, local.dir)
	to, doneTo := newCatalog(t, remote.dir)
	var many strings.Builder
	for i := range rows {
		fmt.Fprintf(&many, "%c{\"id\": %d, \"text\": \"%0*d\"}", ",["[min(1, max(0, 1-i))], i, rowBytes, i)
	}
	write(t, from, "ml.many", []iceberg.NestedField{
		{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64, Required: true},
		{ID: 2, Name: "text", Type: iceberg.PrimitiveTypes.String},
	}, many.String()+"]")
	onS3(t, gateway, "ml.many", from, to)
	doneFrom()
	doneTo()
	location := remote.locations(t)["ml.many"]
	s := restcattest.Start(t)
	s.Tables = func([]string, string) (restcattest.Table, bool) {
		return restcattest.Table{
			Location: location, Metadata: metadataOf(t, location),
			Config:      map[string]string{"s3.endpoint": storage, "s3.region": "us-east-1"},
			Credentials: []restcattest.Credential{{Prefix: "s3://" + bucket + "/ml.many/", Config: g.give("/" + bucket + "/ml.many/")}},
		}, true
	}
	server := start(t, "--config", remote.file(t, "penstock.yaml", "catalogs: {default: {type: rest, uri: "+s.URL+", allowed_prefixes: [/, \"s3://\"]}}\n"+
		"datasets: {d: {training: {table: ml.many}, key: [id]}}\n"))

	source, err := client.Dial(server.uri(), client.Security{}, version())
	require.NoError(t, err)
	defer func() { require.NoError(t, source.Close()) }()
	stream, err := source.Open(t.Context(), fmt.Appendf(nil, `{"dataset": "d", "batch_rows": %d}`, batchRows))
	require.NoError(t, err)
	defer stream.Release()
	seen := map[int64]bool{}
	for stream.Next() {
		for _, id := range stream.RecordBatch().Column(0).(*array.Int64).Int64Values() {
			seen[id] = true
		}
		time.Sleep(whole * batchRows / rows)
	}
	require.NoError(t, stream.Err())
	require.Len(t, seen, rows)
	g.mu.Lock()
	defer g.mu.Unlock()
	require.GreaterOrEqual(t, g.given, 4, "keys were renewed under the stream")
}
