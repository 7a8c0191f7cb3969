package icebergcat

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/apache/iceberg-go"

	"github.com/penstock/penstock/internal/fault"
)

// manifestEntries is what one manifest holds.
type manifestEntries struct {
	location string
	snapshot int64           // that added the manifest
	schema   *iceberg.Schema // the table's when it was written; nil if unknown
	live     []iceberg.ManifestEntry
	removed  []iceberg.ManifestEntry
	checked  map[int64]error // what unchanged said of the files that a snapshot added
}

// entries decodes a manifest. Iceberg's file format ends where its bytes end,
// so a manifest that was cut at a block looks whole: the entries are counted
// against the manifest list.
func (l *listing) entries(m iceberg.ManifestFile, file allowance, content []byte) (*manifestEntries, error) {
	out := &manifestEntries{location: m.FilePath(), snapshot: m.SnapshotID(), checked: map[int64]error{}}
	unreadable := func(err error) error {
		if _, ok := errors.AsType[*fault.Error](err); ok {
			return err
		}
		return corrupt(l.meta.name, out.location, "manifest %s cannot be read: %w", out.location, err)
	}
	perByte, ranges := int64(perPlain), l.needsRanges(m)
	if ranges {
		perByte = perBounds
	}
	unpacked, err := newContainer(file, content, reading{perByte: perByte, forms: l.forms, content: m.ManifestContent().String()})
	if err != nil {
		return nil, unreadable(err)
	}
	defer unpacked.close()
	reader, err := iceberg.NewManifestReaderWithProjection(m, unpacked,
		iceberg.ManifestEntryProjection{IncludePruningStats: ranges})
	if err != nil {
		return nil, unreadable(unpacked.failure(err))
	}
	defer reader.Close() //nolint:errcheck // it reads from memory
	if err := file.parsing(unpacked.schema); err != nil {
		return nil, err
	}
	var schema iceberg.Schema
	if json.Unmarshal(unpacked.schema, &schema) == nil {
		schema.ID, _ = reader.SchemaID() // of writers that say it
		out.schema = &schema
	}
	for {
		e, err := reader.ReadEntry()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return nil, unreadable(unpacked.failure(err))
		}
		if e.Status() == iceberg.EntryStatusDELETED {
			out.removed = append(out.removed, e)
		} else {
			out.live = append(out.live, e)
		}
	}
	if m.AddedDataFiles() < 0 || m.ExistingDataFiles() < 0 {
		return out, nil // written before counts were kept
	}
	if want := int(m.AddedDataFiles()) + int(m.ExistingDataFiles()); len(out.live) != want {
		return nil, corrupt(l.meta.name, out.location, "manifest %s holds %d live files, its manifest list says %d",
			out.location, len(out.live), want)
	}
	return out, nil
}

// needsRanges says whether the value ranges of a manifest's files are looked at: those
// of delete files say which data file they are about.
func (l *listing) needsRanges(m iceberg.ManifestFile) bool {
	return len(l.bounds) > 0 || m.ManifestContent() == iceberg.ManifestContentDeletes
}
