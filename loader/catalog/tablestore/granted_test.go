package tablestore_test

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/internal/store/storetest"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
	"github.com/penstock/penstock/loader/dataset"
)

// bucket is S3 as far as keys matter: each opens what lies below one prefix, for a while.
type bucket struct {
	mu     sync.Mutex
	made   []map[string]string // the properties of each store
	opens  map[string]string   // prefix by key
	ended  map[string]bool     // keys that are refused
	opened []string            // "key location"
	files  *storetest.Memory
}

func newBucket() *bucket {
	return &bucket{opens: map[string]string{}, ended: map[string]bool{}, files: storetest.NewMemory()}
}

// kinds returns S3 with the bucket in its place.
func (b *bucket) kinds() store.Kinds {
	kind := s3.Kind(store.Environment{})
	kind.Open = b.open
	return store.NewKinds(kind)
}

// open opens a store of the bucket.
func (b *bucket) open(_ context.Context, properties map[string]string, keys store.Credentials) (store.Store, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.made = append(b.made, properties)
	return &inBucket{bucket: b, properties: properties, keys: keys}, nil
}

// inBucket keeps a key until storage refuses it, as the SDK's cache of credentials does.
type inBucket struct {
	bucket     *bucket
	properties map[string]string
	keys       store.Credentials

	mu  sync.Mutex
	key string
}

func (s *inBucket) Open(ctx context.Context, location string, size int64) (store.Object, error) {
	for range 2 {
		key, err := s.current(ctx)
		if err != nil {
			return nil, err
		}
		if s.bucket.allows(key, location) {
			return s.bucket.files.Open(ctx, location, size)
		}
		s.mu.Lock()
		if s.key == key { // else another reader has a new one
			s.key = ""
		}
		s.mu.Unlock()
		if s.keys == nil {
			break
		}
	}
	return nil, fault.New(fault.Unavailable, "access to %s is denied", location)
}

func (s *inBucket) current(ctx context.Context) (string, error) {
	if s.keys == nil {
		return s.properties["s3.access-key-id"], nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key == "" {
		key, err := s.keys(ctx)
		if err != nil {
			return "", err
		}
		s.key = key.Properties["s3.access-key-id"]
	}
	return s.key, nil
}

func (b *bucket) allows(key, location string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened = append(b.opened, key+" "+location)
	prefix, known := b.opens[key]
	return known && !b.ended[key] && strings.HasPrefix(location, prefix)
}

// vending is a REST server that vends keys of its own for each of two tables of a bucket.
type vending struct {
	*restcattest.Server
	bucket *bucket
	mu     sync.Mutex
	given  int
	life   time.Duration // of keys; 0: their expiry is unknown
	config map[string]string
}

func newVending(t *testing.T) *vending {
	t.Helper()
	w := icebergtest.NewWriter(t)
	for _, name := range []string{"a.events", "b.events"} {
		w.Create(t, name, icebergtest.IDSchema())
	}
	under := w.Tables(t)
	v := &vending{Server: restcattest.Start(t), bucket: newBucket()}
	v.Tables = func(namespace []string, name string) (restcattest.Table, bool) {
		table, ok := under(namespace, name)
		v.mu.Lock()
		defer v.mu.Unlock()
		table.Config = v.config
		table.Credentials = []restcattest.Credential{
			{Prefix: "s3://b/" + namespace[0], Config: v.key("s3://b/" + namespace[0])},
			{Prefix: "s3://b/" + namespace[0] + "/metadata", Config: v.key("s3://b/" + namespace[0] + "/metadata")},
		}
		return table, ok
	}
	for _, name := range []string{"a", "b"} {
		v.bucket.files.Put("s3://b/"+name+"/1", []byte(name))
		v.bucket.files.Put("s3://b/"+name+"/metadata/1", []byte(name))
		v.bucket.files.Put("s3a://b/"+name+"/1", []byte(name))
	}
	return v
}

// key makes a key for a prefix.
func (v *vending) key(prefix string) map[string]string {
	v.given++
	id := fmt.Sprintf("key-%d", v.given)
	v.bucket.mu.Lock()
	defer v.bucket.mu.Unlock()
	v.bucket.opens[id] = prefix
	out := map[string]string{"s3.access-key-id": id, "s3.secret-access-key": "secret", "s3.session-token": "session"}
	if v.life != 0 {
		out["s3.session-token-expires-at-ms"] = strconv.FormatInt(time.Now().Add(v.life).UnixMilli(), 10)
	}
	return out
}

func (v *vending) open(t *testing.T, properties map[string]string) *icebergcat.Catalog {
	t.Helper()
	return icebergtest.OpenREST(t, v.Server, func(o *icebergcat.Options) {
		o.Stores, o.Clock, o.Properties = v.bucket.kinds(), time.Now, properties
	})
}

// end ends all keys that were given.
func (b *bucket) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range b.opens {
		b.ended[key] = true
	}
}

func pin(t *testing.T, c *icebergcat.Catalog, name string) *catalog.Table {
	t.Helper()
	table, err := c.Table(t.Context(), name, dataset.Ref{})
	require.NoError(t, err)
	return table
}

// touch opens a file of a table and closes it.
func touch(ctx context.Context, c *icebergcat.Catalog, t *catalog.Table, location string) error {
	object, err := c.Open(ctx, t, location, 1)
	if err != nil {
		return err
	}
	return object.Close()
}

// Each table's files are opened with the credentials that the catalog returned for that
// table, the longest prefix first, and with no others.
//
// spec: catalog-3
func TestKeysBelongToTables(t *testing.T) {
	v := newVending(t)
	v.config = map[string]string{"s3.endpoint": "http://e"}
	c := v.open(t, map[string]string{"s3.access-key-id": "own", "s3.secret-access-key": "secret", "s3.role-arn": "arn", "s3.region": "r"})
	v.bucket.opens["own"] = "s3://b/c"
	v.bucket.files.Put("s3://b/c/1", []byte("c"))
	a, b := pin(t, c, "a.events"), pin(t, c, "b.events")
	for _, location := range []string{"s3://b/a/1", "s3://b/a/metadata/1"} {
		require.NoError(t, touch(t.Context(), c, a, location))
		err := touch(t.Context(), c, b, location)
		require.ErrorContains(t, err, "is denied", "another table's keys are not for it")
	}
	require.NoError(t, touch(t.Context(), c, b, "s3://b/b/1"))
	v.bucket.opens["key-1"], v.bucket.opened = "s3a://b/a", nil
	require.NoError(t, touch(t.Context(), c, a, "s3a://b/a/1"), "another word for the same scheme")
	require.Equal(t, []string{"key-1 s3a://b/a/1"}, v.bucket.opened)
	require.NoError(t, touch(t.Context(), c, a, "s3://b/c/1"), "what none is for is opened as the catalog's own")

	var plain, keyed int
	for _, properties := range v.bucket.made {
		require.Equal(t, "r", properties["s3.region"])
		if properties["s3.access-key-id"] != "" {
			plain++
			continue
		}
		keyed++
		require.Equal(t, map[string]string{"s3.region": "r", "s3.endpoint": "http://e"}, properties, "who the catalog's own keys are is left out")
	}
	require.Equal(t, 2, plain, "one for each table whose files outside of all prefixes were asked for")
	require.Equal(t, 3, keyed, "one for each prefix that was used, however often the tables are loaded")
	require.NoError(t, touch(t.Context(), c, pin(t, c, "a.events"), "s3://b/a/metadata/1"))
	require.Len(t, v.bucket.made, 5)
}

// Expiring keys are replaced during reads, with one request for all readers.
//
// spec: catalog-4
func TestKeysAreRenewed(t *testing.T) {
	for name, life := range map[string]time.Duration{"an unknown expiry": 0, "long before their expiry": time.Hour} {
		t.Run(name, func(t *testing.T) {
			v := newVending(t)
			v.life = life
			c := v.open(t, nil)
			a := pin(t, c, "a.events")
			require.NoError(t, touch(t.Context(), c, a, "s3://b/a/1"))
			v.Asked()
			for range 3 {
				v.bucket.end()
				var group errgroup.Group
				for range 8 {
					group.Go(func() error { return touch(t.Context(), c, a, "s3://b/a/1") })
				}
				require.NoError(t, group.Wait())
			}
			require.Equal(t, []string{
				"GET /v1/namespaces/a/tables/events", "GET /v1/namespaces/a/tables/events", "GET /v1/namespaces/a/tables/events",
			}, v.Asked())
		})
	}
}

// A key that is about to expire is not used, and a new one is requested before it expires.
//
// spec: catalog-4
func TestKeysAreRenewedBeforeTheyExpire(t *testing.T) {
	v := newVending(t)
	v.life = 40 * time.Second
	var keys store.Credentials
	c := icebergtest.OpenREST(t, v.Server, func(o *icebergcat.Options) {
		o.Clock = time.Now
		o.Stores = v.bucket.kinds()
		o.Stores["s3"].Open = func(ctx context.Context, properties map[string]string, k store.Credentials) (store.Store, error) {
			keys = k
			return v.bucket.open(ctx, properties, k)
		}
	})
	require.NoError(t, touch(t.Context(), c, pin(t, c, "a.events"), "s3://b/a/1"))
	key, err := keys(t.Context())
	require.NoError(t, err)
	require.Less(t, time.Until(key.Expires), 31*time.Second, "a quarter of their life early")
	require.Greater(t, time.Until(key.Expires), time.Second)

	v.mu.Lock()
	v.life = -time.Second
	v.mu.Unlock()
	_, err = keys(t.Context())
	require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String())
	require.ErrorContains(t, err, `the catalog vends no valid credentials for files of table a.events below "s3://b/a"`)
}

// A process that did not pin a table requests credentials for its files, and fails if that
// fails.
func TestKeysForTablesPinnedElsewhere(t *testing.T) {
	v := newVending(t)
	a := pin(t, v.open(t, nil), "a.events")
	c := v.open(t, nil)
	v.Change(func(s *restcattest.Server) { s.Token = "other" })
	require.Equal(t, fault.Unavailable.String(), fault.KindOf(touch(t.Context(), c, a, "s3://b/a/1")).String())
	v.Change(func(s *restcattest.Server) { s.Token = "" })
	v.Asked()
	require.NoError(t, touch(t.Context(), c, a, "s3://b/a/1"))
	require.NoError(t, touch(t.Context(), c, a, "s3://b/a/1"))
	require.Len(t, v.Asked(), 1)
	for _, opened := range v.bucket.opened {
		require.True(t, strings.HasPrefix(opened, "key-"), opened)
	}
}

// A catalog that returns no credentials is not asked again for each file.
func TestCatalogsWithoutCredentialsAreAskedOnce(t *testing.T) {
	v := newVending(t)
	under := v.Tables
	v.Tables = func(namespace []string, name string) (restcattest.Table, bool) {
		table, ok := under(namespace, name)
		table.Credentials = nil
		return table, ok
	}
	own := map[string]string{"s3.access-key-id": "own", "s3.secret-access-key": "secret"}
	c := v.open(t, own)
	v.bucket.opens["own"] = "s3://b/"
	a := pin(t, c, "a.events")
	v.Asked()
	for range 3 {
		require.NoError(t, touch(t.Context(), c, a, "s3://b/a/1"))
	}
	require.Empty(t, v.Asked())
	want := maps.Clone(own)
	require.Equal(t, []map[string]string{want}, v.bucket.made)
}
