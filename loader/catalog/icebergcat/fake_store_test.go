package icebergcat_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"
	icecatalog "github.com/apache/iceberg-go/catalog"
	iceio "github.com/apache/iceberg-go/io"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
)

// fakeCloud is remote storage that nothing but its Kind describes: its own scheme,
// its own property names, its own credentials.
type fakeCloud struct {
	dir string // holds the files of fake://lake/

	mu     sync.Mutex
	tokens map[string]bool     // those that are accepted
	opened []map[string]string // the properties of each store
}

const fakeRoot = "fake://lake/"

func (c *fakeCloud) path(location string) string {
	return c.dir + "/" + strings.TrimPrefix(location, fakeRoot)
}

func (c *fakeCloud) kind() *store.Kind {
	return &store.Kind{
		Name: "fake", Schemes: []string{"fake"}, Example: "Fake Storage (fake://lake/path)",
		Properties: []string{"fake.account", "fake.token", "fake.endpoint"},
		Prefixes:   []string{"fake."},
		Credential: []string{"fake.token"},
		Expiry:     []string{"fake.token-expires-at-ms"},
		Identity:   []string{"fake.account", "fake.token"},
		Check: func(properties map[string]string) error {
			if properties["fake.endpoint"] == "nowhere" {
				return fault.InvalidField("fake.endpoint", "is nowhere")
			}
			return nil
		},
		Open: func(_ context.Context, properties map[string]string, credentials store.Credentials) (store.Store, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.opened = append(c.opened, properties)
			return &fakeStore{cloud: c, token: properties["fake.token"], credentials: credentials}, nil
		},
	}
}

func (c *fakeCloud) accepts(token string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokens[token]
}

// revoke rejects all tokens that were accepted until now.
func (c *fakeCloud) revoke() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.tokens)
}

type fakeStore struct {
	cloud       *fakeCloud
	credentials store.Credentials

	mu    sync.Mutex
	token string
}

// Open implements store.Store. It asks for another token once if it is rejected.
func (s *fakeStore) Open(ctx context.Context, location string, size int64) (store.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cloud.accepts(s.token) && s.credentials != nil {
		credential, err := s.credentials(ctx)
		if err != nil {
			return nil, err
		}
		s.token = credential.Properties["fake.token"]
	}
	if !s.cloud.accepts(s.token) {
		return nil, fault.New(fault.Unavailable, "token %q is rejected", s.token)
	}
	return store.Local{}.Open(ctx, s.cloud.path(location), size)
}

// fakeIO writes files of the fake cloud for iceberg-go.
type fakeIO struct{ cloud *fakeCloud }

var _ iceio.WriteFileIO = fakeIO{}

func (f fakeIO) Open(name string) (iceio.File, error) {
	return iceio.LocalFS{}.Open(f.cloud.path(name))
}

func (f fakeIO) Remove(name string) error { return iceio.LocalFS{}.Remove(f.cloud.path(name)) }

func (f fakeIO) Create(name string) (iceio.FileWriter, error) {
	return iceio.LocalFS{}.Create(f.cloud.path(name))
}

func (f fakeIO) WriteFile(name string, p []byte) error {
	return iceio.LocalFS{}.WriteFile(f.cloud.path(name), p)
}

// newFakeCloud returns a fake cloud with a table of rows 0 to 9, and the catalog that
// has the table. All files of the table, metadata included, are at fake://lake/.
func newFakeCloud(t *testing.T) (*fakeCloud, *writer) {
	t.Helper()
	c := &fakeCloud{dir: t.TempDir(), tokens: map[string]bool{}}
	iceio.Register("fake", func(context.Context, *url.URL, map[string]string) (iceio.IO, error) { return fakeIO{cloud: c}, nil })
	t.Cleanup(func() { iceio.Unregister("fake") })
	w := newWriter(t)
	table := w.create(t, events, idSchema(), icecatalog.WithLocation(fakeRoot+"events"))
	columns, err := icetable.SchemaToArrowSchema(table.Schema(), nil, true, false)
	require.NoError(t, err)
	b := array.NewRecordBuilder(memory.DefaultAllocator, columns)
	for i := range 10 {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
	}
	reader, err := array.NewRecordReader(columns, []arrow.RecordBatch{b.NewRecordBatch()})
	require.NoError(t, err)
	ctx := compute.WithAllocator(context.WithoutCancel(t.Context()), memory.DefaultAllocator)
	_, err = table.Append(ctx, reader, nil)
	require.NoError(t, err)
	return c, w
}

// ids reads the table through a catalog and a scanner.
func (c *fakeCloud) ids(t *testing.T, from *icebergcat.Catalog) ([]int64, error) {
	t.Helper()
	table, err := from.Table(t.Context(), events, dataset.Ref{})
	if err != nil {
		return nil, err
	}
	files, err := from.Files(t.Context(), table, []int{1}, nil)
	if err != nil {
		return nil, err
	}
	source := plan.Source{Table: table, Planned: []int{1}}
	for _, f := range files {
		require.True(t, strings.HasPrefix(f.Location, fakeRoot), f.Location)
		source.Files = append(source.Files, plan.FileRange{File: f, To: f.Rows})
	}
	scanner, err := scan.New(scan.Options{Files: from})
	require.NoError(t, err)
	rows, err := scanner.Open(t.Context(), source, []catalog.Field{table.Fields[0]})
	require.NoError(t, err)
	defer rows.Release()
	var out []int64
	for rows.Next() {
		column, ok := rows.RecordBatch().Column(0).(*array.Int64)
		require.True(t, ok)
		out = append(out, column.Int64Values()...)
	}
	return out, rows.Err()
}

// A kind of storage is one row of Options.Stores: its tables are read with the
// catalog's properties, or with credentials that the catalog vends, under the names
// that the Kind gives them.
func TestStoresArePluggable(t *testing.T) {
	want := []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}

	t.Run("properties", func(t *testing.T) {
		c, w := newFakeCloud(t)
		c.tokens["own"] = true
		o := w.options()
		o.AllowedPrefixes = nil
		o.Stores = store.NewKinds(s3.Kind(store.Environment{}), c.kind())
		o.Properties = map[string]string{"fake.token": "own"}
		opened, err := icebergcat.Open(t.Context(), o)
		require.NoError(t, err)
		t.Cleanup(opened.Close)
		got, err := c.ids(t, opened)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, []map[string]string{{"fake.token": "own"}}, c.opened)
	})

	t.Run("vended credentials", func(t *testing.T) {
		c, w := newFakeCloud(t)
		s, vended := restcattest.Start(t), 0
		s.Tables = func([]string, string) (restcattest.Table, bool) {
			location := w.load(t, events).MetadataLocation()
			text, err := os.ReadFile(c.path(location))
			require.NoError(t, err)
			vended++
			token := fmt.Sprint("vended-", vended)
			c.mu.Lock()
			c.tokens[token] = true
			c.mu.Unlock()
			return restcattest.Table{
				Location: location, Metadata: text, Config: map[string]string{"fake.endpoint": "e", "fake.token": "of all tables"},
				Credentials: []restcattest.Credential{{Prefix: fakeRoot + "events", Config: map[string]string{
					"fake.token": token, "fake.token-expires-at-ms": strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10),
				}}},
			}, true
		}
		opened := openREST(t, s, func(o *icebergcat.Options) {
			o.Stores, o.Clock, o.AllowedPrefixes = store.NewKinds(c.kind()), time.Now, nil
			o.Properties = map[string]string{"fake.account": "own", "fake.token": "own", "fake.region": "r"}
		})
		for range 3 {
			got, err := c.ids(t, opened)
			require.NoError(t, err)
			require.Equal(t, want, got)
			c.revoke()
		}
		require.Equal(t, []map[string]string{{"fake.endpoint": "e", "fake.region": "r"}}, c.opened,
			"one store, whose vended credentials replace the catalog's own identity")
	})

	t.Run("not served", func(t *testing.T) {
		c, w := newFakeCloud(t)
		o := w.options()
		o.Stores = store.NewKinds(s3.Kind(store.Environment{}))
		opened, err := icebergcat.Open(t.Context(), o)
		require.NoError(t, err)
		t.Cleanup(opened.Close)
		_, err = c.ids(t, opened)
		require.Equal(t, fault.Invalid.String(), fault.KindOf(err).String())
		require.ErrorContains(t, err, `scheme "fake" of fake://lake/`)
		require.ErrorContains(t, err, "keep the table's files on local disk (file:///path) or on S3 or a store that speaks its protocol (s3://bucket/path)")
	})
}
