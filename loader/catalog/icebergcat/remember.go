package icebergcat

import (
	"context"
	"path"

	"github.com/google/uuid"

	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
	"github.com/penstock/penstock/loader/catalog/icebergcat/metafile"
	"github.com/penstock/penstock/loader/catalog/tablestore"
)

// manifestOf identifies a manifest or a manifest list. Neither changes while its table
// exists, but a table that was dropped and recreated may reuse the names of files.
type manifestOf struct {
	table    string // uuid
	location string
	length   int64 // or store.SizeUnknown
}

// perRemembered is the cost of a remembered file in addition to its bytes.
const perRemembered = 200

// manifestFile returns the stored content of a manifest list or a manifest, from the cache
// or from storage. It is charged to the file in both cases, and must not be modified.
func (l *listing) manifestFile(ctx context.Context, file metafile.Allowance, length int64) ([]byte, error) {
	if err := l.meta.may(file.What, file.Location); err != nil { // also if the cache has it
		return nil, err
	}
	return l.catalog.remembered(ctx, l.meta.files, file, l.keyOf(file.Location, length))
}

func (l *listing) keyOf(location string, length int64) string {
	return digest.Of(manifestOf{table: l.meta.TableUUID().String(), location: location, length: length})
}

// orForget returns err. If err reports that a remembered file is corrupt, it forgets the
// file, so that it is read again after it was restored.
func (c *Catalog) orForget(key string, err error) error {
	if c.options.Manifests != nil && fault.KindOf(err) == fault.Corrupt {
		c.options.Manifests.Forget(key)
	}
	return err
}

// remembered returns the content of an immutable file, which the cache has under a key.
func (c *Catalog) remembered(ctx context.Context, from tablestore.Opener, file metafile.Allowance, key string) ([]byte, error) {
	remembered := c.options.Manifests
	if remembered == nil {
		return c.read(ctx, from, file)
	}
	read := false
	content, err := remembered.Get(ctx, key, func(ctx context.Context) ([]byte, int64, error) {
		read = true
		content, err := c.read(ctx, from, file)
		return content, int64(len(content)) + perRemembered, err
	})
	if err == nil && !read {
		err = file.Charge(int64(len(content)))
	}
	return content, err
}

// metadataOf identifies a metadata file.
type metadataOf struct{ what, location string }

// metadataContent returns the stored content of a metadata file. Files on remote storage
// with a uuid in their names are immutable, and remembered. Local files are not, because
// reading them is cheap, and what follows from them is remembered.
func (c *Catalog) metadataContent(ctx context.Context, file metafile.Allowance) ([]byte, error) {
	if scheme := store.Scheme(file.Location); scheme == "" || scheme == "file" || !unique(file.Location) {
		return c.read(ctx, c.files, file)
	}
	return c.remembered(ctx, c.files, file, metadataKey(file))
}

// metadataKey returns the key under which a metadata file is remembered.
func metadataKey(file metafile.Allowance) string {
	return digest.Of(metadataOf{what: file.What, location: file.Location})
}

// unique reports whether a file's name contains a uuid.
func unique(location string) bool {
	name := path.Base(location)
	for i := 0; i+uuidLength <= len(name); i++ {
		if uuid.Validate(name[i:i+uuidLength]) == nil {
			return true
		}
	}
	return false
}

// uuidLength is the length of the text of a uuid.
const uuidLength = 36

// listFile is manifestFile for a manifest list, whose length is not known.
func (l *listing) listFile(ctx context.Context, file metafile.Allowance) ([]byte, error) {
	return l.manifestFile(ctx, file, store.SizeUnknown)
}
