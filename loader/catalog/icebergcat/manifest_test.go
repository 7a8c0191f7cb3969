package icebergcat_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// handmade writes manifests and a manifest list of its own into a table, as
// other writers lay them out, and makes their snapshot main.
type handmade struct {
	*writer
	table    *icetable.Table
	snapshot icetable.Snapshot
}

func newHandmade(t *testing.T, version string, options ...func(*icetable.Snapshot)) *handmade {
	t.Helper()
	w := newWriter(t)
	h := &handmade{writer: w, table: w.create(t, events, idSchema(), formatVersion(version))}
	schema := 0
	h.snapshot = icetable.Snapshot{
		SnapshotID: 77, SequenceNumber: 5, TimestampMs: time.Now().UnixMilli(), SchemaID: &schema,
		Summary: &icetable.Summary{Operation: icetable.OpAppend},
	}
	for _, change := range options {
		change(&h.snapshot)
	}
	return h
}

func (h *handmade) path(name string) string { return filepath.Join(h.dir, name) }

// manifest writes one manifest; the function fills it.
func (h *handmade) manifest(t *testing.T, name string, fill func(*iceberg.ManifestWriter)) iceberg.ManifestFile {
	t.Helper()
	var out bytes.Buffer
	w, err := iceberg.NewManifestWriter(h.table.Metadata().Version(), &out, h.table.Spec(), h.table.Schema(), h.snapshot.SnapshotID)
	require.NoError(t, err)
	fill(w)
	file, err := w.ToManifestFile(h.path(name), int64(out.Len()))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(h.path(name), out.Bytes(), 0o600))
	return file
}

// deletes writes a manifest of delete files.
func (h *handmade) deletes(t *testing.T, name string, files ...iceberg.DataFile) iceberg.ManifestFile {
	t.Helper()
	var out bytes.Buffer
	w, err := iceberg.NewManifestWriter(h.table.Metadata().Version(), &out, h.table.Spec(), h.table.Schema(), h.snapshot.SnapshotID,
		iceberg.WithManifestWriterContent(iceberg.ManifestContentDeletes))
	require.NoError(t, err)
	for _, f := range files {
		require.NoError(t, w.Add(iceberg.NewManifestEntry(iceberg.EntryStatusADDED, &h.snapshot.SnapshotID, nil, nil, f)))
	}
	file, err := w.ToManifestFile(h.path(name), int64(out.Len()), iceberg.WithManifestFileContent(iceberg.ManifestContentDeletes))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(h.path(name), out.Bytes(), 0o600))
	return file
}

// commit writes the list, and makes the snapshot the table's.
func (h *handmade) commit(t *testing.T, manifests ...iceberg.ManifestFile) {
	t.Helper()
	var out bytes.Buffer
	sequence := h.snapshot.SequenceNumber
	require.NoError(t, iceberg.WriteManifestList(h.table.Metadata().Version(), &out, h.snapshot.SnapshotID, nil, &sequence, 0, manifests))
	h.snapshot.ManifestList = h.path("list.avro")
	require.NoError(t, os.WriteFile(h.snapshot.ManifestList, out.Bytes(), 0o600))
	h.publish(t)
}

func (h *handmade) publish(t *testing.T) {
	t.Helper()
	h.update(t, events, icetable.NewAddSnapshotUpdate(&h.snapshot))
	h.setRef(t, events, "main", h.snapshot.SnapshotID, icetable.BranchRef)
}

func (h *handmade) entry(t *testing.T, status iceberg.ManifestEntryStatus, name string, sequence *int64) iceberg.ManifestEntry {
	t.Helper()
	added := int64(11) // a snapshot that nobody knows any more
	return iceberg.NewManifestEntry(status, &added, sequence, sequence, dataFile(t, h.table.Spec(), location(name), nil, nil))
}

// One manifest has files that were added, kept and deleted: the deleted ones are not listed,
// and the others have the sequence number of their data.
func TestEntriesOfEveryStatus(t *testing.T) {
	h := newHandmade(t, "2")
	two, three := int64(2), int64(3)
	h.commit(t, h.manifest(t, "m.avro", func(w *iceberg.ManifestWriter) {
		require.NoError(t, w.Add(h.entry(t, iceberg.EntryStatusADDED, "added", nil)))
		require.NoError(t, w.Existing(h.entry(t, iceberg.EntryStatusEXISTING, "stayed", &three)))
		require.NoError(t, w.Delete(h.entry(t, iceberg.EntryStatusDELETED, "deleted", &two)))
		require.NoError(t, w.Add(h.entry(t, iceberg.EntryStatusADDED, "rewritten", &two)))
	}))
	files, err := list(t, h.open(t), 1)
	require.NoError(t, err)
	got := make([]string, len(files))
	for i, f := range files {
		got[i] = f.Location + " " + strconv.FormatInt(f.Sequence, 10)
	}
	require.Equal(t, []string{
		location("rewritten") + " 2", location("stayed") + " 3", location("added") + " 5",
	}, got)
}

// A manifest whose files were all deleted is not opened.
func TestDeadManifests(t *testing.T) {
	h := newHandmade(t, "2")
	two := int64(2)
	dead := h.manifest(t, "dead.avro", func(w *iceberg.ManifestWriter) {
		require.NoError(t, w.Delete(h.entry(t, iceberg.EntryStatusDELETED, "deleted", &two)))
	})
	require.NoError(t, os.Remove(dead.FilePath()))
	h.commit(t, dead)
	files, err := list(t, h.open(t), 1)
	require.NoError(t, err)
	require.Empty(t, files)
}

func TestEncryptedManifestsAreRefused(t *testing.T) {
	h := newHandmade(t, "2")
	m := h.manifest(t, "m.avro", func(w *iceberg.ManifestWriter) {
		require.NoError(t, w.Add(h.entry(t, iceberg.EntryStatusADDED, "a", nil)))
	})
	h.commit(t, iceberg.NewManifestFile(2, m.FilePath(), m.Length(), 0, h.snapshot.SnapshotID).
		SequenceNum(5, 5).AddedFiles(1).KeyMetadata([]byte{1}).Build())
	_, err := list(t, h.open(t), 1)
	refused(t, err, m.FilePath(), "file "+m.FilePath()+" of table ml.events is encrypted, which is not served by this version; "+
		"read a copy of the table that is not encrypted")
}

// The oldest tables have their manifests in the snapshot itself.
func TestEmbeddedManifestsAreRefused(t *testing.T) {
	h := newHandmade(t, "1", func(s *icetable.Snapshot) {
		s.SequenceNumber, s.ManifestLocations = 0, []string{"/warehouse/m.avro"}
	})
	h.publish(t)
	_, err := list(t, h.open(t), 1)
	require.ErrorContains(t, err, "table ml.events: its snapshot has no manifest list (format version 1 of before 2019): "+
		"not served by this version")
	refused(t, err, h.load(t, events).MetadataLocation(), err.Error())
}

// Tables of format version 1 have no sequence numbers: all are 0.
func TestFormatVersion1(t *testing.T) {
	h := newHandmade(t, "1", func(s *icetable.Snapshot) { s.SequenceNumber = 0 })
	h.commit(t, h.manifest(t, "m.avro", func(w *iceberg.ManifestWriter) {
		require.NoError(t, w.Add(h.entry(t, iceberg.EntryStatusADDED, "b", nil)))
		require.NoError(t, w.Add(h.entry(t, iceberg.EntryStatusADDED, "a", nil)))
	}))
	reader := h.open(t)
	files, err := list(t, reader, 1)
	require.NoError(t, err)
	require.Equal(t, []catalog.File{
		{Location: location("a"), Bytes: 4096, Rows: 10, Snapshot: 77, Rank: 1}, {Location: location("b"), Bytes: 4096, Rows: 10, Snapshot: 77, Rank: 1},
	}, files)
	table, err := reader.Table(t.Context(), events, dataset.Ref{Snapshot: 77})
	require.NoError(t, err)
	require.Equal(t, int64(77), table.Pin.Snapshot)
}

func TestMetadataOfANewerFormat(t *testing.T) {
	w := newWriter(t)
	w.create(t, events, idSchema())
	path := local(t, w.load(t, events).MetadataLocation())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	newer := bytes.Replace(content, []byte(`"format-version":2`), []byte(`"format-version":9`), 1)
	require.NotEqual(t, content, newer)
	require.NoError(t, os.WriteFile(path, newer, 0o600))
	_, err = w.open(t).Table(t.Context(), events, dataset.Ref{})
	require.Equal(t, fault.Invalid.String(), fault.KindOf(err).String(), "%v", err)
	require.ErrorContains(t, err, "is of a format version that is not served by this version")
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
			w := newWriter(t)
			w.create(t, events, idSchema(), formatVersion(c.version))
			w.add(t, events, "", dataFile(t, w.load(t, events).Spec(), location("a"), nil, nil))
			path := local(t, w.load(t, events).MetadataLocation())
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, append([]byte("{"+c.field+","), content[1:]...), 0o600))
			reader := w.open(t)
			_, err = reader.Table(t.Context(), events, dataset.Ref{})
			if c.refused != "" {
				require.Equal(t, fault.Corrupt.String(), fault.KindOf(err).String(), "%v", err)
				require.ErrorContains(t, err, c.refused)
				return
			}
			require.NoError(t, err)
			files, err := list(t, reader, 1)
			require.NoError(t, err)
			require.Len(t, files, 1)
		})
	}
}
