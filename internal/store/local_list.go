package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/penstock/penstock/internal/fault"
)

var _ FolderLister = Local{}

// List lists local files.
func (l Local) List(ctx context.Context, folder string) (FolderListing, error) {
	return listLocal(ctx, folder, false)
}

// Unfinished lists the files that Begin of a Local created and that do not have their final names
// yet. It recognizes them by their temporary names.
func (l Local) Unfinished(ctx context.Context, folder string) (FolderListing, error) {
	return listLocal(ctx, folder, true)
}

// Discard removes the file of an unfinished upload.
func (l Local) Discard(ctx context.Context, unfinished FolderEntry) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	path, err := Path(unfinished.Location)
	if err != nil {
		return err
	}
	if name, ok := finishedName(unfinished.Upload); !ok || name != filepath.Base(path) {
		return notUnfinished(unfinished)
	}
	err = os.Remove(filepath.Join(filepath.Dir(path), unfinished.Upload))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return unwritten(unfinished.Location, err)
	}
	return nil
}

// notUnfinished returns the error for an entry that Unfinished cannot have listed.
func notUnfinished(e FolderEntry) error {
	return fault.New(fault.Internal, "upload %q of file %s is not an unfinished upload", e.Upload, e.Location).In("", e.Location)
}

// localListing reads one folder after another. It opens each folder relative to the root, so that a
// symbolic link that replaces a folder cannot lead out of the root.
type localListing struct {
	location   string // location of the root, as the caller gave it, without a slash at its end
	unfinished bool
	root       *os.Root // nil: the folder does not exist
	folders    []string // folders that are still to be read, relative to the root
	open       *os.File // the folder that is being read; nil: no folder is open
	at         string   // path of the open folder, relative to the root
}

func listLocal(ctx context.Context, location string, unfinished bool) (FolderListing, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	path, err := Path(location)
	if err != nil {
		return nil, err
	}
	l := &localListing{location: strings.TrimRight(location, "/"), unfinished: unfinished}
	found, err := os.Stat(path)
	if err == nil && found.IsDir() {
		l.root, err = os.OpenRoot(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), err == nil && l.root == nil: // there is no such folder
	case err != nil:
		return nil, unlisted(location, err)
	default:
		l.folders = []string{"."}
	}
	return l, nil
}

// unlisted returns the error for a folder that cannot be listed.
func unlisted(location string, err error) error {
	return fault.New(fault.Unavailable, "list folder %s: %w", location, err).In("", location).
		WithRemedy("check that Penstock can read that folder and all below it, and that its disk works")
}

// Next implements FolderListing.
func (l *localListing) Next(ctx context.Context) ([]FolderEntry, bool, error) {
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
	}
	if l.open == nil && len(l.folders) > 0 {
		if err := l.openFolder(); err != nil {
			return nil, false, unlisted(l.location, err)
		}
	}
	if l.open == nil {
		return nil, len(l.folders) > 0, nil
	}
	found, err := l.open.ReadDir(MaxPage)
	if errors.Is(err, io.EOF) {
		err = l.closeFolder()
	}
	page := make([]FolderEntry, 0, len(found))
	for _, one := range found {
		if err == nil {
			page, err = l.add(page, one)
		}
	}
	if err != nil {
		return nil, false, unlisted(l.location, err)
	}
	return page, l.open != nil || len(l.folders) > 0, nil
}

// openFolder opens the folder that was found last, and skips folders that have vanished.
func (l *localListing) openFolder() error {
	last := len(l.folders) - 1
	l.at, l.folders = l.folders[last], l.folders[:last]
	open, err := l.root.Open(l.at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	l.open = open
	return err
}

func (l *localListing) closeFolder() error {
	open := l.open
	l.open = nil
	return open.Close()
}

// add appends the entry of a file to the page, if the listing includes that file. If the entry is a
// folder, add keeps it, to be read later.
func (l *localListing) add(page []FolderEntry, found fs.DirEntry) ([]FolderEntry, error) {
	path := filepath.Join(l.at, found.Name())
	if found.IsDir() {
		l.folders = append(l.folders, path)
		return page, nil
	}
	name, unfinished := finishedName(found.Name())
	if unfinished != l.unfinished || !found.Type().IsRegular() {
		return page, nil
	}
	stat, err := l.root.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return page, nil
	}
	if err != nil {
		return page, err
	}
	e := FolderEntry{Location: l.location + "/" + path, Size: stat.Size(), Modified: stat.ModTime()}
	if unfinished {
		e.Location, e.Upload = l.location+"/"+filepath.Join(l.at, name), found.Name()
	}
	return append(page, e), nil
}

// Close implements FolderListing.
func (l *localListing) Close() error {
	var err error
	if l.open != nil {
		err = l.closeFolder()
	}
	if l.root != nil {
		err = errors.Join(err, l.root.Close())
		l.root = nil
	}
	if err != nil {
		return unlisted(l.location, err)
	}
	return nil
}
