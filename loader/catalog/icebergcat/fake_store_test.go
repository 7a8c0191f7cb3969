package icebergcat_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	iceio "github.com/apache/iceberg-go/io"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/plan"
	"github.com/penstock/penstock/loader/scan"
)

// revoke rejects all tokens that were accepted until now.
func revoke(c *icebergtest.FakeCloud) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	clear(c.Tokens)
}

var _ iceio.WriteFileIO = icebergtest.FakeIO{}

// ids reads the table through a catalog and a scanner.
func ids(t *testing.T, c *icebergtest.FakeCloud, from *icebergcat.Catalog) ([]int64, error) {
	t.Helper()
	table, err := from.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	if err != nil {
		return nil, err
	}
	files, err := from.Files(t.Context(), table, []int{1}, nil)
	if err != nil {
		return nil, err
	}
	source := plan.Source{Table: table, Planned: []int{1}}
	for _, f := range files {
		require.True(t, strings.HasPrefix(f.Location, icebergtest.FakeRoot), f.Location)
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
		c, w := icebergtest.NewFakeCloud(t)
		c.Tokens["own"] = true
		o := w.Options()
		o.AllowedPrefixes = nil
		o.Stores = store.NewKinds(s3.Kind(store.Environment{}), c.Kind())
		o.Properties = map[string]string{"fake.token": "own"}
		opened, err := icebergcat.Open(t.Context(), o)
		require.NoError(t, err)
		t.Cleanup(opened.Close)
		got, err := ids(t, c, opened)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, []map[string]string{{"fake.token": "own"}}, c.Opened)
	})

	t.Run("vended credentials", func(t *testing.T) {
		c, w := icebergtest.NewFakeCloud(t)
		s, vended := restcattest.Start(t), 0
		s.Tables = func([]string, string) (restcattest.Table, bool) {
			location := w.Load(t, icebergtest.Events).MetadataLocation()
			text, err := os.ReadFile(c.Path(location))
			require.NoError(t, err)
			vended++
			token := fmt.Sprint("vended-", vended)
			c.Mu.Lock()
			c.Tokens[token] = true
			c.Mu.Unlock()
			return restcattest.Table{
				Location: location, Metadata: text, Config: map[string]string{"fake.endpoint": "e", "fake.token": "of all tables"},
				Credentials: []restcattest.Credential{{Prefix: icebergtest.FakeRoot + "events", Config: map[string]string{
					"fake.token": token, "fake.token-expires-at-ms": strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10),
				}}},
			}, true
		}
		opened := icebergtest.OpenREST(t, s, func(o *icebergcat.Options) {
			o.Stores, o.Clock, o.AllowedPrefixes = store.NewKinds(c.Kind()), time.Now, nil
			o.Properties = map[string]string{"fake.account": "own", "fake.token": "own", "fake.region": "r"}
		})
		for range 3 {
			got, err := ids(t, c, opened)
			require.NoError(t, err)
			require.Equal(t, want, got)
			revoke(c)
		}
		require.Equal(t, []map[string]string{{"fake.endpoint": "e", "fake.region": "r"}}, c.Opened,
			"one store, whose vended credentials replace the catalog's own identity")
	})

	t.Run("not served", func(t *testing.T) {
		c, w := icebergtest.NewFakeCloud(t)
		o := w.Options()
		o.Stores = store.NewKinds(s3.Kind(store.Environment{}))
		opened, err := icebergcat.Open(t.Context(), o)
		require.NoError(t, err)
		t.Cleanup(opened.Close)
		_, err = ids(t, c, opened)
		require.Equal(t, fault.Invalid.String(), fault.KindOf(err).String())
		require.ErrorContains(t, err, `scheme "fake" of fake://lake/`)
		require.ErrorContains(t, err, "keep the files on local disk (file:///path) or on S3 or a store that speaks its protocol (s3://bucket/path)")
	})
}
