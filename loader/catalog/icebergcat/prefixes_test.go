package icebergcat_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/catalog/restcat/restcattest"
	"github.com/penstock/penstock/loader/dataset"
)

// watched returns a catalog of the writer that allows some prefixes, and what it opens.
func watched(t *testing.T, w *icebergtest.Writer, change func(*icebergcat.Options)) (*icebergcat.Catalog, *icebergtest.Opens) {
	t.Helper()
	o := w.Options()
	files := &icebergtest.Opens{Store: store.Local{}}
	o.Store, o.AllowedPrefixes = files, nil
	if change != nil {
		change(&o)
	}
	c, err := icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c, files
}

// elsewhere checks that the listing of a table is refused because of a file, of which nothing was requested.
func elsewhere(t *testing.T, c *icebergcat.Catalog, files *icebergtest.Opens, what, location string) {
	t.Helper()
	_, err := icebergtest.List(t, c, 1)
	require.Equal(t, fault.Forbidden.String(), fault.KindOf(err).String(), "%v", err)
	require.ErrorContains(t, err, what+" "+location+" of table ml.events is not under ")
	require.Equal(t, icebergtest.Events, fault.As(err).Table)
	require.Equal(t, location, fault.As(err).File)
	require.Contains(t, fault.As(err).Remedy, "allowed_prefixes")
	require.NotContains(t, files.Files, location)
}

// TestDataFilesElsewhereAreRefused: a table's files lie in its folder or in the warehouse, and where the block says.
//
// spec: storage-16, storage-17
func TestDataFilesElsewhereAreRefused(t *testing.T) {
	w := icebergtest.NewWriter(t)
	table := w.Create(t, icebergtest.Events, icebergtest.IDSchema())
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, table.Spec(), table.Location()+"/data/a.parquet", nil, nil))
	c, _ := watched(t, w, nil)
	found, err := icebergtest.List(t, c, 1)
	require.NoError(t, err)
	require.Len(t, found, 1)

	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, table.Spec(), icebergtest.Location("b"), nil, nil))
	c, files := watched(t, w, nil)
	elsewhere(t, c, files, "file", icebergtest.Location("b"))
	for name, change := range map[string]func(*icebergcat.Options){
		"the warehouse":  func(o *icebergcat.Options) { o.Warehouse = "file:///warehouse" },
		"its prefixes":   func(o *icebergcat.Options) { o.AllowedPrefixes = []string{"/warehouse", w.Dir} },
		"a relative one": func(o *icebergcat.Options) { o.AllowedPrefixes = []string{"/warehouse", "."} },
	} {
		c, _ := watched(t, w, change)
		found, err := icebergtest.List(t, c, 1)
		require.NoError(t, err, name)
		require.Len(t, found, 2, name)
	}
	for name, change := range map[string]func(*icebergcat.Options){
		"a warehouse of a similar name": func(o *icebergcat.Options) { o.Warehouse = "file:///ware" },
		"a warehouse that is a name":    func(o *icebergcat.Options) { o.Warehouse = "warehouse" },
		"prefixes without it":           func(o *icebergcat.Options) { o.Warehouse, o.AllowedPrefixes = "/warehouse", []string{w.Dir} },
	} {
		t.Run(name, func(t *testing.T) {
			c, files := watched(t, w, change)
			elsewhere(t, c, files, "file", icebergtest.Location("b"))
		})
	}
}

// TestDeleteFilesElsewhereAreRefused checks delete files of every kind.
//
// spec: storage-16
func TestDeleteFilesElsewhereAreRefused(t *testing.T) {
	for name, of := range map[string]struct {
		version string
		content iceberg.ManifestEntryContent
		format  iceberg.FileFormat
	}{
		"position deletes":  {"2", iceberg.EntryContentPosDeletes, iceberg.ParquetFile},
		"equality deletes":  {"2", iceberg.EntryContentEqDeletes, iceberg.ParquetFile},
		"a deletion vector": {"3", iceberg.EntryContentPosDeletes, iceberg.PuffinFile},
	} {
		t.Run(name, func(t *testing.T) {
			h := icebergtest.NewHandmade(t, of.version, func(s *icetable.Snapshot) {
				if of.version == "3" {
					s.FirstRowID, s.AddedRows = new(int64), new(int64)
				}
			})
			h.Commit(t, h.Deletes(t, "deletes.avro", icebergtest.DeleteFile(t, h.Table.Spec(), of.content, of.format)))
			c, files := watched(t, h.Writer, func(o *icebergcat.Options) { o.AllowedPrefixes = []string{h.Dir} })
			elsewhere(t, c, files, "delete file", icebergtest.Location("deletes"))
		})
	}
}

// TestManifestsElsewhereAreRefused: nothing is requested of a manifest list or a manifest that lies elsewhere.
//
// spec: storage-16
func TestManifestsElsewhereAreRefused(t *testing.T) {
	h := icebergtest.NewHandmade(t, "2")
	outside := h.Manifest(t, "../outside.avro", func(w *iceberg.ManifestWriter) {
		require.NoError(t, w.Add(h.Entry(t, iceberg.EntryStatusADDED, "a", nil)))
	})
	h.Commit(t, outside)
	c, files := watched(t, h.Writer, nil)
	elsewhere(t, c, files, "manifest list", h.Path("list.avro"))
	c, files = watched(t, h.Writer, func(o *icebergcat.Options) { o.AllowedPrefixes = []string{h.Dir, "/warehouse"} })
	elsewhere(t, c, files, "manifest", outside.FilePath())
}

// TestMetadataWidensNothing: the location in a metadata file adds no prefix; the one that a catalog returns does.
//
// spec: storage-17
func TestMetadataWidensNothing(t *testing.T) {
	w := icebergtest.NewWriter(t)
	table := w.Create(t, icebergtest.Events, icebergtest.IDSchema(), icecatalog.WithProperties(iceberg.Properties{
		"write.data.path": "/warehouse", "write.object-storage.path": "/warehouse", "write.folder-storage.path": "/warehouse",
	}))
	w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, table.Spec(), icebergtest.Location("a"), nil, nil))
	c, files := watched(t, w, nil)
	elsewhere(t, c, files, "file", icebergtest.Location("a"))

	path := icebergtest.Local(t, w.Load(t, icebergtest.Events).MetadataLocation())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, wider := range []string{"/", "/warehouse", strings.TrimPrefix(table.Location(), "file://") + "/../../../.."} {
		changed := bytes.ReplaceAll(text, []byte(`"location":"`+table.Location()+`"`), []byte(`"location":"`+wider+`"`))
		require.NotEqual(t, text, changed)
		require.NoError(t, os.WriteFile(path, changed, 0o600))
		c, files := watched(t, w, nil)
		elsewhere(t, c, files, "file", icebergtest.Location("a"))
	}
	for returned, allowed := range map[string]bool{"/warehouse": true, "/ware": false, "/warehouse/../warehouse": false} {
		s := restcattest.Start(t)
		s.Tables = func([]string, string) (restcattest.Table, bool) {
			changed := bytes.ReplaceAll(text, []byte(`"location":"`+table.Location()+`"`), []byte(`"location":"`+returned+`"`))
			return restcattest.Table{Location: path, Metadata: changed}, true
		}
		_, err := icebergtest.List(t, icebergtest.OpenREST(t, s, func(o *icebergcat.Options) { o.AllowedPrefixes = nil }), 1)
		require.Equal(t, allowed, err == nil, "%s: %v", returned, err)
	}
}

func TestPrefixesThatAreNoneAreRefused(t *testing.T) {
	w := icebergtest.NewWriter(t)
	for _, wrong := range []string{"", "gs://b/x", "/a/../b", "s3://b/x"} { // S3 is not served here
		o := w.Options()
		o.AllowedPrefixes = []string{"/good", wrong}
		_, err := icebergcat.Open(t.Context(), o)
		require.Equal(t, fault.Invalid, fault.KindOf(err), wrong)
		require.ErrorContains(t, err, "allowed_prefixes", wrong)
	}
}

// TestOlderMetadataElsewhereIsRefused: the older metadata that a pin needs lies where the table's other files do.
//
// spec: storage-16
func TestOlderMetadataElsewhereIsRefused(t *testing.T) {
	w := icebergtest.MappedTable(t)
	w.SetMapping(t, icebergtest.OtherNames)
	c, _ := watched(t, w, nil)
	pinned, err := c.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	w.SetMapping(t, `[{"field-id":1,"names":["number"]}]`)
	_, err = c.At(t.Context(), icebergtest.Events, pinned.Pin)
	require.NoError(t, err)

	path := icebergtest.Local(t, w.Load(t, icebergtest.Events).MetadataLocation())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	changed := bytes.ReplaceAll(text, []byte(`"metadata-file":"file://`+w.Dir), []byte(`"metadata-file":"file:///elsewhere`+w.Dir))
	require.NotEqual(t, text, changed)
	require.NoError(t, os.WriteFile(path, changed, 0o600))
	c, files := watched(t, w, nil)
	_, err = c.At(t.Context(), icebergtest.Events, pinned.Pin)
	require.Equal(t, fault.Forbidden, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "metadata file:///elsewhere")
	for _, file := range files.Files {
		require.NotContains(t, file, "elsewhere")
	}
}
