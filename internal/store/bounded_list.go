package store

import "context"

var _ FolderLister = (*Bounded)(nil)

// List lists the files below a folder. If the caller has stopped waiting when the listing begins,
// the listing is closed.
func (b *Bounded) List(ctx context.Context, folder string) (FolderListing, error) {
	return b.list(ctx, folder, FolderLister.List)
}

// Unfinished lists the unfinished uploads below a folder, as List does.
func (b *Bounded) Unfinished(ctx context.Context, folder string) (FolderListing, error) {
	return b.list(ctx, folder, FolderLister.Unfinished)
}

func (b *Bounded) list(ctx context.Context, folder string, list func(FolderLister, context.Context, string) (FolderListing, error)) (FolderListing, error) {
	s, m := subject{verb: "list", location: folder, folder: true}, b.calls.of(folder)
	l, _, err := await(ctx, b.calls, m, s, func(ctx context.Context) (*boundedListing, error) {
		l, err := list(b.under, ctx, folder)
		if err != nil {
			return nil, err
		}
		return &boundedListing{under: l, calls: b.calls, of: s, opened: newOpenHandle(m, l)}, nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Discard removes an unfinished upload.
func (b *Bounded) Discard(ctx context.Context, unfinished FolderEntry) error {
	_, err := b.change(ctx, "discard", unfinished.Location, func(ctx context.Context) error { return b.under.Discard(ctx, unfinished) })
	return err
}

// boundedListing is a listing whose calls may be abandoned. The underlying listing is closed after
// its last call has returned.
type boundedListing struct {
	under  FolderListing
	calls  *Calls
	of     subject
	opened *openHandle
}

// listPage is a result of Next.
type listPage struct {
	entries []FolderEntry
	more    bool
}

func (l *boundedListing) Next(ctx context.Context) ([]FolderEntry, bool, error) {
	l.opened.begin(l.of.location)
	got, pending, err := await(ctx, l.calls, l.opened.mount, l.of, func(ctx context.Context) (listPage, error) {
		entries, more, err := l.under.Next(ctx)
		return listPage{entries, more}, err
	})
	l.opened.endAfter(pending)
	return got.entries, got.more, err
}

func (l *boundedListing) Close() error {
	l.opened.close()
	return nil
}
