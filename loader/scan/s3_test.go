package scan_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/cache"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/parquet"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/internal/store/s3/gatewaytest"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/scan"
)

// onS3 reads the files of a rig from a bucket.
type onS3 struct {
	under   *s3.Store
	gateway *gatewaytest.Gateway
	proxy   *gatewaytest.Proxy
}

const bucketName = "lake"

func keyFor(location string) string { return strings.TrimPrefix(location, "file:///") }

// Open implements store.Store.
func (o *onS3) Open(ctx context.Context, location string, size int64) (store.Object, error) {
	return o.under.Open(ctx, "s3://"+bucketName+"/"+keyFor(location), size)
}

// upload puts the files of a rig on S3.
func (r *rig) upload(t *testing.T) *onS3 {
	t.Helper()
	g, err := gatewaytest.Start(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	require.NoError(t, g.MakeBucket(t.Context(), bucketName))
	p, err := gatewaytest.NewProxy(g.URL)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	under, err := s3.New(t.Context(), s3.Options{
		Settings: s3.Settings{Endpoint: p.URL, PathStyle: true, AccessKeyID: gatewaytest.Access, SecretAccessKey: gatewaytest.Secret},
		Random:   func() float64 { return 0 },
	})
	require.NoError(t, err)
	t.Cleanup(under.Close)
	for _, f := range r.list {
		o, err := r.store.Open(t.Context(), f.Location, f.Bytes)
		require.NoError(t, err)
		content := make([]byte, f.Bytes)
		require.NoError(t, o.ReadAt(t.Context(), memory.NewBufferBytes(content), 0))
		require.NoError(t, o.Close())
		require.NoError(t, g.Put(t.Context(), bucketName, keyFor(f.Location), content))
	}
	return &onS3{under, g, p}
}

// span is what a request asked for.
type span struct{ from, to int }

// byFile are the requests so far, by file, in the order in which they came.
func (o *onS3) byFile(t *testing.T) map[string][]span {
	t.Helper()
	out := map[string][]span{}
	for _, q := range o.proxy.Requests() {
		require.Equal(t, "GET", q.Method)
		require.Equal(t, 206, q.Status)
		var s span
		_, err := fmt.Sscanf(q.Range, "bytes=%d-%d", &s.from, &s.to)
		require.NoError(t, err)
		key := strings.TrimPrefix(q.Path, "/"+bucketName+"/")
		out[key] = append(out[key], s)
	}
	return out
}

// TestRequestsToS3: a file costs one read of its tail, and for each row group one for
// each run of wanted columns; no byte is read twice, a file inside its tail is one
// request, and a footer that is remembered none.
//
// spec: storage-10
func TestRequestsToS3(t *testing.T) {
	r := newRig(t)
	large, small := r.grow(60_000, 20_000, 1), r.grow(50, 25, 1)
	require.Greater(t, large.Bytes, int64(600<<10))
	lake := r.upload(t)
	footers, err := cache.New[*parquet.Footer](1 << 20)
	require.NoError(t, err)
	defer footers.Close()
	// The columns lie in the order of their ids: id and key are one run, price and day
	// another, with x and tags between them.
	columns := r.columns("id", "key", "price", "day")
	s := r.scanner(scan.Options{Files: catalogtest.FromStore(lake), Footers: footers, ReadGap: 1 << 10})
	want := r.read(r.scanner(scan.Options{}), r.source(), columns)
	require.NoError(t, want.err)
	for again := range 2 {
		lake.proxy.Reset()
		got := r.read(s, r.source(), columns)
		require.NoError(t, got.err)
		require.Equal(t, want.lines, got.lines)
		files := lake.byFile(t)
		tails := 1 - again
		require.Len(t, files[keyFor(large.Location)], tails+3*2, "a tail, and two runs for each of three row groups")
		require.Len(t, files[keyFor(small.Location)], max(1, 2*again), "the tail has all of it; without, a run for each row group")
		for file, spans := range files {
			slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
			for i := 1; i < len(spans); i++ {
				require.Greater(t, spans[i].from, spans[i-1].to, "%s: bytes are read twice: %v", file, spans)
			}
		}
	}
}

// TestReplacedOnS3 checks that a file replaced by one of the same length fails, while it is
// read and when its footer is cached, and that no row of the new file is returned.
//
// spec: storage-3
func TestReplacedOnS3(t *testing.T) {
	r := newRig(t)
	f := r.grow(60_000, 20_000, 1)
	lake := r.upload(t)
	footers, err := cache.New[*parquet.Footer](1 << 20)
	require.NoError(t, err)
	defer footers.Close()
	s := r.scanner(scan.Options{Files: catalogtest.FromStore(lake), Footers: footers, ReadTail: scan.NoTail})
	before := r.read(s, r.source(), r.columns("id", "x"))
	require.NoError(t, before.err)
	require.NoError(t, lake.gateway.Put(t.Context(), bucketName, keyFor(f.Location), make([]byte, f.Bytes)))
	after := r.read(s, r.source(), r.columns("id", "x"))
	require.Empty(t, after.lines)
	require.Equal(t, fault.Corrupt.String(), fault.KindOf(after.err).String(), "%v", after.err)
	require.ErrorContains(t, after.err, "was replaced while it was in use")
	require.ErrorContains(t, after.err, r.table.Name)
}

// retagged gives files a tag, as S3 does, that can be changed.
type retagged struct {
	store.Store
	tag string
}

type retaggedObject struct {
	store.Object
	tag string
}

func (r *retagged) Open(ctx context.Context, location string, size int64) (store.Object, error) {
	o, err := r.Store.Open(ctx, location, size)
	return &retaggedObject{o, r.tag}, err
}

func (o *retaggedObject) Tag() string { return o.tag }

func (o *retaggedObject) Expect(tag string) error {
	if tag != "" && tag != o.tag {
		return fault.New(fault.Corrupt, "it was replaced")
	}
	return nil
}

// TestRestoredFile checks that a restored file, which has a new ETag, ends a reader that
// knows the footer with the old ETag, but no later reader.
func TestRestoredFile(t *testing.T) {
	r := newRig(t)
	r.grow(50, 25, 1)
	files := &retagged{r.store, "one"}
	footers, err := cache.New[*parquet.Footer](1 << 20)
	require.NoError(t, err)
	defer footers.Close()
	s := r.scanner(scan.Options{Files: catalogtest.FromStore(files), Footers: footers})
	want := r.read(s, r.source(), r.columns("id", "x"))
	require.NoError(t, want.err)
	files.tag = "two"
	got := r.read(s, r.source(), r.columns("id", "x"))
	require.Equal(t, fault.Corrupt.String(), fault.KindOf(got.err).String())
	require.Empty(t, got.lines)
	got = r.read(s, r.source(), r.columns("id", "x"))
	require.NoError(t, got.err)
	require.Equal(t, want.lines, got.lines)
}
