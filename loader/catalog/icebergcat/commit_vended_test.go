package icebergcat_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
)

// Create implements store.Writer. It takes the credentials of reads.
func (s *fakeStore) Create(ctx context.Context, location string, content []byte) error {
	if err := s.renew(ctx); err != nil {
		return err
	}
	return store.Local{}.Create(ctx, s.cloud.path(location), content)
}

// Remove implements store.Writer.
func (s *fakeStore) Remove(ctx context.Context, location string) error {
	if err := s.renew(ctx); err != nil {
		return err
	}
	return store.Local{}.Remove(ctx, s.cloud.path(location))
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

// The files of a commit are written with the credentials that the catalog vends for the table.
//
// spec: write-27
func TestCommitsUseVendedCredentials(t *testing.T) {
	c, w := newFakeCloud(t)
	s := restcattest.Start(t)
	w.commits(t, s)
	prefix := fakeRoot + "events"
	s.Tables = func([]string, string) (restcattest.Table, bool) {
		location := w.load(t, events).MetadataLocation()
		text, err := os.ReadFile(c.path(location))
		require.NoError(t, err)
		return restcattest.Table{
			Location: location, Metadata: text,
			Credentials: []restcattest.Credential{{Prefix: prefix, Config: map[string]string{"fake.token": "vended"}}},
		}, true
	}
	open := func() *icebergcat.Catalog {
		return openREST(t, s, func(o *icebergcat.Options) {
			o.Stores, o.Clock, o.AllowedPrefixes, o.WriteNamespaces = store.NewKinds(c.kind()), time.Now, nil, []string{"ml"}
			o.Properties = map[string]string{"fake.token": "own"}
		})
	}
	file := commit.DataFile{Location: fakeRoot + "events/data/x.parquet", Rows: 1, Bytes: 100}
	c.tokens["vended"] = true
	made, err := open().Commit(t.Context(), commit.Change{Table: events, Token: token("x"), Add: []commit.DataFile{file}})
	require.NoError(t, err)
	require.Equal(t, made.Snapshot, w.load(t, events).CurrentSnapshot().SnapshotID)

	// Credentials for another place are not used, and files elsewhere are no part of the table.
	prefix = fakeRoot + "other"
	_, err = open().Commit(t.Context(), commit.Change{Table: events, Token: token("y"), Add: []commit.DataFile{file}})
	require.ErrorContains(t, err, `token "own" is rejected`)
	file.Location = fakeRoot + "elsewhere/x.parquet"
	prefix = fakeRoot + "events"
	_, err = open().Commit(t.Context(), commit.Change{Table: events, Token: token("z"), Add: []commit.DataFile{file}})
	require.Equal(t, fault.Forbidden.String(), fault.KindOf(err).String(), "%v", err)
	require.Equal(t, made.Snapshot, w.load(t, events).CurrentSnapshot().SnapshotID)
}
