package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/internal/store/s3/gatewaytest"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
)

const (
	bucket = "full" // the gateway's bucket: the folder of T
	memory = 2 << 30
)

// moved reads the files of a local folder from a bucket.
type moved struct {
	under *s3.Store
	home  string
}

// Open implements store.Store.
func (m moved) Open(ctx context.Context, location string, size int64) (store.Object, error) {
	path, err := store.Path(location)
	if err != nil {
		return nil, err
	}
	key, inside := strings.CutPrefix(path, m.home+"/")
	if !inside {
		return nil, fmt.Errorf("%s is not in %s", path, m.home)
	}
	return m.under.Open(ctx, "s3://"+bucket+"/"+key, size)
}

// read reads T through a proxy, with empty caches.
func read(ctx context.Context, home string, proxy *gatewaytest.Proxy) (_ turn, err error) {
	under, err := s3.New(ctx, s3.Options{Settings: s3.Settings{
		Endpoint: proxy.URL, PathStyle: true, AccessKeyID: gatewaytest.Access, SecretAccessKey: gatewaytest.Secret,
	}})
	if err != nil {
		return turn{}, err
	}
	limit := budget.New(memory)
	files := moved{under: under, home: home}
	footers, err := cache.New[*parquet.Footer](memory / 32)
	if err != nil {
		return turn{}, err
	}
	defer footers.Close()
	manifests, err := cache.New[[]byte](memory / 64)
	if err != nil {
		return turn{}, err
	}
	defer manifests.Close()
	tables, err := icebergcat.Open(ctx, icebergcat.Options{
		Name: "default", Type: "sql", URI: "sqlite:///" + home + "/catalog.db", BaseDir: home, Store: files, Budget: limit, Manifests: manifests,
	})
	if err != nil {
		return turn{}, err
	}
	pool, scratch := batch.NewAllocator(), batch.NewAllocator()
	scanner, err := scan.New(scan.Options{Files: catalogtest.FromStore(files), Footers: footers, Memory: pool, Scratch: scratch, Budget: limit})
	if err != nil {
		return turn{}, err
	}
	l := loader.New(loader.Options{
		Catalog: tables, Budget: limit, Memory: pool, Keep: scanner.Keep,
		Scan: func(ctx context.Context, source plan.Source, columns []catalog.Field) (loader.Rows, error) {
			rows, err := scanner.Open(ctx, source, columns)
			if err != nil {
				return nil, err
			}
			return rows, nil
		},
	})
	return stream(ctx, l, proxy)
}

// question is T, joined.
const question = `{"dataset": {"training": {"table": "bench.t"}, "key": ["request_id"], "staging": [{"table": "bench.staging"}]}}`

// stream reads one stream to its end.
func stream(ctx context.Context, l *loader.Loader, proxy *gatewaytest.Proxy) (t turn, err error) {
	query, err := decode.Query([]byte(question))
	if err != nil {
		return t, err
	}
	begun := time.Now()
	p, err := l.Plan(ctx, query)
	if err != nil {
		return t, err
	}
	p.Query.Shard.Index = 0
	rows, err := l.Open(ctx, p, loader.StreamOptions{})
	if err != nil {
		return t, err
	}
	for rows.Next() {
		t.rows += rows.RecordBatch().NumRows()
	}
	err = rows.Err()
	rows.Release()
	t.took = time.Since(begun)
	for _, q := range proxy.Requests() {
		t.requests++
		t.bytes += q.Bytes
	}
	if len(proxy.Requests()) == 0 {
		err = errors.Join(err, errors.New("nothing came through the proxy"))
	}
	return t, err
}
