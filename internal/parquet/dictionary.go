package parquet

import (
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/parquet/decoder"
)

// sharedDictionaries are the decompressed dictionaries of a row group whose stored bytes are
// shared. The decoders of this package use them. In files whose values rarely repeat, the
// dictionaries are most of the work and of the memory of a reader that decodes few rows.
// sharedDictionaries also has the row counts of the pages of lists, which are only known once all
// pages are decompressed.
type sharedDictionaries struct {
	mu     sync.Mutex // held while pages are counted
	leaf   map[int]*sharedDictionary
	counts map[int][]decoder.PageCount // by leaf
}

// sharedDictionary is the dictionary of one leaf.
type sharedDictionary struct {
	mu     sync.Mutex // held while it is decompressed
	values []byte
	buffer []byte // with the values, allocated from the memory of the fetch
	spare  Spare
}

// of returns the dictionary of a leaf, which may have no values yet.
func (d *sharedDictionaries) of(leaf int) *sharedDictionary {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leaf == nil {
		d.leaf = map[int]*sharedDictionary{}
	}
	if d.leaf[leaf] == nil {
		d.leaf[leaf] = &sharedDictionary{}
	}
	return d.leaf[leaf]
}

// known returns the decompressed values, or nil if they are not decompressed yet.
func (d *sharedDictionary) known() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.values
}

// release frees all dictionaries. It is called when no reader uses them anymore.
func (d *sharedDictionaries) release(from memory.Allocator) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range d.leaf {
		if one.values != nil {
			from.Free(one.buffer)
			one.spare.Release()
		}
	}
	d.leaf, d.counts = nil, nil
}
