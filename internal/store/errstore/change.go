package errstore

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/store"
)

var (
	_ store.Writer       = (*Store)(nil)
	_ store.Uploader     = (*Store)(nil)
	_ store.FolderLister = (*Store)(nil)
)

// change makes a call that changes storage or lists it.
func (s *Store) change(ctx context.Context, call Call, location string, do func(context.Context) error) error {
	act := s.begin(call, location, func() {})
	if err := act.before(ctx, location); err != nil {
		return err
	}
	if err := do(act.under(ctx)); err != nil {
		return err
	}
	return act.after(location)
}

// Create implements store.Writer.
func (s *Store) Create(ctx context.Context, location string, content *memory.Buffer) error {
	return s.change(ctx, Create, location, func(ctx context.Context) error { return s.inner.Create(ctx, location, content) })
}

// Remove implements store.Writer.
func (s *Store) Remove(ctx context.Context, location string) error {
	return s.change(ctx, Remove, location, func(ctx context.Context) error { return s.inner.Remove(ctx, location) })
}

// Begin implements store.Uploader. If its answer is lost, the upload of the decorated store stays
// unfinished.
func (s *Store) Begin(ctx context.Context, location string, reserve store.Reserve) (store.Upload, error) {
	var inner store.Upload
	err := s.change(ctx, Begin, location, func(ctx context.Context) (err error) {
		inner, err = s.inner.Begin(ctx, location, reserve)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &faultyUpload{Upload: inner, store: s}, nil
}

type faultyUpload struct {
	store.Upload
	store *Store
}

func (u *faultyUpload) Write(ctx context.Context, p *memory.Buffer) error {
	return u.store.change(ctx, Write, u.Location(), func(ctx context.Context) error { return u.Upload.Write(ctx, p) })
}

func (u *faultyUpload) Finish(ctx context.Context) error {
	return u.store.change(ctx, Finish, u.Location(), u.Upload.Finish)
}

func (u *faultyUpload) Abort(ctx context.Context) error {
	return u.store.change(ctx, Abort, u.Location(), u.Upload.Abort)
}

// List implements store.FolderLister. Rules do not apply to List itself, but to the requests for
// pages.
func (s *Store) List(ctx context.Context, folder string) (store.FolderListing, error) {
	return s.list(ctx, folder, store.FolderLister.List)
}

// Unfinished implements store.FolderLister. Rules apply to its pages.
func (s *Store) Unfinished(ctx context.Context, folder string) (store.FolderListing, error) {
	return s.list(ctx, folder, store.FolderLister.Unfinished)
}

func (s *Store) list(
	ctx context.Context, folder string, list func(store.FolderLister, context.Context, string) (store.FolderListing, error),
) (store.FolderListing, error) {
	inner, err := list(s.inner, ctx, folder)
	if err != nil {
		return nil, err
	}
	return &faultyListing{FolderListing: inner, store: s, folder: folder}, nil
}

// Discard implements store.FolderLister.
func (s *Store) Discard(ctx context.Context, unfinished store.FolderEntry) error {
	return s.change(ctx, Discard, unfinished.Location, func(ctx context.Context) error { return s.inner.Discard(ctx, unfinished) })
}

type faultyListing struct {
	store.FolderListing
	store  *Store
	folder string
}

func (l *faultyListing) Next(ctx context.Context) (page []store.FolderEntry, more bool, err error) {
	err = l.store.change(ctx, ListPage, l.folder, func(ctx context.Context) (err error) {
		page, more, err = l.FolderListing.Next(ctx)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return page, more, nil
}
