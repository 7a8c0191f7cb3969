package store

import (
	"context"
	"time"
)

// FolderLister lists the files below a folder, and the uploads that were never finished. It is
// safe for concurrent use.
type FolderLister interface {
	// List lists the files below a folder, at any depth, in any order. A folder that does not exist
	// counts as empty. Symbolic links are neither listed nor followed, except the folder itself. A
	// file that appears or vanishes during the listing may be listed or not.
	List(ctx context.Context, folder string) (FolderListing, error)
	// Unfinished lists the uploads below a folder that have been neither finished nor aborted,
	// including uploads that are still running.
	Unfinished(ctx context.Context, folder string) (FolderListing, error)
	// Discard removes an unfinished upload that Unfinished listed, if it is still there. It
	// never removes a complete file.
	Discard(ctx context.Context, unfinished FolderEntry) error
}

// FolderListing is a list of any length that is read page by page. Its calls must not overlap. The
// caller closes it.
type FolderListing interface {
	// Next returns the next entries, at most MaxPage of them and perhaps none, and whether more may
	// follow. After an error, only Close may be called. A list is never cut short without an error.
	Next(ctx context.Context) (page []FolderEntry, more bool, err error)
	// Close releases the resources of the listing. It does not wait for abandoned calls.
	Close() error
}

// MaxPage bounds the entries of one page of a FolderListing.
const MaxPage = 1000

// FolderEntry is a file, or an unfinished upload.
type FolderEntry struct {
	// Location is the location of the file, or of the file that the upload would have created. It
	// has the scheme of the listed folder.
	Location string
	// Size is in bytes; for unfinished uploads it may be SizeUnknown.
	Size int64
	// Modified is when the file was last written; for an unfinished upload, when it began or was last written to.
	Modified time.Time
	// Upload identifies an unfinished upload to Discard. It is empty for files.
	Upload string
}

// Each calls a function with each entry of a listing, until the function returns an error. It then
// closes the listing.
func Each(ctx context.Context, listing FolderListing, each func(FolderEntry) error) (err error) {
	defer func() {
		if closed := listing.Close(); err == nil {
			err = closed
		}
	}()
	for more := true; more; {
		var page []FolderEntry
		if page, more, err = listing.Next(ctx); err != nil {
			return err
		}
		for _, e := range page {
			if err = each(e); err != nil {
				return err
			}
		}
	}
	return nil
}
