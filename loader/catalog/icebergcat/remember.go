package icebergcat

import (
	"context"
	"path"

	"github.com/google/uuid"

	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// manifestOf is what a manifest or a manifest list depends on. Neither ever changes
// while its table lives, but a table that is dropped and made anew may give its files
// the names of the old ones.
type manifestOf struct {
	table    string // uuid
	location string
	length   int64 // or store.SizeUnknown
}

// perRemembered is what a remembered file costs beside its bytes.
const perRemembered = 200

// manifestFile returns the whole of a manifest list or of a manifest, as stored, read
// or remembered. It is charged to the file's allowance either way, and nobody changes
// it.
func (l *listing) manifestFile(ctx context.Context, file allowance, length int64) ([]byte, error) {
	return l.catalog.remembered(ctx, l.meta.files, file, l.keyOf(file.location, length))
}

func (l *listing) keyOf(location string, length int64) string {
	return digest.Of(manifestOf{table: l.meta.TableUUID().String(), location: location, length: length})
}

// orForget passes on what was made of a remembered file. If that says that the file is
// corrupt, it is forgotten: when somebody has restored it, it is read again.
func (c *Catalog) orForget(key string, err error) error {
	if c.options.Manifests != nil && fault.KindOf(err) == fault.Corrupt {
		c.options.Manifests.Forget(key)
	}
	return err
}

// remembered returns the whole of a file that never changes, under a key.
func (c *Catalog) remembered(ctx context.Context, from opener, file allowance, key string) ([]byte, error) {
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
		err = file.charge(int64(len(content)))
	}
	return content, err
}

// metadataOf is what a remembered metadata file depends on.
type metadataOf struct{ what, location string }

// metadataContent returns the whole of a metadata file, as stored, read or remembered.
// Those with a uuid in their names are never written again. On this machine's disks they
// are read all the same: that costs little, and the file there is what counts.
func (c *Catalog) metadataContent(ctx context.Context, file allowance) ([]byte, error) {
	if scheme := store.Scheme(file.location); scheme == "" || scheme == "file" || !unique(file.location) {
		return c.read(ctx, c.access, file)
	}
	return c.remembered(ctx, c.access, file, file.key())
}

// key is what a metadata file is remembered under.
func (a allowance) key() string { return digest.Of(metadataOf{what: a.what, location: a.location}) }

// unique says whether a uuid is in a file's name.
func unique(location string) bool {
	name := path.Base(location)
	for i := 0; i+uuidLength <= len(name); i++ {
		if uuid.Validate(name[i:i+uuidLength]) == nil {
			return true
		}
	}
	return false
}

// uuidLength is that of a uuid as text.
const uuidLength = 36

// listFile is manifestFile of a manifest list: nothing says how long that is.
func (l *listing) listFile(ctx context.Context, file allowance) ([]byte, error) {
	return l.manifestFile(ctx, file, store.SizeUnknown)
}
