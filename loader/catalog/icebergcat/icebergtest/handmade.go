package icebergtest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

// Handmade is a table whose manifests and manifest list a test writes itself, for example as other
// writers would write them. Commit makes their snapshot the snapshot of main.
type Handmade struct {
	*Writer
	Table    *icetable.Table
	Snapshot icetable.Snapshot
}

// NewHandmade makes a table with a format version, without snapshots.
func NewHandmade(t *testing.T, version string, options ...func(*icetable.Snapshot)) *Handmade {
	t.Helper()
	w := NewWriter(t)
	h := &Handmade{Writer: w, Table: w.Create(t, Events, IDSchema(), FormatVersion(version))}
	schema := 0
	h.Snapshot = icetable.Snapshot{
		SnapshotID: 77, SequenceNumber: 5, TimestampMs: time.Now().UnixMilli(), SchemaID: &schema,
		Summary: &icetable.Summary{Operation: icetable.OpAppend},
	}
	for _, change := range options {
		change(&h.Snapshot)
	}
	return h
}

// Path returns the path of a file in the writer's folder.
func (h *Handmade) Path(name string) string { return filepath.Join(h.Dir, name) }

// Manifest writes one manifest, to which the function fill adds the entries.
func (h *Handmade) Manifest(t *testing.T, name string, fill func(*iceberg.ManifestWriter)) iceberg.ManifestFile {
	t.Helper()
	var out bytes.Buffer
	w, err := iceberg.NewManifestWriter(h.Table.Metadata().Version(), &out, h.Table.Spec(), h.Table.Schema(), h.Snapshot.SnapshotID)
	require.NoError(t, err)
	fill(w)
	file, err := w.ToManifestFile(h.Path(name), int64(out.Len()))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(h.Path(name), out.Bytes(), 0o600))
	return file
}

// Deletes writes a manifest of delete files.
func (h *Handmade) Deletes(t *testing.T, name string, files ...iceberg.DataFile) iceberg.ManifestFile {
	t.Helper()
	var out bytes.Buffer
	w, err := iceberg.NewManifestWriter(h.Table.Metadata().Version(), &out, h.Table.Spec(), h.Table.Schema(), h.Snapshot.SnapshotID,
		iceberg.WithManifestWriterContent(iceberg.ManifestContentDeletes))
	require.NoError(t, err)
	for _, f := range files {
		require.NoError(t, w.Add(iceberg.NewManifestEntry(iceberg.EntryStatusADDED, &h.Snapshot.SnapshotID, nil, nil, f)))
	}
	file, err := w.ToManifestFile(h.Path(name), int64(out.Len()), iceberg.WithManifestFileContent(iceberg.ManifestContentDeletes))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(h.Path(name), out.Bytes(), 0o600))
	return file
}

// Commit writes the manifest list, and makes the snapshot current.
func (h *Handmade) Commit(t *testing.T, manifests ...iceberg.ManifestFile) {
	t.Helper()
	var out bytes.Buffer
	sequence := h.Snapshot.SequenceNumber
	require.NoError(t, iceberg.WriteManifestList(h.Table.Metadata().Version(), &out, h.Snapshot.SnapshotID, nil, &sequence, 0, manifests))
	h.Snapshot.ManifestList = h.Path("list.avro")
	require.NoError(t, os.WriteFile(h.Snapshot.ManifestList, out.Bytes(), 0o600))
	h.Publish(t)
}

// Publish adds the snapshot to the table's metadata, and moves main to it.
func (h *Handmade) Publish(t *testing.T) {
	t.Helper()
	h.Update(t, Events, icetable.NewAddSnapshotUpdate(&h.Snapshot))
	h.SetRef(t, Events, "main", h.Snapshot.SnapshotID, icetable.BranchRef)
}

// Entry returns an entry of a manifest.
func (h *Handmade) Entry(t *testing.T, status iceberg.ManifestEntryStatus, name string, sequence *int64) iceberg.ManifestEntry {
	t.Helper()
	added := int64(11) // a snapshot that no longer exists
	return iceberg.NewManifestEntry(status, &added, sequence, sequence, DataFile(t, h.Table.Spec(), Location(name), nil, nil))
}
