package listing_test

import (
	"bytes"
	"os"
	"strconv"
	"testing"

	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat/icebergtest"
	"github.com/penstock/penstock/loader/dataset"
)

// One manifest has files that were added, kept and deleted: the deleted ones are not listed,
// and the others have the sequence number of their data.
func TestEntriesOfEveryStatus(t *testing.T) {
	h := icebergtest.NewHandmade(t, "2")
	two, three := int64(2), int64(3)
	h.Commit(t, h.Manifest(t, "m.avro", func(w *iceberg.ManifestWriter) {
		require.NoError(t, w.Add(h.Entry(t, iceberg.EntryStatusADDED, "added", nil)))
		require.NoError(t, w.Existing(h.Entry(t, iceberg.EntryStatusEXISTING, "stayed", &three)))
		require.NoError(t, w.Delete(h.Entry(t, iceberg.EntryStatusDELETED, "deleted", &two)))
		require.NoError(t, w.Add(h.Entry(t, iceberg.EntryStatusADDED, "rewritten", &two)))
	}))
	files, err := icebergtest.List(t, h.Open(t), 1)
	require.NoError(t, err)
	got := make([]string, len(files))
	for i, f := range files {
		got[i] = f.Location + " " + strconv.FormatInt(f.Sequence, 10)
	}
	require.Equal(t, []string{
		icebergtest.Location("rewritten") + " 2", icebergtest.Location("stayed") + " 3", icebergtest.Location("added") + " 5",
	}, got)
}

// A manifest whose files were all deleted is not opened.
func TestDeadManifests(t *testing.T) {
	h := icebergtest.NewHandmade(t, "2")
	two := int64(2)
	dead := h.Manifest(t, "dead.avro", func(w *iceberg.ManifestWriter) {
		require.NoError(t, w.Delete(h.Entry(t, iceberg.EntryStatusDELETED, "deleted", &two)))
	})
	require.NoError(t, os.Remove(dead.FilePath()))
	h.Commit(t, dead)
	files, err := icebergtest.List(t, h.Open(t), 1)
	require.NoError(t, err)
	require.Empty(t, files)
}

func TestEncryptedManifestsAreRefused(t *testing.T) {
	h := icebergtest.NewHandmade(t, "2")
	m := h.Manifest(t, "m.avro", func(w *iceberg.ManifestWriter) {
		require.NoError(t, w.Add(h.Entry(t, iceberg.EntryStatusADDED, "a", nil)))
	})
	h.Commit(t, iceberg.NewManifestFile(2, m.FilePath(), m.Length(), 0, h.Snapshot.SnapshotID).
		SequenceNum(5, 5).AddedFiles(1).KeyMetadata([]byte{1}).Build())
	_, err := icebergtest.List(t, h.Open(t), 1)
	refused(t, err, m.FilePath(), "file "+m.FilePath()+" of table ml.events is encrypted, which is not supported by this version; "+
		"read a copy of the table that is not encrypted")
}

// The oldest tables have their manifests in the snapshot itself.
func TestEmbeddedManifestsAreRefused(t *testing.T) {
	h := icebergtest.NewHandmade(t, "1", func(s *icetable.Snapshot) {
		s.SequenceNumber, s.ManifestLocations = 0, []string{"/warehouse/m.avro"}
	})
	h.Publish(t)
	_, err := icebergtest.List(t, h.Open(t), 1)
	require.ErrorContains(t, err, "table ml.events: its snapshot has no manifest list (format version 1 from before 2019): "+
		"not supported by this version")
	refused(t, err, h.Load(t, icebergtest.Events).MetadataLocation(), err.Error())
}

// Tables of format version 1 have no sequence numbers: all are 0.
func TestFormatVersion1(t *testing.T) {
	h := icebergtest.NewHandmade(t, "1", func(s *icetable.Snapshot) { s.SequenceNumber = 0 })
	h.Commit(t, h.Manifest(t, "m.avro", func(w *iceberg.ManifestWriter) {
		require.NoError(t, w.Add(h.Entry(t, iceberg.EntryStatusADDED, "b", nil)))
		require.NoError(t, w.Add(h.Entry(t, iceberg.EntryStatusADDED, "a", nil)))
	}))
	reader := h.Open(t)
	files, err := icebergtest.List(t, reader, 1)
	require.NoError(t, err)
	require.Equal(t, []catalog.File{
		{Location: icebergtest.Location("a"), Bytes: 4096, Rows: 10, Snapshot: 77, Rank: 1}, {Location: icebergtest.Location("b"), Bytes: 4096, Rows: 10, Snapshot: 77, Rank: 1},
	}, files)
	table, err := reader.Table(t.Context(), icebergtest.Events, dataset.Ref{Snapshot: 77})
	require.NoError(t, err)
	require.Equal(t, int64(77), table.Pin.Snapshot)
}

func TestMetadataOfANewerFormat(t *testing.T) {
	w := icebergtest.NewWriter(t)
	w.Create(t, icebergtest.Events, icebergtest.IDSchema())
	path := icebergtest.Local(t, w.Load(t, icebergtest.Events).MetadataLocation())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	newer := bytes.Replace(content, []byte(`"format-version":2`), []byte(`"format-version":9`), 1)
	require.NotEqual(t, content, newer)
	for text, want := range map[string]string{
		string(newer):                      "table " + icebergtest.Events + " has format version 9, which is not supported by this version",
		`{"format-version":4,"schemas":7}`: "table " + icebergtest.Events + " has format version 4, which is not supported by this version",
		`{"schemas":7}`:                    "the metadata of table " + icebergtest.Events + " has no format version",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err = w.Open(t).Table(t.Context(), icebergtest.Events, dataset.Ref{})
		require.Equal(t, fault.Invalid.String(), fault.KindOf(err).String(), "%v", err)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "invalid or missing")
	}
}

// TestFieldsOfLaterFormats checks that fields of a later format version in metadata of an
// older one are ignored, as in Iceberg's Java library.
//
// spec: resolve-86
func TestFieldsOfLaterFormats(t *testing.T) {
	for name, c := range map[string]struct{ version, field, refused string }{
		"next-row-id in version 1":          {"1", `"next-row-id":0`, ""},
		"next-row-id in version 2":          {"2", `"next-row-id":7`, ""},
		"last-sequence-number in version 1": {"1", `"last-sequence-number":34`, ""},
		"encryption-keys in version 2": {
			"2", `"encryption-keys":[{"key-id":"a","encrypted-key-metadata":"YQ=="}]`,
			"metadata of table ml.events cannot be read",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := icebergtest.NewWriter(t)
			w.Create(t, icebergtest.Events, icebergtest.IDSchema(), icebergtest.FormatVersion(c.version))
			w.Add(t, icebergtest.Events, "", icebergtest.DataFile(t, w.Load(t, icebergtest.Events).Spec(), icebergtest.Location("a"), nil, nil))
			path := icebergtest.Local(t, w.Load(t, icebergtest.Events).MetadataLocation())
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, append([]byte("{"+c.field+","), content[1:]...), 0o600))
			reader := w.Open(t)
			_, err = reader.Table(t.Context(), icebergtest.Events, dataset.Ref{})
			if c.refused != "" {
				require.Equal(t, fault.Corrupt.String(), fault.KindOf(err).String(), "%v", err)
				require.ErrorContains(t, err, c.refused)
				return
			}
			require.NoError(t, err)
			files, err := icebergtest.List(t, reader, 1)
			require.NoError(t, err)
			require.Len(t, files, 1)
		})
	}
}
