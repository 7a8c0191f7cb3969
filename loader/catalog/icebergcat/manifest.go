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

// manifest is a manifest whose content was read.
type manifest struct {
	iceberg.ManifestFile
	source  *Source
	file    metafile.Allowance
	content []byte // must not be modified
	key     string // under which the content is remembered
	avro    *metafile.Schemas
}

// orForget returns err. See Source.orForget.
func (m *manifest) orForget(err error) error { return m.source.orForget(m.key, err) }

// detail is what the entries of a manifest are decoded with.
type detail int

const (
	plain      detail = iota // without statistics of columns
	ranges                   // with value ranges, null counts and NaN counts
	statistics               // with all statistics
	rewritable               // with everything that is needed to write the entries again
)

// perByte is charged for each byte of the records.
func (d detail) perByte() int64 {
	switch d {
	case plain:
		return metafile.PerPlain
	case ranges, statistics:
		return metafile.PerBounds
	case rewritable:
	}
	return 2 * metafile.PerBounds // the entries are encoded again
}

// entries decodes a manifest. A manifest that was truncated between blocks looks complete,
// so the number of entries is compared with the manifest list.
func (m *manifest) entries(how detail) (*manifestEntries, error) {
	out := &manifestEntries{location: m.FilePath(), snapshot: m.SnapshotID(), checked: map[int64]error{}}
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
		return nil, m.orForget(metafile.Corrupt(m.file.Table, out.location, "manifest %s holds %d live files, its manifest list says %d",
			out.location, len(out.live), want))
	}
	return out, nil
}

// reader decodes a manifest.
func (m *manifest) reader(content io.Reader, how detail) (*iceberg.ManifestReader, error) {
	if how == statistics || how == rewritable {
		return iceberg.NewManifestReader(m.ManifestFile, content)
	}
	return iceberg.NewManifestReaderWithProjection(m.ManifestFile, content, iceberg.ManifestEntryProjection{IncludePruningStats: how == ranges})
}
