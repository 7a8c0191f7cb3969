package icebergcat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/apache/iceberg-go"
	icetable "github.com/apache/iceberg-go/table"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
	"github.com/penstock/penstock/loader/catalog/locator"
)

// liveFiles is one call of LiveFiles.
type liveFiles struct {
	*listing
	each func(location string)
	seen map[string]bool // manifests
}

// LiveFiles calls each with the location of every file that the current metadata of a table
// leads to: the metadata file and all that it names, and for each snapshot that it still has,
// whichever ref leads there, the manifest list, its manifests and their data and delete files,
// also removed ones. A location may come more than once, and other texts of the metadata come
// too. If anything of it cannot be read, or the table has another uuid, the call fails, and
// what came before is incomplete. Manifests are read one after the other.
func (c *Catalog) LiveFiles(ctx context.Context, table, uuid string, each func(location string)) error {
	held := c.hold(table)
	defer held.Release()
	meta, err := c.load(ctx, table, held)
	if err != nil {
		return err
	}
	switch now := meta.TableUUID().String(); {
	case now != uuid:
		return catalog.RecreatedTable(table, uuid, now)
	case meta.location == "":
		return fault.New(fault.Invalid, "the catalog does not tell where the metadata file of table %s is", table).In(table, "").
			WithRemedy("use a catalog that names it, as the specification of REST catalogs wants")
	}
	if err := meta.servable(); err != nil {
		return err
	}
	each(meta.location)
	if err := eachText(meta.text, each); err != nil {
		return metafile.Corrupt(table, meta.location, "metadata of table %s cannot be read: %w", table, err)
	}
	l := &liveFiles{listing: &listing{catalog: c, meta: meta, held: held, avro: &metafile.Schemas{}}, each: each, seen: map[string]bool{}}
	for _, s := range meta.Snapshots() {
		if err := l.snapshot(ctx, &s); err != nil {
			return fault.Op(err, "read snapshot %d of table %s", s.SnapshotID, table)
		}
	}
	return nil
}

// eachText calls each with every text in a JSON document, which has been parsed before.
func eachText(document []byte, each func(string)) error {
	tokens := json.NewDecoder(bytes.NewReader(document))
	for {
		token, err := tokens.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if text, ok := token.(string); ok {
			each(text)
		}
	}
}

// snapshot reads the manifests of a snapshot that no other snapshot had.
func (l *liveFiles) snapshot(ctx context.Context, s *icetable.Snapshot) error {
	held := l.catalog.hold(l.meta.name)
	defer held.Release()
	manifests, err := l.manifestsOf(ctx, s, held)
	if err != nil {
		return err
	}
	if err := l.complete(s, manifests); err != nil {
		return err
	}
	for _, m := range manifests {
		if l.seen[m.FilePath()] {
			continue
		}
		if err := l.held.Grow(perFile); err != nil {
			return err
		}
		l.seen[m.FilePath()] = true
		l.each(m.FilePath())
		if err := l.manifest(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// complete compares a manifest list with the summary of its snapshot. A list that was truncated
// between two blocks looks complete.
func (l *liveFiles) complete(s *icetable.Snapshot, manifests []iceberg.ManifestFile) error {
	files := 0
	for _, m := range manifests {
		if m.ManifestContent() != iceberg.ManifestContentData {
			continue
		}
		if m.AddedDataFiles() < 0 || m.ExistingDataFiles() < 0 {
			return nil // written before counts were kept
		}
		files += int(m.AddedDataFiles()) + int(m.ExistingDataFiles())
	}
	if want := total(s); files < want {
		return metafile.Corrupt(l.meta.name, s.ManifestList, "manifest list %s has manifests of %s, but snapshot %d has %d",
			s.ManifestList, fault.Count(files, "data file"), s.SnapshotID, want)
	}
	return nil
}

// manifest reads a manifest.
func (l *liveFiles) manifest(ctx context.Context, m iceberg.ManifestFile) error {
	if len(m.KeyMetadata()) > 0 {
		return l.encrypted(m.FilePath())
	}
	held := l.catalog.hold(l.meta.name)
	defer held.Release()
	file := l.catalog.allow(metafile.Subject{What: "manifest", Table: l.meta.name, Location: m.FilePath()}, held)
	content, err := l.manifestFile(ctx, file, m.Length())
	if err != nil {
		return err
	}
	entries, err := l.entries(m, file, content)
	if err != nil {
		return l.catalog.orForget(l.keyOf(m.FilePath(), m.Length()), err)
	}
	for _, of := range [][]iceberg.ManifestEntry{entries.live, entries.removed} {
		for _, e := range of {
			l.each(e.DataFile().FilePath())
		}
	}
	return nil
}

// MetadataFile reads a metadata file below a table's folder, which need not be the table's. It
// returns the uuid of the table that the file describes and the number of its snapshots, and
// calls each with all locations that it names. A file that describes no table, or that is gone,
// has neither uuid nor snapshots.
func (c *Catalog) MetadataFile(ctx context.Context, table, uuid, location string, each func(location string)) (owner string, snapshots int, err error) {
	held := c.hold(table)
	defer held.Release()
	owner, snapshots, err = c.metadataOwner(ctx, c.allow(metafile.Subject{What: "metadata", Table: table, Location: location}, held), uuid, each)
	if fault.KindOf(err) == fault.Corrupt {
		return "", 0, nil
	}
	return strings.ToLower(owner), snapshots, err
}

func (c *Catalog) metadataOwner(ctx context.Context, file metafile.Allowance, uuid string, each func(location string)) (string, int, error) {
	content, err := c.read(ctx, tableOpener{catalog: c, table: file.Table, uuid: uuid}, file)
	if err != nil {
		return "", 0, err
	}
	unreadable := func(err error) error {
		if _, ok := errors.AsType[*fault.Error](err); ok {
			return err
		}
		return metafile.Corrupt(file.Table, file.Location, "file %s has no metadata of a table: %w", file.Location, err)
	}
	text, err := file.Text(content)
	if err != nil {
		return "", 0, unreadable(err)
	}
	if err := file.ChargeParsing(text); err != nil {
		return "", 0, err
	}
	var described struct {
		UUID      string     `json:"table-uuid"`
		Snapshots []struct{} `json:"snapshots"`
	}
	if err := json.Unmarshal(text, &described); err != nil {
		return "", 0, unreadable(err)
	}
	return described.UUID, len(described.Snapshots), eachText(text, each)
}

// CurrentMetadata returns the locations of the current metadata files of all tables, or false if the catalog cannot list
// them. Others may come too.
func (c *Catalog) CurrentMetadata(ctx context.Context) (locations []string, known bool, err error) {
	lister, known := c.tables.(locator.CurrentLister)
	if !known {
		return nil, false, nil
	}
	locations, err = lister.ListCurrent(ctx)
	return locations, true, fault.Op(err, "list the metadata files of catalog %s", c.name)
}

// tableOpener opens files of a table with what the catalog grants for it.
type tableOpener struct {
	catalog     *Catalog
	table, uuid string
}

// Open implements tablestore.Opener.
func (o tableOpener) Open(ctx context.Context, location string, size int64) (store.Object, error) {
	return o.catalog.files.OpenIn(ctx, o.table, o.uuid, location, size)
}
