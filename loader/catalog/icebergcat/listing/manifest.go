package listing

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/apache/iceberg-go"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
)

// ManifestEntries has the entries of a manifest.
type ManifestEntries struct {
	location string
	snapshot int64           // the snapshot that added the manifest
	Schema   *iceberg.Schema // of the table when it was written; nil if unknown
	Live     []iceberg.ManifestEntry
	removed  []iceberg.ManifestEntry
	checked  map[int64]error // the result of unchanged for the files of a snapshot, by snapshot
}

// Manifest is a manifest whose content was read.
type Manifest struct {
	iceberg.ManifestFile
	source  *metadata.Source
	file    metafile.Allowance
	content []byte // must not be modified
	key     string // the key of the content in the cache
	avro    *metafile.Schemas
}

// orForget returns err. See Source.OrForget.
func (m *Manifest) orForget(err error) error { return m.source.OrForget(m.key, err) }

// Detail says which fields of a manifest's entries are decoded.
type Detail int

// The details.
const (
	Plain      Detail = iota // without statistics of columns
	Ranges                   // with value ranges, null counts and NaN counts
	Statistics               // with all statistics
	Rewritable               // with everything that is needed to write the entries again
)

// perByte returns the number of bytes to charge to the memory budget for each byte of a manifest's
// records.
func (d Detail) perByte() int64 {
	switch d {
	case Plain:
		return metafile.PerPlain
	case Ranges, Statistics:
		return metafile.PerBounds
	case Rewritable:
	}
	return 2 * metafile.PerBounds // the entries are encoded again
}

// Entries decodes a manifest. It compares the number of entries with the manifest list, because a
// manifest that was truncated between two blocks looks complete.
func (m *Manifest) Entries(how Detail) (*ManifestEntries, error) {
	out := &ManifestEntries{location: m.FilePath(), snapshot: m.SnapshotID(), checked: map[int64]error{}}
	unreadable := func(err error) error {
		if _, ok := errors.AsType[*fault.Error](err); ok {
			return err
		}
		return m.orForget(metafile.Corrupt(m.file.Table, out.location, "manifest %s cannot be read: %w", out.location, err))
	}
	unpacked, err := metafile.NewContainer(m.file, m.content, metafile.ReadOptions{PerByte: how.perByte(), Schemas: m.avro, Content: m.ManifestContent().String()})
	if err != nil {
		return nil, unreadable(err)
	}
	defer unpacked.Close()
	reader, err := m.reader(unpacked, how)
	if err != nil {
		return nil, unreadable(unpacked.Failure(err))
	}
	defer reader.Close() //nolint:errcheck // it reads from memory
	if err := m.file.ChargeParsing(unpacked.Schema); err != nil {
		return nil, err
	}
	var schema iceberg.Schema
	if json.Unmarshal(unpacked.Schema, &schema) == nil {
		schema.ID, _ = reader.SchemaID() // if the writer set it
		out.Schema = &schema
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
			out.Live = append(out.Live, e)
		}
	}
	if m.AddedDataFiles() < 0 || m.ExistingDataFiles() < 0 {
		return out, nil // the writer did not record the counts
	}
	if want := int(m.AddedDataFiles()) + int(m.ExistingDataFiles()); len(out.Live) != want {
		return nil, m.orForget(metafile.Corrupt(m.file.Table, out.location, "manifest %s holds %d live files, its manifest list says %d",
			out.location, len(out.Live), want))
	}
	return out, nil
}

// reader returns the reader that decodes a manifest.
func (m *Manifest) reader(content io.Reader, how Detail) (*iceberg.ManifestReader, error) {
	if how == Statistics || how == Rewritable {
		return iceberg.NewManifestReader(m.ManifestFile, content)
	}
	return iceberg.NewManifestReaderWithProjection(m.ManifestFile, content, iceberg.ManifestEntryProjection{IncludePruningStats: how == Ranges})
}
