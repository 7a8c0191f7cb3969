package icebergtest

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/s3"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
)

// OpenDirectory opens the folder that has a writer's tables as a catalog of type directory.
func OpenDirectory(t *testing.T, o icebergcat.Options) *icebergcat.Catalog {
	t.Helper()
	o.Name, o.Type = "folder", "directory"
	if o.Store == nil {
		o.Store = store.Local{}
	}
	c, err := icebergcat.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// Versioned copies the metadata files of a table into the layout of Hadoop's catalog: v1, v2, v3.
func Versioned(t *testing.T) (folder string, snapshots []int64) {
	t.Helper()
	w := NewWriter(t)
	spec := w.Create(t, Events, IDSchema()).Spec()
	var texts [][]byte
	for _, name := range []string{"a", "b", "c"} {
		snapshots = append(snapshots, w.Add(t, Events, "", DataFile(t, spec, Location(name), nil, nil)))
		text, err := os.ReadFile(Local(t, w.Load(t, Events).MetadataLocation()))
		require.NoError(t, err)
		texts = append(texts, text)
	}
	folder = t.TempDir()
	for i, name := range []string{"v1.metadata.json", "v2.metadata.json", "v3.metadata.json"} {
		Put(t, folder, "ml/events/metadata/"+name, string(texts[i]))
	}
	return folder, snapshots
}

// Put writes a file in a folder.
func Put(t *testing.T, folder, name, content string) {
	t.Helper()
	path := filepath.Join(folder, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// Local returns the local path of a location of the writer.
func Local(t *testing.T, location string) string {
	t.Helper()
	path, err := store.Path(location)
	require.NoError(t, err)
	return path
}

// TwoManifests makes a table with two data files in two manifests. It returns the table's manifest
// list and one of the manifests.
func TwoManifests(t *testing.T, w *Writer) (list, manifest string) {
	t.Helper()
	spec := w.Create(t, Events, IDSchema()).Spec()
	w.Add(t, Events, "", DataFile(t, spec, Location("a"), nil, nil))
	w.Add(t, Events, "", DataFile(t, spec, Location("b"), nil, nil))
	snapshot := w.Load(t, Events).CurrentSnapshot()
	content, err := os.ReadFile(Local(t, snapshot.ManifestList))
	require.NoError(t, err)
	manifests, err := iceberg.ReadManifestList(bytes.NewReader(content))
	require.NoError(t, err)
	require.Len(t, manifests, 2)
	return snapshot.ManifestList, manifests[0].FilePath()
}

// AsS3 returns the kind of storage S3, but with its files in the given store.
func AsS3(files store.Store) store.Kinds {
	kind := s3.Kind(store.Environment{})
	kind.Open = func(context.Context, map[string]string, store.Credentials) (store.Store, error) { return files, nil }
	return store.NewKinds(kind)
}

// WithSchemas replaces the schemas in a table's metadata with this text.
func (w *Writer) WithSchemas(t *testing.T, schemas string, current int) {
	t.Helper()
	path := Local(t, w.Load(t, Events).MetadataLocation())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	var metadata map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(content, &metadata))
	metadata["schemas"], metadata["current-schema-id"] = json.RawMessage(schemas), json.RawMessage(strconv.Itoa(current))
	metadata["last-column-id"] = json.RawMessage("99")
	content, err = json.Marshal(metadata)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, content, 0o600))
}
