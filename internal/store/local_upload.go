package store

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

const (
	// unfinishedPrefix and unfinishedSuffix mark the name of a file whose upload has not
	// finished. Engines ignore names that begin with a dot.
	unfinishedPrefix, unfinishedSuffix = ".", ".uploading"
	// tokenLength is how many random characters make such a name unique.
	tokenLength = 13
	// syncBytes is the number of bytes after which written data is synced to disk, so that no call
	// waits for more than that.
	syncBytes = 64 << 20
	// newFolder is the mode of a new folder, before the umask is applied.
	newFolder = 0o777
)

var _ Uploader = Local{}

// unfinishedName returns a temporary name for a file that is being written.
func unfinishedName(name string) string {
	return unfinishedPrefix + name + "." + rand.Text()[:tokenLength] + unfinishedSuffix
}

// finishedName returns the final name of an unfinished file. It returns false for a name that
// unfinishedName does not return.
func finishedName(unfinished string) (string, bool) {
	rest, begins := strings.CutPrefix(unfinished, unfinishedPrefix)
	rest, ends := strings.CutSuffix(rest, unfinishedSuffix)
	at := len(rest) - tokenLength - 1
	if !begins || !ends || at < 1 || rest[at] != '.' || strings.Trim(rest[at+1:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
		return "", false
	}
	return rest[:at], true
}

// localUpload writes a file next to its location, and links it to the location once it is complete.
type localUpload struct {
	system     system
	location   string
	path       string   // the path of the complete file
	unfinished string   // the path until the file is complete
	file       *os.File // nil once it is closed
	unsynced   int      // number of bytes that were written since the last sync
	over       bool     // whether a call has failed or the upload has ended
	complete   bool
}

// Begin begins a local file. It needs no memory: what is written is passed to the kernel.
func (l Local) Begin(ctx context.Context, location string, _ Reserve) (Upload, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	path, err := Path(location)
	if err != nil {
		return nil, err
	}
	folder, name := filepath.Split(path)
	if name == "" {
		return nil, refuse(location, "location %q names a folder, not a file", location)
	}
	if err := makeFolder(filepath.Clean(folder)); err != nil {
		return nil, unwritten(location, err)
	}
	u := &localUpload{system: l.system, location: location, path: path, unfinished: folder + unfinishedName(name)}
	u.file, err = os.OpenFile(u.unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL, newFile) //nolint:gosec // less the umask
	if err != nil {
		return nil, unwritten(location, err)
	}
	return u, nil
}

// makeFolder creates a folder and its missing parents, and makes them durable, unless the folder
// exists.
func makeFolder(path string) error {
	err := os.Mkdir(path, newFolder) //nolint:gosec // less the umask
	if errors.Is(err, os.ErrNotExist) && filepath.Dir(path) != path {
		if err = makeFolder(filepath.Dir(path)); err == nil {
			err = os.Mkdir(path, newFolder) //nolint:gosec // as above
		}
	}
	if errors.Is(err, os.ErrExist) {
		return nil // if it exists as a file, the next call for a file in it fails
	}
	if err != nil {
		return err
	}
	return syncFolder(path)
}

// Location implements Upload.
func (u *localUpload) Location() string { return u.location }

// Write implements Upload.
func (u *localUpload) Write(ctx context.Context, p *memory.Buffer) error {
	if err := u.next(ctx); err != nil {
		return err
	}
	_, err := u.file.Write(p.Bytes())
	if u.unsynced += p.Len(); err == nil && u.unsynced >= syncBytes {
		u.unsynced = 0
		err = u.system.syncFile(u.file)
	}
	if err != nil {
		u.over = true
		return unwritten(u.location, err)
	}
	return nil
}

// next returns an error if no other call may be made.
func (u *localUpload) next(ctx context.Context) error {
	if u.over {
		return Ended(u.location)
	}
	if ctx.Err() != nil {
		u.over = true
		return context.Cause(ctx)
	}
	return nil
}

// Finish implements Upload.
func (u *localUpload) Finish(ctx context.Context) error {
	if err := u.next(ctx); err != nil {
		return err
	}
	u.over = true
	err := errors.Join(u.system.syncFile(u.file), u.file.Close())
	u.file = nil
	if err != nil {
		return unwritten(u.location, err)
	}
	if err := u.publish(); err != nil {
		return err
	}
	u.complete = true
	// If Remove fails, the file has two names, and Unfinished lists one of them.
	_ = os.Remove(u.unfinished)
	if err := u.system.syncName(u.path); err != nil {
		return WithUnknownOutcome(unwritten(u.location, err))
	}
	return nil
}

// publish gives the complete file its final name, unless a file with that name exists.
func (u *localUpload) publish() error {
	err := u.system.linkFile(u.unfinished, u.path)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EMLINK):
		return u.publishByRename()
	}
	// On a network mount, the link may exist although the call failed, because the answer was lost.
	found, missing := os.Lstat(u.path)
	mine, unreadable := os.Lstat(u.unfinished)
	switch {
	case missing == nil && unreadable == nil && os.SameFile(found, mine):
		return nil
	case errors.Is(err, os.ErrExist):
		return Exists(u.location)
	case errors.Is(missing, os.ErrNotExist):
		return unwritten(u.location, err)
	default:
		return WithUnknownOutcome(unwritten(u.location, err))
	}
}

// publishByRename gives the file its final name on file systems without hard links. Because a
// rename would replace any existing file, it first creates an empty file with that name, which
// fails if there is one. A process that ends before the rename leaves an empty file at the
// location.
func (u *localUpload) publishByRename() error {
	taken, err := os.OpenFile(u.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, newFile) //nolint:gosec // less the umask
	if errors.Is(err, os.ErrExist) {
		return Exists(u.location)
	}
	if err != nil {
		return unwritten(u.location, err)
	}
	if err = errors.Join(taken.Close(), os.Rename(u.unfinished, u.path)); err == nil {
		return nil
	}
	if removed := os.Remove(u.path); removed != nil {
		return WithUnknownOutcome(unwritten(u.location, errors.Join(err, removed)))
	}
	return unwritten(u.location, err)
}

// Abort implements Upload.
func (u *localUpload) Abort(ctx context.Context) error {
	u.over = true
	if u.file != nil {
		_ = u.file.Close() // the file is not used
		u.file = nil
	}
	if u.complete {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := os.Remove(u.unfinished); err != nil && !errors.Is(err, os.ErrNotExist) {
		return unwritten(u.location, err)
	}
	return nil
}
