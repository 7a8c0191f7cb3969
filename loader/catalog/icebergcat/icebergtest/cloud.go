package icebergtest

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"testing"

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
)

// FakeCloud is remote storage of a kind that only its store.Kind describes. It has its own scheme,
// property names and credentials.
type FakeCloud struct {
	dir string // the local folder with the files of fake://lake/

	Mu     sync.Mutex
	Tokens map[string]bool     // the tokens that are accepted
	Opened []map[string]string // the properties of each store that was opened
}

// FakeRoot is the root of the fake cloud.
const FakeRoot = "fake://lake/"

// Path returns the path of the file at a location.
func (c *FakeCloud) Path(location string) string {
	return c.dir + "/" + strings.TrimPrefix(location, FakeRoot)
}

// Kind returns the kind of storage that serves fake://.
func (c *FakeCloud) Kind() *store.Kind {
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
			c.Mu.Lock()
			defer c.Mu.Unlock()
			c.Opened = append(c.Opened, properties)
			return &fakeStore{cloud: c, token: properties["fake.token"], credentials: credentials}, nil
		},
	}
}

func (c *FakeCloud) accepts(token string) bool {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.Tokens[token]
}

type fakeStore struct {
	cloud       *FakeCloud
	credentials store.Credentials

	mu    sync.Mutex
	token string
}

// Open implements store.Store. If the token is rejected, it asks for another token once.
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
	return store.Local{}.Open(ctx, s.cloud.Path(location), size)
}

// FakeIO gives iceberg-go access to the files of the fake cloud.
type FakeIO struct{ cloud *FakeCloud }

// Open opens a file.
func (f FakeIO) Open(name string) (iceio.File, error) {
	return iceio.LocalFS{}.Open(f.cloud.Path(name))
}

// Remove removes a file.
func (f FakeIO) Remove(name string) error { return iceio.LocalFS{}.Remove(f.cloud.Path(name)) }

// Create creates a file.
func (f FakeIO) Create(name string) (iceio.FileWriter, error) {
	return iceio.LocalFS{}.Create(f.cloud.Path(name))
}

// WriteFile writes a file.
func (f FakeIO) WriteFile(name string, p []byte) error {
	return iceio.LocalFS{}.WriteFile(f.cloud.Path(name), p)
}

// NewFakeCloud returns a fake cloud with a table of the rows 0 to 9, and the Writer whose catalog
// has the table. All files of the table, including its metadata, are below fake://lake/.
func NewFakeCloud(t *testing.T) (*FakeCloud, *Writer) {
	t.Helper()
	c := &FakeCloud{dir: t.TempDir(), Tokens: map[string]bool{}}
	iceio.Register("fake", func(context.Context, *url.URL, map[string]string) (iceio.IO, error) { return FakeIO{cloud: c}, nil })
	t.Cleanup(func() { iceio.Unregister("fake") })
	w := NewWriter(t)
	table := w.Create(t, Events, IDSchema(), icecatalog.WithLocation(FakeRoot+"events"))
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

// Create implements store.Writer. It uses the same credentials as Open.
func (s *fakeStore) Create(ctx context.Context, location string, content *memory.Buffer) error {
	if err := s.renew(ctx); err != nil {
		return err
	}
	return store.Local{}.Create(ctx, s.cloud.Path(location), content)
}

// Remove implements store.Writer.
func (s *fakeStore) Remove(ctx context.Context, location string) error {
	if err := s.renew(ctx); err != nil {
		return err
	}
	return store.Local{}.Remove(ctx, s.cloud.Path(location))
}

// renew asks for another token if the last one is rejected.
func (s *fakeStore) renew(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cloud.accepts(s.token) && s.credentials != nil {
		credential, err := s.credentials(ctx)
		if err != nil {
			return err
		}
		s.token = credential.Properties["fake.token"]
	}
	if !s.cloud.accepts(s.token) {
		return fault.New(fault.Unavailable, "token %q is rejected", s.token)
	}
	return nil
}
