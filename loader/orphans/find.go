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

// TableFolder is where the files of a table are.
type TableFolder struct {
	UUID     string // of the table
	Location string
	// Elsewhere are folders outside of Location that the table's properties name. They are not
	// searched: other tables may write there, and names of files do not tell whose they are.
	Elsewhere []string
}

// SearchedTables are the tables of a catalog.
type SearchedTables interface {
	// Folder returns the folder of a table.
	Folder(ctx context.Context, table string) (TableFolder, error)
	// Files returns what lists and removes the files below a table's folder. It returns
	// Forbidden for a table that may not be changed.
	Files(ctx context.Context, table, folder string) (Remover, error)
	// LiveFiles calls each with the location of every file that the current metadata of a table
	// leads to, or fails. A table with another uuid is an error.
	LiveFiles(ctx context.Context, table, uuid string, each func(location string)) error
	// MetadataFile reads a metadata file below the folder of a table with a uuid. It returns the
	// uuid of the table that the file describes and its number of snapshots, and calls each with
	// the locations that it names. A file that describes no table has neither.
	MetadataFile(ctx context.Context, table, uuid, location string, each func(location string)) (owner string, snapshots int, err error)
	// CurrentMetadata returns the locations of the current metadata files of all tables, or false if the catalog does not
	// list them.
	CurrentMetadata(ctx context.Context) (locations []string, known bool, err error)
}

// FolderOrphans are the orphan files in the folder of a table.
type FolderOrphans struct {
	TableFolder
	Entries []store.FolderEntry
	// TooYoung is the number of files and uploads that may belong to a write that runs.
	TooYoung int
	// Files removes the entries; see Remove.
	Files Remover
}

// Bytes returns the size of all entries, as far as it is known.
func (l FolderOrphans) Bytes() (sum int64) {
	for _, e := range l.Entries {
		sum += max(e.Size, 0)
	}
	return sum
}

// Find finds the orphan files of a table. It changes nothing. It reserves the memory of the result
// from held. If anything cannot be listed or read, or the folder has files of another table,
// nothing is an orphan file.
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
	// Only now: a file that is committed meanwhile is named by the metadata.
	if err := tables.LiveFiles(ctx, table, folder.UUID, found.Keep); err != nil {
		return FolderOrphans{}, fault.Op(err, "look for orphan files of table %s", table)
	}
	if err := found.checkOthers(ctx, tables, table, folder); err != nil {
		return FolderOrphans{}, fault.Op(err, "look for orphan files of table %s", table)
	}
	out.Entries, out.TooYoung = found.Orphans(), found.TooYoung()
	return out, nil
}

// checkOthers returns Conflict if the folder has metadata of another table, whose files may lie
// there too: after a table was renamed, another may have been created in its folder. Metadata
// files that the table does not name are read, the newest first. Those that an older one of the
// same table names are not.
func (f *Found) checkOthers(ctx context.Context, tables SearchedTables, table string, folder TableFolder) error {
	if len(f.files)+len(f.uploads) == 0 {
		return nil
	}
	newest := slices.Concat(slices.Collect(maps.Values(f.metadata))...)
	slices.SortFunc(newest, func(a, b store.FolderEntry) int {
		return cmp.Or(b.Modified.Compare(a.Modified), strings.Compare(b.Location, a.Location))
	})
	var empty []store.FolderEntry // of tables without snapshots
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

// sharedFolder is the error for a folder that has files of two tables.
func sharedFolder(table string, folder TableFolder, owner, location string) error {
	return fault.New(fault.Conflict, "folder %s of table %s has metadata of another table, %s, whose files may be there too: %s", folder.Location, table, cmp.Or(owner, "without a uuid"), location).
		In(table, location).WithRemedy("if that table was dropped, remove its metadata files; if not, remove orphan files of neither table")
}

// keepEmpty drops the metadata files of other tables without snapshots, if these are tables of the catalog. Others are of a
// table whose creation failed before the catalog had it, or that was dropped. Where the catalog does not list its tables, all
// are dropped.
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
		// Earlier metadata files, which it names, are the table's too.
		switch owner, snapshots, err := tables.MetadataFile(ctx, table, folder.UUID, location, f.Keep); {
		case err != nil:
			return err
		case owner != folder.UUID && snapshots > 0:
			return sharedFolder(table, folder, owner, location)
		}
	}
	return nil
}

// below reports whether a file is in a folder. A file has many locations, such as file:/a and file:///a.
func below(folder, location string) bool {
	path := func(of string) string {
		if _, after, ok := strings.Cut(of, ":"); ok {
			of = after
		}
		return strings.Trim(of, "/")
	}
	return strings.HasPrefix(path(location), path(folder)+"/")
}
