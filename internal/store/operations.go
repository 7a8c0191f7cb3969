package store

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Operations has all calls that a store can have. Calls that the store does not implement fail.
// Decorators call the store under them through its Operations, so that they can implement all calls
// themselves.
type Operations struct {
	Store
	Writer
	Uploader
	FolderLister
}

// OperationsOf returns the calls of a store.
func OperationsOf(s Store) Operations {
	out := Operations{Store: s, Writer: readOnly{}, Uploader: readOnly{}, FolderLister: readOnly{}}
	if w, ok := s.(Writer); ok {
		out.Writer = w
	}
	if u, ok := s.(Uploader); ok {
		out.Uploader = u
	}
	if l, ok := s.(FolderLister); ok {
		out.FolderLister = l
	}
	return out
}

// readOnly implements the calls that a store may lack. They all fail.
type readOnly struct{}

func (readOnly) Create(_ context.Context, location string, _ *memory.Buffer) error {
	return ReadOnly(location)
}

func (readOnly) Remove(_ context.Context, location string) error { return ReadOnly(location) }

func (readOnly) Begin(_ context.Context, location string, _ Reserve) (Upload, error) {
	return nil, ReadOnly(location)
}

func (readOnly) List(_ context.Context, folder string) (FolderListing, error) {
	return nil, Unlistable(folder)
}

func (readOnly) Unfinished(_ context.Context, folder string) (FolderListing, error) {
	return nil, Unlistable(folder)
}

func (readOnly) Discard(_ context.Context, unfinished FolderEntry) error {
	return Unlistable(unfinished.Location)
}
