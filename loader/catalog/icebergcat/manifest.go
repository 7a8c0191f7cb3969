package icebergcat

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/apache/iceberg-go"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
)

// manifestEntries has the entries of a manifest.
type manifestEntries struct {
	location string
	snapshot int64           // that added the manifest
	schema   *iceberg.Schema // of the table when it was written; nil if unknown
	live     []iceberg.ManifestEntry
	removed  []iceberg.ManifestEntry
	checked  map[int64]error // result of unchanged for the files that a snapshot added
}

// entries decodes a manifest. A manifest that was truncated between blocks looks complete,
// so the number of entries is compared with the manifest list.
func (l *listing) entries(m iceberg.ManifestFile, file metafile.Allowance, content []byte) (*manifestEntries, error) {
	out := &manifestEntries{location: m.FilePath(), snapshot: m.SnapshotID(), checked: map[int64]error{}}
	unreadable := func(err error) error {
		if _, ok := errors.AsType[*fault.Error](err); ok {
			return err
		}
		return metafile.Corrupt(l.meta.name, out.location, "manifest %s cannot be read: %w", out.location, err)
	}
	perByte, ranges := int64(metafile.PerPlain), l.needsRanges(m)
	if ranges {
		perByte = metafile.PerBounds
	}
	unpacked, err := metafile.NewContainer(file, content, metafile.ReadOptions{PerByte: perByte, Schemas: l.avro, Content: m.ManifestContent().String()})
	if err != nil {
		return nil, unreadable(err)
	}
	defer unpacked.Close()
	reader, err := l.reader(m, unpacked, ranges)
	if err != nil {
		return nil, unreadable(unpacked.Failure(err))
	}
	defer reader.Close() //nolint:errcheck // it reads from memory
	if err := file.ChargeParsing(unpacked.Schema); err != nil {
		return nil, err
	}
	var schema iceberg.Schema
	if json.Unmarshal(unpacked.Schema, &schema) == nil {
		schema.ID, _ = reader.SchemaID() // if the writer set it
		out.schema = &schema
	}
	for {
		e, err := reader.ReadEntry()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return nil, unreadable(unpacked.Failure(err))
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
		return nil, metafile.Corrupt(l.meta.name, out.location, "manifest %s holds %d live files, its manifest list says %d",
			out.location, len(out.live), want)
	}
	return out, nil
}

// reader decodes a manifest with what the listing needs of it.
func (l *listing) reader(m iceberg.ManifestFile, content io.Reader, ranges bool) (*iceberg.ManifestReader, error) {
	if l.sizes != nil {
		return iceberg.NewManifestReader(m, content)
	}
	return iceberg.NewManifestReaderWithProjection(m, content, iceberg.ManifestEntryProjection{IncludePruningStats: ranges})
}

// needsRanges reports whether the value ranges of a manifest's files are needed. Those of
// delete files tell which data file they apply to.
func (l *listing) needsRanges(m iceberg.ManifestFile) bool {
	return l.sizes != nil || len(l.bounds) > 0 || m.ManifestContent() == iceberg.ManifestContentDeletes
}
