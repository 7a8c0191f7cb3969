package commits_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/commit"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
)

// The files of a commit are written with the credentials that the catalog vends for the table.
//
// spec: write-27
func TestCommitsUseVendedCredentials(t *testing.T) {
	c, w := icebergtest.NewFakeCloud(t)
	s := restcattest.Start(t)
	w.Commits(t, s)
	prefix := icebergtest.FakeRoot + "events"
	s.Tables = func([]string, string) (restcattest.Table, bool) {
		location := w.Load(t, icebergtest.Events).MetadataLocation()
		text, err := os.ReadFile(c.Path(location))
		require.NoError(t, err)
		return restcattest.Table{
			Location: location, Metadata: text,
			Credentials: []restcattest.Credential{{Prefix: prefix, Config: map[string]string{"fake.token": "vended"}}},
		}, true
	}
	open := func() *icebergcat.Catalog {
		return icebergtest.OpenREST(t, s, func(o *icebergcat.Options) {
			o.Stores, o.Clock, o.AllowedPrefixes, o.WriteNamespaces = store.NewKinds(c.Kind()), time.Now, nil, []string{"ml"}
			o.Properties = map[string]string{"fake.token": "own"}
		})
	}
	file := commit.DataFile{Location: icebergtest.FakeRoot + "events/data/x.parquet", Rows: 1, Bytes: 100}
	c.Tokens["vended"] = true
	made, err := open().Commit(t.Context(), commit.Change{Table: icebergtest.Events, Token: icebergtest.Token("x"), Add: []commit.DataFile{file}})
	require.NoError(t, err)
	require.Equal(t, made.Snapshot, w.Load(t, icebergtest.Events).CurrentSnapshot().SnapshotID)

	// Credentials for another place are not used, and files elsewhere are no part of the table.
	prefix = icebergtest.FakeRoot + "other"
	_, err = open().Commit(t.Context(), commit.Change{Table: icebergtest.Events, Token: icebergtest.Token("y"), Add: []commit.DataFile{file}})
	require.ErrorContains(t, err, `token "own" is rejected`)
	file.Location = icebergtest.FakeRoot + "elsewhere/x.parquet"
	prefix = icebergtest.FakeRoot + "events"
	_, err = open().Commit(t.Context(), commit.Change{Table: icebergtest.Events, Token: icebergtest.Token("z"), Add: []commit.DataFile{file}})
	require.Equal(t, fault.Forbidden.String(), fault.KindOf(err).String(), "%v", err)
	require.Equal(t, made.Snapshot, w.Load(t, icebergtest.Events).CurrentSnapshot().SnapshotID)
}
