package parquet

import (
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/compress"

	"github.com/penstock/penstock/internal/parquet/decoder"
	"github.com/penstock/penstock/internal/parquet/page"
)

// openChunk is the column chunk of a leaf in the open row group.
type openChunk struct {
	*page.Chunk // as the footer describes it
	*reading
	leaf     int            // of the file
	stored   []byte         // as loaded
	viewed   *decoder.View  // nil: it is decoded from its first row to its last
	replaced *replacedChunk // nil: it is decoded as stored
	stats    page.Stats     // of what is decoded
}

// replacedChunk replaces a chunk that the library cannot decode: fixed-length values as
// DELTA_BYTE_ARRAY, which parquet-mr writes in version 2 pages, and INT32 as DELTA_BINARY_PACKED
// (the library refuses deltas that exceed 32 bits). The replacement has plain values and is not
// compressed.
type replacedChunk struct {
	content    []byte // scratch memory
	at         int64  // its offset, past the end of the file
	dictionary int64  // bytes of the dictionary page
}

// check compares the pages of the whole chunk with the footer. With verify it also checks their
// checksums, which the library does not.
func (c *openChunk) check(verify bool) (out page.Stats, err error) {
	defer recovered(&err, c.file.Location(), "a column cannot be decoded")
	return page.Check(c.Chunk, c.stored, verify)
}

// pages returns a reader of the pages that are decoded. It decompresses them into memory from mem.
func (c *openChunk) pages(mem memory.Allocator) (*page.Reader, error) {
	if v := c.viewed; v != nil {
		return page.NewReader(c.Chunk, v.Dictionary, v.Body, mem)
	}
	return page.NewReader(c.Chunk, c.stored, nil, mem)
}

// replace allocates and writes the replacement of the chunk, and returns its page.Stats.
func (c *openChunk) replace(have *page.Stats) (out page.Stats, err error) {
	defer recovered(&err, c.file.Location(), "a page cannot be decoded")
	width := page.MinValueWidth(c.Column)
	if have.MaxPageValues > page.MaxBytes/max(width, 1) {
		return out, page.ErrSize
	}
	size := have.PlainBytes(width)
	if err := c.scratch.Extend(have.DecoderMemory(c.Codec, c.Column) + size); err != nil {
		return out, err
	}
	from, err := c.pages(c.scratch)
	if err != nil {
		return out, err
	}
	defer from.Release()
	room, last := c.scratch.Allocate(int(size)), c.scratch.Allocate(int(width))
	defer c.scratch.Free(last)
	at := c.source.add(room, false)
	made, err := decoder.Replace(from, c.Column, room, last)
	c.replaced = &replacedChunk{content: made.Content, at: at, dictionary: made.Dictionary}
	return made.Stats, err
}

// move makes a replaced or viewed chunk readable at an offset past the end of the file. It returns
// that offset, the size of the dictionary page, and the size of all pages together.
func (c *openChunk) move() (at, dictionary, size int64) {
	if c.replaced != nil {
		return c.replaced.at, c.replaced.dictionary, int64(len(c.replaced.content))
	}
	at = c.source.add(c.viewed.Dictionary, true)
	c.source.add(c.viewed.Body, true)
	dictionary = int64(len(c.viewed.Dictionary))
	return at, dictionary, dictionary + int64(len(c.viewed.Body))
}

// checkLevels returns an error if the levels or values in the pages do not match the file's schema.
func (c *openChunk) checkLevels() error {
	p, err := c.pages(c.scratch)
	if err != nil {
		return err
	}
	defer p.Release()
	return decoder.CheckContent(p, c.Column)
}

// checkDeltas validates the parts of delta-encoded pages that the library trusts, and returns
// bounds of their values' sizes.
func (c *openChunk) checkDeltas() (out decoder.DeltaSizes, err error) {
	defer recovered(&err, c.file.Location(), "a page cannot be decoded")
	p, err := c.pages(c.scratch)
	if err != nil {
		return out, err
	}
	defer p.Release()
	return decoder.MeasureDeltas(p)
}

// maxDictionaryValue returns the length of the longest value in the dictionary, which it
// decompresses.
func (c *openChunk) maxDictionaryValue() (maxBytes int64, err error) {
	defer recovered(&err, c.file.Location(), "a dictionary cannot be read")
	p, err := c.pages(c.scratch)
	if err != nil {
		return 0, err
	}
	defer p.Release()
	return decoder.LongestEntry(p)
}

// countPages returns the row counts of the data pages of a list if the open row group is shared.
// Otherwise it returns nil, since a reader that does not share the row group decodes the pages
// before its rows only once. The first reader that calls countPages decompresses all pages to count
// their rows. If that fails, decoding the pages will fail, too.
func (c *openChunk) countPages() ([]decoder.PageCount, error) {
	f := c.source.fetched
	if f == nil || f.shared == nil {
		return nil, nil
	}
	stats, err := c.check(false)
	if err != nil {
		return nil, err
	}
	need := stats.Body.Size
	if c.Codec == compress.Codecs.Uncompressed {
		need = 0
	}
	if err := c.account.Reserve(need); err != nil {
		return nil, err
	}
	defer c.account.Release(need)
	all := &f.dictionaries
	all.mu.Lock()
	defer all.mu.Unlock()
	if counts, ok := all.counts[c.leaf]; ok {
		return counts, nil
	}
	counts, err := c.countLevels()
	if err != nil {
		counts = nil
	}
	if all.counts == nil {
		all.counts = map[int][]decoder.PageCount{}
	}
	all.counts[c.leaf] = counts
	return counts, nil
}

// countLevels decompresses the data pages and counts the rows that begin in each.
func (c *openChunk) countLevels() (counts []decoder.PageCount, err error) {
	defer recovered(&err, c.file.Location(), "a page cannot be decoded")
	from, err := c.pages(c.opts.Scratch)
	if err != nil {
		return nil, err
	}
	defer from.Release()
	return decoder.CountPages(from, c.Column)
}

// sharesDictionary reports whether readers share the decompressed dictionary. A dictionary that is
// not compressed is part of the stored bytes, which are shared anyway.
func (c *openChunk) sharesDictionary() bool {
	f := c.source.fetched
	return f != nil && f.shared != nil && c.stats.Dictionary.Bytes > 0 && c.Codec != compress.Codecs.Uncompressed
}

// dictionary returns the decompressed dictionary if it is shared. The first reader decompresses it,
// and reserves the memory for that before other readers can wait for the dictionary.
func (c *openChunk) dictionary() ([]byte, error) {
	if !c.sharesDictionary() {
		return nil, nil
	}
	one := c.source.fetched.dictionaries.of(c.leaf)
	if values := one.known(); values != nil {
		return values, nil
	}
	bytes := c.stats.Dictionary.Bytes
	if err := c.account.Reserve(bytes); err != nil {
		return nil, err
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.values != nil {
		c.account.Release(bytes)
		return one.values, nil
	}
	if err := c.decompressDictionary(one); one.values == nil || err != nil {
		c.account.Release(bytes)
		return nil, err
	}
	one.spare = c.keep(bytes, c.source.fetched.drop)
	return one.values, nil
}

// decompressDictionary decompresses the dictionary, into memory that outlives the reader. It does
// nothing if the first page is not a dictionary.
func (c *openChunk) decompressDictionary(into *sharedDictionary) error {
	from, err := c.pages(c.source.fetched.memory)
	if err != nil {
		return err
	}
	defer from.Release()
	first, err := from.Next()
	if first == nil || err != nil || !first.Dictionary {
		return err
	}
	into.values, into.buffer = first.Values, from.TakeDictionary()
	return nil
}
