package icebergcat

import (
	"context"
	"slices"
	"sync"

	"github.com/penstock/penstock/internal/store"
)

// S3 makes a store of what reaches buckets: the properties, under the names that
// PyIceberg has for them (s3.endpoint, s3.region …), and the keys, which are asked for in
// place of those that properties name, and again when they have expired; nil: there are
// none but the properties'. Properties that say nothing of S3 are passed over.
type S3 func(properties map[string]string, keys Keys) (store.Store, error)

// s3Schemes are what locations on S3 begin with.
func s3Schemes() []string { return []string{"s3", "s3a", "s3n"} }

// access is how files are opened with one set of properties and keys. The store of S3
// is made when the first location asks for it.
type access struct {
	local      store.Store
	make       S3 // nil: S3 is not served
	properties map[string]string
	keys       Keys

	mu     sync.Mutex
	remote store.Store
}

// open opens a file, wherever it lies.
func (a *access) open(ctx context.Context, location string, size int64) (store.Object, error) {
	files, err := a.files(location)
	if err != nil {
		return nil, err
	}
	return files.Open(ctx, location, size)
}

// files is the store that a location is in. A location of a scheme that nobody serves is
// refused by the store of local files.
func (a *access) files(location string) (store.Store, error) {
	if a.make == nil || !slices.Contains(s3Schemes(), store.Scheme(location)) {
		return a.local, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.remote == nil {
		made, err := a.make(a.properties, a.keys)
		if err != nil {
			return nil, err
		}
		a.remote = made
	}
	return a.remote, nil
}
