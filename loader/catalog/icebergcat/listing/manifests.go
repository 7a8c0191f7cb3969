package listing

import (
	"context"
	"errors"
	"strconv"

	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metadata"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
)

// Manifests reads the manifest lists and the manifests of a table. It is safe for concurrent use.
type Manifests struct {
	source *metadata.Source
	meta   *metadata.Loaded
	avro   *metafile.Schemas
}

func newManifests(source *metadata.Source, meta *metadata.Loaded) *Manifests {
	return &Manifests{source: source, meta: meta, avro: &metafile.Schemas{}}
}

// list reads the manifest list of a snapshot. The memory of the list is charged to held.
func (r *Manifests) list(ctx context.Context, snapshot *icetable.Snapshot, held *budget.Reservation) ([]iceberg.ManifestFile, error) {
	location := snapshot.ManifestList
	if location == "" {
		return nil, r.meta.Unserved("its snapshot has no manifest list (format version 1 from before 2019)",
			"rewrite its manifests with a current writer")
	}
	file := r.source.Allow(metafile.Subject{What: "manifest list", Table: r.meta.Name, Location: location}, held)
	content, err := r.stored(ctx, file, store.SizeUnknown)
	if err != nil {
		return nil, err
	}
	manifests, err := r.decodeList(snapshot, file, content)
	return manifests, r.source.OrForget(r.keyOf(location, store.SizeUnknown), err)
}

// decodeList decodes a manifest list.
func (r *Manifests) decodeList(snapshot *icetable.Snapshot, file metafile.Allowance, content []byte) (manifests []iceberg.ManifestFile, err error) {
	location, id := snapshot.ManifestList, snapshot.SnapshotID
	list, err := metafile.NewContainer(file, content, metafile.ReadOptions{PerByte: metafile.PerBounds, Schemas: r.avro})
	if err == nil {
		defer list.Close()
		manifests, err = iceberg.ReadManifestList(list)
		err = list.Failure(err)
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return nil, err
	}
	if err != nil {
		return nil, metafile.Corrupt(r.meta.Name, location, "manifest list %s of snapshot %d cannot be read: %w", location, id, err)
	}
	if total := total(snapshot); len(manifests) == 0 && total > 0 {
		// A list that was truncated after its header looks like an empty list.
		return nil, metafile.Corrupt(r.meta.Name, location, "manifest list %s is empty, but snapshot %d has %d files", location, id, total)
	}
	return manifests, nil
}

// total returns the number of data files in a snapshot's summary, or 0 if unknown.
func total(snapshot *icetable.Snapshot) int {
	if snapshot.Summary == nil {
		return 0
	}
	n, err := strconv.Atoi(snapshot.Summary.Properties["total-data-files"])
	if err != nil {
		return 0
	}
	return n
}

// Open reads a manifest. The memory of the manifest is charged to held.
func (r *Manifests) Open(ctx context.Context, m iceberg.ManifestFile, held *budget.Reservation) (*Manifest, error) {
	if len(m.KeyMetadata()) > 0 {
		return nil, r.encrypted(m.FilePath())
	}
	file := r.source.Allow(metafile.Subject{What: "manifest", Table: r.meta.Name, Location: m.FilePath()}, held)
	content, err := r.stored(ctx, file, m.Length())
	if err != nil {
		return nil, err
	}
	return &Manifest{ManifestFile: m, source: r.source, file: file, content: content, key: r.keyOf(m.FilePath(), m.Length()), avro: r.avro}, nil
}

func (r *Manifests) encrypted(location string) error {
	return fault.New(fault.Invalid, "file %s of table %s is encrypted, which is not supported by this version", location, r.meta.Name).
		In(r.meta.Name, location).WithRemedy("read a copy of the table that is not encrypted")
}

// manifestOf identifies a manifest or a manifest list. Neither changes while its table
// exists, but a table that was dropped and recreated may reuse the names of files.
type manifestOf struct {
	table    string // uuid
	location string
	length   int64 // or store.SizeUnknown
}

// stored returns the stored content of a manifest list or a manifest, from the cache or from
// storage. In both cases, the memory of the content is charged to the file's reservation. The
// content must not be modified.
func (r *Manifests) stored(ctx context.Context, file metafile.Allowance, length int64) ([]byte, error) {
	if err := r.meta.May(file.What, file.Location); err != nil { // checked even if the cache has the content
		return nil, err
	}
	return r.source.Remembered(ctx, r.meta.Files, file, r.keyOf(file.Location, length))
}

func (r *Manifests) keyOf(location string, length int64) string {
	return digest.Of(manifestOf{table: r.meta.TableUUID().String(), location: location, length: length})
}
