package orphans

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// TableFolder is the folder of a table's files.
type TableFolder struct {
	UUID     string // of the table
	Location string
	// Elsewhere has the folders outside Location that the table's properties name. They are not
	// searched: other tables may write there, and a file's name does not identify its table.
	Elsewhere []string
}

// SearchedTables are the tables of a catalog.
type SearchedTables interface {
	// Folder returns the folder of a table.
	Folder(ctx context.Context, table string) (TableFolder, error)
	// Files returns a Remover for the files below a table's folder, or Forbidden if the table may
	// not be changed.
	Files(ctx context.Context, table, folder string) (Remover, error)
	// LiveFiles calls each with the location of every file that is reachable from a table's current
	// metadata. If it cannot find all of them, or if the table has another uuid, it returns an
	// error.
	LiveFiles(ctx context.Context, table, uuid string, each func(location string)) error
	// MetadataFile reads a metadata file below the folder of the table with the given uuid. It
	// returns the uuid of the table that the file describes and the number of snapshots in the
	// file, and calls each with the locations that the file names. It returns "" and 0 for a file
	// that describes no table.
	MetadataFile(ctx context.Context, table, uuid, location string, each func(location string)) (owner string, snapshots int, err error)
	// CurrentMetadata returns the locations of the current metadata files of all tables, or false if the catalog does not
	// list them.
	CurrentMetadata(ctx context.Context) (locations []string, known bool, err error)
}

// FolderOrphans are the orphan files in the folder of a table.
type FolderOrphans struct {
	TableFolder
	Entries []store.FolderEntry
	// TooYoung is the number of files and uploads that may belong to a running write.
	TooYoung int
	// Files removes the entries; see Remove.
	Files Remover
}

// Bytes returns the total size of the entries with known sizes.
func (l FolderOrphans) Bytes() (sum int64) {
	for _, e := range l.Entries {
		sum += max(e.Size, 0)
	}
	return sum
}

// Find finds the orphan files of a table. It changes nothing. It reserves the memory of the result
// from held. If anything cannot be listed or read, or the folder has files of another table, Find
// returns an error and no orphan files.
func (s Search) Find(ctx context.Context, tables SearchedTables, table string, held *budget.Reservation) (FolderOrphans, error) {
	folder, err := tables.Folder(ctx, table)
	if err != nil {
		return FolderOrphans{}, err
	}
	out := FolderOrphans{TableFolder: folder}
	if out.Files, err = tables.Files(ctx, table, folder.Location); err != nil {
		return FolderOrphans{}, err
	}
	found, err := s.List(ctx, out.Files, folder.Location, held)
	if err != nil {
		return FolderOrphans{}, err
	}
	// Load the metadata only after the listing, so that it also names files that were committed
	// during the listing.
	if err := tables.LiveFiles(ctx, table, folder.UUID, found.Keep); err != nil {
		return FolderOrphans{}, fault.Op(err, "look for orphan files of table %s", table)
	}
	if err := found.checkOthers(ctx, tables, table, folder); err != nil {
		return FolderOrphans{}, fault.Op(err, "look for orphan files of table %s", table)
	}
	out.Entries, out.TooYoung = found.Orphans(), found.TooYoung()
	return out, nil
}

// checkOthers returns Conflict if the folder has metadata of another table, because files of that
// table may be in the folder too: after a table was renamed, another table may have been created in
// its folder. checkOthers reads the metadata files that the table does not name, newest first, and
// skips each file that a newer file of the same table names.
func (f *Found) checkOthers(ctx context.Context, tables SearchedTables, table string, folder TableFolder) error {
	if len(f.files)+len(f.uploads) == 0 {
		return nil
	}
	newest := slices.Concat(slices.Collect(maps.Values(f.metadata))...)
	slices.SortFunc(newest, func(a, b store.FolderEntry) int {
		return cmp.Or(b.Modified.Compare(a.Modified), strings.Compare(b.Location, a.Location))
	})
	var empty []store.FolderEntry // metadata files of tables without snapshots
	for _, e := range newest {
		if _, unread := f.metadata[nameOf(e.Location)]; !unread {
			continue
		}
		var named []string
		owner, snapshots, err := tables.MetadataFile(ctx, table, folder.UUID, e.Location, func(text string) {
			if strings.Contains(text, metadataMark) {
				named = append(named, text)
			}
		})
		switch {
		case err != nil:
			return err
		case owner == folder.UUID:
			for _, location := range named {
				delete(f.metadata, nameOf(location))
			}
		case snapshots > 0:
			return sharedFolder(table, folder, owner, e.Location)
		case owner != "":
			empty = append(empty, e)
		}
	}
	return f.keepEmpty(ctx, tables, table, folder, empty)
}

// sharedFolder returns the error for a folder that has files of two tables.
func sharedFolder(table string, folder TableFolder, owner, location string) error {
	return fault.New(fault.Conflict, "folder %s of table %s has metadata of another table, %s, whose files may be there too: %s", folder.Location, table, cmp.Or(owner, "without a uuid"), location).
		In(table, location).WithRemedy("if that table was dropped, or its first stage was killed, remove its metadata files; if not, remove orphan files of neither table")
}

// keepEmpty calls Keep for the metadata files of other tables without snapshots, if the catalog
// still has these tables. The other files in empty belong to tables that were dropped, or that
// could not be created, so they are orphan files. If the catalog does not list its tables,
// keepEmpty calls Keep for all files in empty.
func (f *Found) keepEmpty(ctx context.Context, tables SearchedTables, table string, folder TableFolder, empty []store.FolderEntry) error {
	if !slices.ContainsFunc(empty, func(e store.FolderEntry) bool { return f.files[nameOf(e.Location)] != nil }) {
		return nil
	}
	current, known, err := tables.CurrentMetadata(ctx)
	if err != nil {
		return err
	}
	if !known {
		for _, e := range empty {
			f.Keep(e.Location)
		}
	}
	for _, location := range current {
		if !below(folder.Location, location) {
			continue
		}
		f.Keep(location)
		// The earlier metadata files that it names belong to the same table.
		switch owner, snapshots, err := tables.MetadataFile(ctx, table, folder.UUID, location, f.Keep); {
		case err != nil:
			return err
		case owner != folder.UUID && snapshots > 0:
			return sharedFolder(table, folder, owner, location)
		}
	}
	return nil
}

// below reports whether a file is in a folder. It ignores the scheme and slashes, because a file
// can have several locations, such as file:/a and file:///a.
func below(folder, location string) bool {
	path := func(of string) string {
		if _, after, ok := strings.Cut(of, ":"); ok {
			of = after
		}
		return strings.Trim(of, "/")
	}
	return strings.HasPrefix(path(location), path(folder)+"/")
}
