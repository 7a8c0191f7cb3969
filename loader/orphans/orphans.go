// Package orphans finds the unneeded files that Penstock wrote below a table's folder: files of
// failed writes, and unfinished uploads.
//
// If the search returned a file that the table needs, this file would be removed. So the search is
// careful. It selects only files that have Penstock's names and that are older than a given age,
// because a file is written before a snapshot names it. It lists storage first, and then drops each
// file that the table's metadata names, including files that were committed after the listing. It
// compares the names of files without their folders, because one file can have several locations,
// such as file:/a and file:///a. This is safe because Penstock's file names are unique.
package orphans

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// metadataMark is part of the name of every metadata file.
const metadataMark = ".metadata.json"

// entryBytes is the memory of an entry in bytes, excluding its strings.
const entryBytes = 256

// Search selects the files that may be orphan files.
type Search struct {
	// Owned reports whether the name of a file says that Penstock wrote it.
	Owned func(location string) bool
	// Before is the age limit: orphan files were last written before this time.
	Before time.Time
}

// Found has the files that may be orphan files. Keep drops files from it. It is not safe for
// concurrent use.
type Found struct {
	files    map[string][]store.FolderEntry // by name, without folder
	uploads  []store.FolderEntry
	young    map[string]int                 // number of files that were written too recently, by name
	begun    int                            // unfinished uploads that were written too recently
	metadata map[string][]store.FolderEntry // all metadata files, of other writers too, by name
	held     *budget.Reservation
}

// List lists the possible orphan files below a folder. It reserves the memory of the result from
// held, which the caller releases. After List returns, the caller must load the table's metadata,
// and call Keep with every file that the metadata names or that any of its snapshots needs.
func (s Search) List(ctx context.Context, from store.FolderLister, folder string, held *budget.Reservation) (*Found, error) {
	f := &Found{files: map[string][]store.FolderEntry{}, young: map[string]int{}, metadata: map[string][]store.FolderEntry{}, held: held}
	for _, list := range []func(context.Context, string) (store.FolderListing, error){from.List, from.Unfinished} {
		listing, err := list(ctx, folder)
		if err == nil {
			err = store.Each(ctx, listing, func(e store.FolderEntry) error { return f.add(s, e) })
		}
		if err != nil {
			return nil, fault.Op(err, "look for orphan files in %s", folder)
		}
	}
	return f, nil
}

// add adds an entry if Penstock wrote it and it is old enough. It skips an entry of unknown age.
func (f *Found) add(s Search, e store.FolderEntry) error {
	name := nameOf(e.Location)
	if e.Upload == "" && strings.Contains(name, metadataMark) {
		if err := f.held.Grow(int64(entryBytes + len(e.Location))); err != nil {
			return err
		}
		f.metadata[name] = append(f.metadata[name], e)
	}
	if !s.Owned(e.Location) || e.Modified.IsZero() {
		return nil
	}
	if !e.Modified.Before(s.Before) {
		return f.addYoung(name, e.Upload != "")
	}
	if err := f.held.Grow(int64(entryBytes + len(e.Location) + len(e.Upload))); err != nil {
		return err
	}
	if e.Upload != "" {
		f.uploads = append(f.uploads, e)
		return nil
	}
	f.files[name] = append(f.files[name], e)
	return nil
}

// addYoung counts a file or an unfinished upload that Penstock wrote too recently to judge.
func (f *Found) addYoung(name string, upload bool) error {
	if upload {
		f.begun++
		return nil
	}
	f.young[name]++
	return f.held.Grow(int64(entryBytes + len(name)))
}

// TooYoung returns the number of files and unfinished uploads that the table does not need, but
// that were written so recently that a running write may need them.
func (f *Found) TooYoung() int {
	sum := f.begun
	for _, n := range f.young {
		sum += n
	}
	return sum
}

// nameOf returns the name of a file without its folder.
func nameOf(location string) string { return location[strings.LastIndexByte(location, '/')+1:] }

// Keep is called with a file that the table needs. It drops all files with the same name from the
// search, so that they are not removed. It does not drop unfinished uploads, because files that a
// table needs are complete.
func (f *Found) Keep(location string) {
	name := nameOf(location)
	delete(f.files, name)
	delete(f.young, name)
	delete(f.metadata, name)
}

// Orphans returns the remaining entries: first the files, then the unfinished uploads, each sorted
// by location.
func (f *Found) Orphans() []store.FolderEntry {
	var out []store.FolderEntry
	for _, entries := range f.files {
		out = append(out, entries...)
	}
	byLocation := func(a, b store.FolderEntry) int {
		return cmp.Or(strings.Compare(a.Location, b.Location), strings.Compare(a.Upload, b.Upload))
	}
	slices.SortFunc(out, byLocation)
	slices.SortFunc(f.uploads, byLocation)
	return append(out, f.uploads...)
}

// Remover removes files, and discards unfinished uploads.
type Remover interface {
	store.Writer
	store.FolderLister
}

// Remove removes one orphan file.
func Remove(ctx context.Context, from Remover, orphan store.FolderEntry) error {
	if orphan.Upload != "" {
		return from.Discard(ctx, orphan)
	}
	return from.Remove(ctx, orphan.Location)
}
