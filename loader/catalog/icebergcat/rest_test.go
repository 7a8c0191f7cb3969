package icebergcat_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
)

// tables are those of the writer, as a REST server knows them.
func (w *writer) tables(t *testing.T) restcattest.Tables {
	return func(namespace []string, name string) (restcattest.Table, bool) {
		tbl, err := w.LoadTable(t.Context(), append(append([]string{}, namespace...), name))
		if err != nil {
			return restcattest.Table{}, false
		}
		text, err := os.ReadFile(local(t, tbl.MetadataLocation()))
		require.NoError(t, err)
		return restcattest.Table{Location: tbl.MetadataLocation(), Metadata: text}, true
	}
}

// serve puts a REST server before the writer's catalog.
func (w *writer) serve(t *testing.T) *restcattest.Server {
	t.Helper()
	s := restcattest.Start(t)
	s.Tables, s.Names = w.tables(t), []string{events}
	return s
}

// openREST opens a REST catalog; change may be nil.
func openREST(t *testing.T, s *restcattest.Server, change func(*icebergcat.Options)) *icebergcat.Catalog {
	t.Helper()
	o := icebergcat.Options{Name: "lake", Type: "rest", URI: s.URL, Store: store.Local{}, AllowedPrefixes: anywhere()}
	if change != nil {
		change(&o)
	}
	c, err := icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// spec: catalog-1
func TestRESTConforms(t *testing.T) {
	catalogtest.Run(t, func(t *testing.T) catalogtest.Rig {
		t.Helper()
		w := newWriter(t)
		return w.rig(openREST(t, w.serve(t), nil))
	})
}

// A table is loaded with one request, and its metadata file is not read.
//
// spec: catalog-2
func TestRESTReadsNoMetadataFile(t *testing.T) {
	w := newWriter(t)
	spec := w.create(t, events, idSchema()).Spec()
	w.add(t, events, "", dataFile(t, spec, location("a"), nil, nil))
	s := w.serve(t)
	opened := &opens{Store: store.Local{}}
	c := openREST(t, s, func(o *icebergcat.Options) { o.Store = opened })
	s.Asked()
	files, err := list(t, c, 1)
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Equal(t, []string{"GET /v1/namespaces/ml/tables/events", "GET /v1/namespaces/ml/tables/events"}, s.Asked(), "one for the table, one for its files")
	for _, f := range opened.files {
		require.False(t, strings.HasSuffix(f, ".json"), f)
	}
}
