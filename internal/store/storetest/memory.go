// Package storetest is shared by tests of storage: it has the conformance suite that
// every store must pass, and a store in memory.
package storetest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/store"
)

// Memory is a store of files in memory, at any locations. Use NewMemory. It is safe for
// concurrent use.
type Memory struct {
	mu      sync.RWMutex
	files   map[string][]byte
	times   map[string]time.Time     // times of files and uploads, as SetModified has set them
	uploads map[string]*memoryUpload // unfinished uploads, by the text that identifies them in listings
	begun   int                      // number of uploads that have begun
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{files: map[string][]byte{}, times: map[string]time.Time{}, uploads: map[string]*memoryUpload{}}
}

// Put creates a file, or replaces it for later calls of Open. It copies the content.
func (m *Memory) Put(location string, content []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[location] = slices.Clone(content)
}

// Delete removes a file for later calls of Open.
func (m *Memory) Delete(location string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.files, location)
}

// Open implements store.Store.
func (m *Memory) Open(ctx context.Context, location string, size int64) (store.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	m.mu.RLock()
	content, ok := m.files[location]
	m.mu.RUnlock()
	if !ok {
		return nil, store.Missing(location)
	}
	if err := store.CheckSize(location, int64(len(content)), size); err != nil {
		return nil, err
	}
	return &memoryObject{content: content, location: location}, nil
}

type memoryObject struct {
	content  []byte
	location string
}

func (o *memoryObject) ReadAt(ctx context.Context, p *memory.Buffer, off int64) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := store.CheckRange(o, p.Len(), off); err != nil {
		return err
	}
	copy(p.Bytes(), o.content[off:])
	return nil
}

func (o *memoryObject) Size() int64      { return int64(len(o.content)) }
func (o *memoryObject) Location() string { return o.location }
func (o *memoryObject) Close() error     { return nil }
