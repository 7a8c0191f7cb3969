package metadata

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

// perRemembered is the memory of a cached file in addition to its content, in bytes.
const perRemembered = 200

// OrForget returns err. If err is Corrupt, it also removes the file from the cache, so that it is
// read again after somebody restored it.
func (s *Source) OrForget(key string, err error) error {
	if s.Manifests != nil && fault.KindOf(err) == fault.Corrupt {
		s.Manifests.Forget(key)
	}
	return err
}

// Remembered returns the content of an immutable file, from the cache or, if the cache does not
// have it under key, from storage.
func (s *Source) Remembered(ctx context.Context, from tablestore.Opener, file metafile.Allowance, key string) ([]byte, error) {
	remembered := s.Manifests
	if remembered == nil {
		return s.Read(ctx, from, file)
	}
	read := false
	content, err := remembered.Get(ctx, key, func(ctx context.Context) ([]byte, int64, error) {
		read = true
		content, err := s.Read(ctx, from, file)
		return content, int64(len(content)) + perRemembered, err
	})
	if err == nil && !read {
		err = file.Charge(int64(len(content)))
	}
	return content, err
}

// metadataOf identifies a metadata file.
type metadataOf struct{ what, location string }

// metadataContent returns the stored content of a metadata file. Files on remote storage with a
// uuid in their names are immutable, and are cached. Local files are not cached: reading them is
// cheap, and Source.Tables caches the tables that are opened from them.
func (s *Source) metadataContent(ctx context.Context, file metafile.Allowance) ([]byte, error) {
	if scheme := store.Scheme(file.Location); scheme == "" || scheme == "file" || !unique(file.Location) {
		return s.Read(ctx, s.Files, file)
	}
	return s.Remembered(ctx, s.Files, file, metadataKey(file))
}

// metadataKey returns the key of a metadata file in the cache.
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
