package icebergcat

import (
	"context"

	"github.com/penstock/penstock/internal/digest"
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
	remembered := l.catalog.options.Manifests
	if remembered == nil {
		return l.catalog.read(ctx, l.meta.files, file)
	}
	read := false
	key := digest.Of(manifestOf{table: l.meta.TableUUID().String(), location: file.location, length: length})
	content, err := remembered.Get(ctx, key, func(ctx context.Context) ([]byte, int64, error) {
		read = true
		content, err := l.catalog.read(ctx, l.meta.files, file)
		return content, int64(len(content)) + perRemembered, err
	})
	if err == nil && !read {
		err = file.charge(int64(len(content)))
	}
	return content, err
}

// listFile is manifestFile of a manifest list: nothing says how long that is.
func (l *listing) listFile(ctx context.Context, file allowance) ([]byte, error) {
	return l.manifestFile(ctx, file, store.SizeUnknown)
}
