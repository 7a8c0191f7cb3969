package parquet

import (
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/compress"

	"github.com/penstock/penstock/internal/parquet/decoder"
	"github.com/penstock/penstock/internal/parquet/page"
)

// sharedDictionaries are the decompressed dictionaries of a row group whose stored bytes are
// shared, for the decoders of this package: in files whose values rarely repeat, they are most of
// the work and of the memory of a reader that decodes few rows. They come with the row counts of
// the pages of lists, which are only known once all pages are decompressed.
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

// known returns the values, or nil.
func (d *sharedDictionary) known() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.values
}

// release frees all dictionaries. No reader uses them.
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

// sharesDictionary reports whether readers share the dictionary of a leaf. One that is not
// compressed is part of the stored bytes.
func (r *Reader) sharesDictionary(leaf int, c *page.Stats) bool {
	f := r.source.fetched
	return f != nil && f.shared != nil && c.Dictionary.Bytes > 0 && r.codec(leaf) != compress.Codecs.Uncompressed
}

// openDictionary decompresses the dictionary of a column if it is shared and not known.
func (r *Reader) openDictionary(c column, counted groupStats) (err error) {
	defer recovered(&err, r.file.Location(), "a dictionary cannot be read")
	if c.field < 0 || !r.decodes(c) {
		return nil
	}
	stats := counted.leaves[c.leaves[0]]
	if _, err := r.dictionary(c.leaves[0], &stats); err != nil {
		return columnError(c, err)
	}
	return nil
}

// dictionary returns the decompressed dictionary of a leaf if it is shared. The first reader
// decompresses it, for which it reserves memory before others can wait for it.
func (r *Reader) dictionary(leaf int, c *page.Stats) ([]byte, error) {
	if !r.sharesDictionary(leaf, c) {
		return nil, nil
	}
	one := r.source.fetched.dictionaries.of(leaf)
	if values := one.known(); values != nil {
		return values, nil
	}
	if err := r.account.Reserve(c.Dictionary.Bytes); err != nil {
		return nil, err
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.values != nil {
		r.account.Release(c.Dictionary.Bytes)
		return one.values, nil
	}
	if err := r.decompressDictionary(leaf, one); one.values == nil || err != nil {
		r.account.Release(c.Dictionary.Bytes)
		return nil, err
	}
	one.spare = r.keep(c.Dictionary.Bytes, r.source.fetched.drop)
	return one.values, nil
}

// decompressDictionary sets the values of a leaf's dictionary, in memory that outlives the reader,
// unless the first page has none.
func (r *Reader) decompressDictionary(leaf int, into *sharedDictionary) error {
	from, err := r.pages(leaf)
	if err != nil {
		return err
	}
	from.Scratch = r.source.fetched.memory
	defer from.Release()
	first, err := from.Next()
	if first == nil || err != nil || !first.Dictionary {
		return err
	}
	into.values, into.buffer, from.Dictionary = first.Values, from.Dictionary, nil
	return nil
}
