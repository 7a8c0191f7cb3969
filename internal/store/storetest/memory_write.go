package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

var (
	_ store.Writer       = (*Memory)(nil)
	_ store.Uploader     = (*Memory)(nil)
	_ store.FolderLister = (*Memory)(nil)
)

// SetModified sets the time that listings return for the file at a location, or for its unfinished
// upload. Listings return the zero time for files for which SetModified was not called.
func (m *Memory) SetModified(location string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.times[location] = at
}

// Create implements store.Writer. It copies the content.
func (m *Memory) Create(ctx context.Context, location string, content *memory.Buffer) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.create(location, slices.Clone(content.Bytes()))
}

// create adds a file; m.mu is held.
func (m *Memory) create(location string, content []byte) error {
	if _, ok := m.files[location]; ok {
		return store.Exists(location)
	}
	m.files[location] = content
	return nil
}

// Remove implements store.Writer.
func (m *Memory) Remove(ctx context.Context, location string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	m.Delete(location)
	return nil
}

// Begin implements store.Uploader. It reserves nothing.
func (m *Memory) Begin(ctx context.Context, location string, _ store.Reserve) (store.Upload, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun++
	u := &memoryUpload{store: m, location: location, id: fmt.Sprint("upload ", m.begun)}
	m.uploads[u.id] = u
	return u, nil
}

// memoryUpload is a file that is being written.
type memoryUpload struct {
	store    *Memory
	location string
	id       string
	content  []byte
	over     bool
}

func (u *memoryUpload) Location() string { return u.location }

// next returns an error if no other call may be made. The caller holds the store's lock.
func (u *memoryUpload) next(ctx context.Context) error {
	if u.over {
		return fault.New(fault.Internal, "upload of file %s is over", u.location).In("", u.location)
	}
	if ctx.Err() != nil {
		u.over = true
		return context.Cause(ctx)
	}
	return nil
}

func (u *memoryUpload) Write(ctx context.Context, p *memory.Buffer) error {
	u.store.mu.Lock()
	defer u.store.mu.Unlock()
	if err := u.next(ctx); err != nil {
		return err
	}
	u.content = append(u.content, p.Bytes()...)
	return nil
}

func (u *memoryUpload) Finish(ctx context.Context) error {
	u.store.mu.Lock()
	defer u.store.mu.Unlock()
	if err := u.next(ctx); err != nil {
		return err
	}
	u.over = true
	if err := u.store.create(u.location, u.content); err != nil {
		return err
	}
	delete(u.store.uploads, u.id)
	return nil
}

func (u *memoryUpload) Abort(ctx context.Context) error {
	u.store.mu.Lock()
	defer u.store.mu.Unlock()
	u.over, u.content = true, nil
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	delete(u.store.uploads, u.id)
	return nil
}

// List implements store.FolderLister.
func (m *Memory) List(ctx context.Context, folder string) (store.FolderListing, error) {
	return m.list(ctx, folder, func(add func(store.FolderEntry)) {
		for location, content := range m.files {
			add(store.FolderEntry{Location: location, Size: int64(len(content)), Modified: m.times[location]})
		}
	})
}

// Unfinished implements store.FolderLister.
func (m *Memory) Unfinished(ctx context.Context, folder string) (store.FolderListing, error) {
	return m.list(ctx, folder, func(add func(store.FolderEntry)) {
		for _, u := range m.uploads {
			add(store.FolderEntry{Location: u.location, Size: int64(len(u.content)), Modified: m.times[u.location], Upload: u.id})
		}
	})
}

// list returns a listing of the entries that exist now. Each page has one entry, so that tests read
// several pages.
func (m *Memory) list(ctx context.Context, folder string, all func(add func(store.FolderEntry))) (store.FolderListing, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	found := map[string]store.FolderEntry{}
	all(func(e store.FolderEntry) {
		if strings.HasPrefix(e.Location, strings.TrimRight(folder, "/")+"/") {
			found[e.Location+"\x00"+e.Upload] = e
		}
	})
	l := &memoryListing{}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		l.entries = append(l.entries, found[key])
	}
	return l, nil
}

// Discard implements store.FolderLister.
func (m *Memory) Discard(ctx context.Context, unfinished store.FolderEntry) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if unfinished.Upload == "" {
		return fault.New(fault.Internal, "file %s is not an unfinished upload", unfinished.Location).In("", unfinished.Location)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if u := m.uploads[unfinished.Upload]; u != nil {
		u.over = true
		delete(m.uploads, u.id)
	}
	return nil
}

type memoryListing struct{ entries []store.FolderEntry }

func (l *memoryListing) Next(ctx context.Context) ([]store.FolderEntry, bool, error) {
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
	}
	n := min(len(l.entries), 1)
	page := l.entries[:n]
	l.entries = l.entries[n:]
	return page, len(l.entries) > 0, nil
}

func (l *memoryListing) Close() error { return nil }
