package parquet

import (
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/compress"
)

// sharedDictionaries are the decompressed dictionaries of a row group whose stored bytes are
// shared, for the decoders of this package: in files whose values rarely repeat, they are most of
// the work and of the memory of a reader that decodes few rows. With them are the rows of the
// pages of lists, which only decompressing all pages tells.
type sharedDictionaries struct {
	mu     sync.Mutex // held while a dictionary is decompressed, or pages are counted
	leaf   map[int]sharedDictionary
	counts map[int][]pageCount // by leaf
}

// sharedDictionary is the dictionary of one leaf.
type sharedDictionary struct {
	values []byte
	buffer []byte // with the values, allocated from the memory of the fetch
	spare  Spare
}

// find returns the dictionary of a leaf, or nil.
func (d *sharedDictionaries) find(leaf int) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.leaf[leaf].values
}

// release frees all dictionaries. No reader uses them.
func (d *sharedDictionaries) release(from memory.Allocator) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range d.leaf {
		from.Free(one.buffer)
		one.spare.Release()
	}
	d.leaf, d.counts = nil, nil
}

// sharesDictionary reports whether readers share the dictionary of a leaf. One that is not
// compressed is part of the stored bytes.
func (r *Reader) sharesDictionary(leaf int, c *pageStats) bool {
	f := r.source.fetched
	return f != nil && f.shared != nil && c.dictionary.bytes > 0 && r.codec(leaf) != compress.Codecs.Uncompressed
}

// dictionary returns the decompressed dictionary of a leaf if it is shared. The first reader
// decompresses it, for which it reserves memory before others can wait for it.
func (r *Reader) dictionary(leaf int, c *pageStats) ([]byte, error) {
	if !r.sharesDictionary(leaf, c) {
		return nil, nil
	}
	all := &r.source.fetched.dictionaries
	if found := all.find(leaf); found != nil {
		return found, nil
	}
	if err := r.account.reserve(c.dictionary.bytes, 0); err != nil {
		return nil, err
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if found := all.leaf[leaf].values; found != nil {
		r.account.release(c.dictionary.bytes)
		return found, nil
	}
	made, err := r.decompressDictionary(leaf)
	if made.values == nil || err != nil {
		r.account.release(c.dictionary.bytes)
		return nil, err
	}
	if all.leaf == nil {
		all.leaf = map[int]sharedDictionary{}
	}
	made.spare = r.keep(c.dictionary.bytes, r.source.fetched.drop)
	all.leaf[leaf] = made
	return made.values, nil
}

// decompressDictionary returns the dictionary of a leaf in memory that outlives the reader, or
// none if the first page has none.
func (r *Reader) decompressDictionary(leaf int) (sharedDictionary, error) {
	from, err := r.pages(leaf)
	if err != nil {
		return sharedDictionary{}, err
	}
	from.scratch = r.source.fetched.memory
	defer from.release()
	first, err := from.next()
	if first == nil || err != nil || !first.dictionary {
		return sharedDictionary{}, err
	}
	out := sharedDictionary{values: first.values, buffer: from.dictionary}
	from.dictionary = nil
	return out, nil
}
