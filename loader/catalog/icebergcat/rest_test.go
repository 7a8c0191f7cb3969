package icebergcat_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
)

// spec: catalog-1
func TestRESTConforms(t *testing.T) {
	catalogtest.Run(t, func(t *testing.T) catalogtest.Rig {
		t.Helper()
		w := icebergtest.NewWriter(t)
		return w.Rig(icebergtest.OpenREST(t, w.Serve(t), nil))
	})
}

// A table is loaded with one request, and its metadata file is not read.
//
// spec: catalog-2
func TestRESTReadsNoMetadataFile(t *testing.T) {
	w := icebergtest.NewWriter(t)
	spec := w.Create(t, icebergtest.Events, icebergtest.IDSchema()).Spec()
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, spec, icebergtest.Location("a"), nil, nil))
	s := w.Serve(t)
	opened := &icebergtest.Opens{Store: store.Local{}}
	c := icebergtest.OpenREST(t, s, func(o *icebergcat.Options) { o.Store = opened })
	s.Asked()
	files, err := icebergtest.List(t, c, 1)
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Equal(t, []string{"GET /v1/namespaces/ml/tables/events", "GET /v1/namespaces/ml/tables/events"}, s.Asked(), "one for the table, one for its files")
	for _, f := range opened.Files {
		require.False(t, strings.HasSuffix(f, ".json"), f)
	}
}
