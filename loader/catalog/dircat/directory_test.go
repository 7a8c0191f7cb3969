package dircat_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/internal/store/storetest"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/catalogtest"
	"github.com/penstock/penstock/loader/catalog/icebergcat"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

// publish names the metadata file that is the table now, as writers do whose files are not
// whole from the first moment on.
func publish(t *testing.T, w *icebergtest.Writer, table string) {
	t.Helper()
	file := icebergtest.Local(t, w.Load(t, table).MetadataLocation())
	hint := filepath.Join(filepath.Dir(file), "version-hint.text")
	require.NoError(t, os.WriteFile(hint+".new", []byte(filepath.Base(file)), 0o600))
	require.NoError(t, os.Rename(hint+".new", hint))
}

// Tables that a writer leaves in its warehouse are found without its catalog.
//
// spec: catalog-1
func TestDirectoryConforms(t *testing.T) {
	catalogtest.Run(t, func(t *testing.T) catalogtest.Rig {
		t.Helper()
		w := icebergtest.NewWriter(t)
		r := w.Rig(icebergtest.OpenDirectory(t, icebergcat.Options{Warehouse: "file://" + w.Dir, AllowedPrefixes: icebergtest.Anywhere()}))
		drop := r.Drop
		r.Drop = func(t *testing.T, table string) {
			t.Helper()
			folder := filepath.Dir(filepath.Dir(icebergtest.Local(t, w.Load(t, table).MetadataLocation())))
			drop(t, table)
			require.NoError(t, os.RemoveAll(folder))
		}
		create, unsequenced, sequenced, commit, setRef, alter, expire := r.Create, r.Unsequenced, r.Sequenced, r.Commit, r.SetRef, r.Alter, r.Expire
		r.Create = func(t *testing.T, table string) { create(t, table); publish(t, w, table) }
		r.Unsequenced = func(t *testing.T, table string) { unsequenced(t, table); publish(t, w, table) }
		r.Sequenced = func(t *testing.T, table string) { sequenced(t, table); publish(t, w, table) }
		r.SetRef = func(t *testing.T, table string, ref catalogtest.Ref) { setRef(t, table, ref); publish(t, w, table) }
		r.Alter = func(t *testing.T, table string, fields []catalog.Field) {
			alter(t, table, fields)
			publish(t, w, table)
		}
		r.Expire = func(t *testing.T, table string, snapshot int64) { expire(t, table, snapshot); publish(t, w, table) }
		r.Commit = func(t *testing.T, table string, change catalogtest.Commit) int64 {
			id := commit(t, table, change)
			publish(t, w, table)
			return id
		}
		return r
	})
}

// spec: catalog-10
func TestDirectoryVersions(t *testing.T) {
	const metadata = "ml/events/metadata/"
	folder, snapshots := icebergtest.Versioned(t)
	v2, err := os.ReadFile(filepath.Join(folder, metadata, "v2.metadata.json"))
	require.NoError(t, err)
	icebergtest.Put(t, folder, "elsewhere/x.metadata.json", string(v2))
	for _, c := range []struct {
		name   string
		change func(t *testing.T)
		want   int64
		kind   fault.Kind
		text   string
	}{
		{"the highest", func(*testing.T) {}, snapshots[2], 0, ""},
		{"the hint", func(t *testing.T) {
			icebergtest.Put(t, folder, metadata+"version-hint.text", "2\n")
			require.NoError(t, os.Remove(filepath.Join(folder, metadata, "v3.metadata.json")))
		}, snapshots[1], 0, ""},
		{"a hint that was left behind", func(t *testing.T) { icebergtest.Put(t, folder, metadata+"version-hint.text", "1") }, snapshots[1], 0, ""},
		{"a hint of a name", func(t *testing.T) { icebergtest.Put(t, folder, metadata+"version-hint.text", "v1") }, snapshots[0], 0, ""},
		{
			"a hint of nothing", func(t *testing.T) { icebergtest.Put(t, folder, metadata+"version-hint.text", "7") },
			0, fault.Corrupt, "version-hint.text names version 7, which does not exist",
		},
		{
			"an empty hint", func(t *testing.T) { icebergtest.Put(t, folder, metadata+"version-hint.text", " \n") },
			0, fault.Unavailable, "version-hint.text is empty",
		},
		{"without it", func(t *testing.T) {
			require.NoError(t, os.Remove(filepath.Join(folder, metadata, "version-hint.text")))
			icebergtest.Put(t, folder, metadata+"00001-0b0d.metadata.json", string(v2))
			icebergtest.Put(t, folder, metadata+"notes.txt", "")
		}, snapshots[1], 0, ""},
		{
			"a tie", func(t *testing.T) { icebergtest.Put(t, folder, metadata+"00002-0b0d.metadata.json", string(v2)) },
			0, fault.Invalid, "several metadata files of version 2: 00002-0b0d.metadata.json, v2.metadata.json",
		},
		{
			"two folders", func(t *testing.T) {
				require.NoError(t, os.Remove(filepath.Join(folder, metadata, "00002-0b0d.metadata.json")))
				icebergtest.Put(t, folder, "ml.db/events/metadata/v1.metadata.json", string(v2))
			},
			0, fault.Invalid, "table ml.events is in " + folder + "/ml/events and in " + folder + "/ml.db/events",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.change(t)
			table, err := icebergtest.OpenDirectory(t, icebergcat.Options{Warehouse: folder}).Table(t.Context(), icebergtest.Events, dataset.Ref{})
			if c.text != "" {
				require.ErrorContains(t, err, c.text)
				require.Equal(t, c.kind.String(), fault.KindOf(err).String())
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, table.Pin.Snapshot)
		})
	}
	named := icebergtest.OpenDirectory(t, icebergcat.Options{
		Warehouse: folder, BaseDir: folder, Properties: map[string]string{"tables.ml.events": "elsewhere/x.metadata.json"},
	})
	table, err := named.Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err, "a path is what it is, whatever lies in the folder")
	require.Equal(t, snapshots[1], table.Pin.Snapshot)

	c := icebergtest.OpenDirectory(t, icebergcat.Options{Warehouse: filepath.Join(folder, "ml")})
	for _, name := range []string{"ml.a/events", `ml.a\b`, "events.metadata", "elsewhere.x"} {
		_, err := c.Table(t.Context(), name, dataset.Ref{})
		require.Equal(t, fault.NotFound.String(), fault.KindOf(err).String(), "%s: %v", name, err)
	}
	_, err = icebergcat.Open(t.Context(), icebergcat.Options{Name: "folder", Type: "directory", Store: store.Local{}})
	require.ErrorContains(t, err, "a catalog of type directory needs one, or tables")
}

// On S3, a table is found by its hint, and folders are not listed.
func TestDirectoryOnS3(t *testing.T) {
	folder, snapshots := icebergtest.Versioned(t)
	files := storetest.NewMemory()
	for _, name := range []string{"v1.metadata.json", "v2.metadata.json"} {
		content, err := os.ReadFile(filepath.Join(folder, "ml/events/metadata", name))
		require.NoError(t, err)
		files.Put("s3://b/wh/ml.db/events/metadata/"+name, content)
	}
	o := icebergcat.Options{
		Warehouse: "s3://b/wh/", Stores: icebergtest.AsS3(files),
	}
	_, err := icebergtest.OpenDirectory(t, o).Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.Equal(t, fault.NotFound.String(), fault.KindOf(err).String())
	require.ErrorContains(t, err, "folders of s3 are not listed")
	o.Properties = map[string]string{"tables.ml.events": "s3://b/wh/ml.db/events/metadata/v1.metadata.json"}
	table, err := icebergtest.OpenDirectory(t, o).Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.NoError(t, err)
	require.Equal(t, snapshots[0], table.Pin.Snapshot)
	o.Properties = nil
	files.Put("s3://b/wh/ml.db/events/metadata/version-hint.text", nil)
	_, err = icebergtest.OpenDirectory(t, o).Table(t.Context(), icebergtest.Events, dataset.Ref{})
	require.Equal(t, fault.Unavailable.String(), fault.KindOf(err).String())
	require.ErrorContains(t, err, "version-hint.text is empty")
	for hint, want := range map[string]int64{"1": snapshots[1], "v1": snapshots[0], "2": snapshots[1]} {
		files.Put("s3://b/wh/ml.db/events/metadata/version-hint.text", []byte(strings.TrimSpace(hint)))
		table, err := icebergtest.OpenDirectory(t, o).Table(t.Context(), icebergtest.Events, dataset.Ref{})
		require.NoError(t, err)
		require.Equal(t, want, table.Pin.Snapshot)
	}
}
