package parquet

import (
	"github.com/apache/arrow-go/v18/parquet/compress"

	"github.com/penstock/penstock/internal/parquet/decoder"
)

// decoder.CountPages returns the rows of the data pages of a leaf of lists if the open row group is shared,
// or nil: a reader that does not share it decodes the pages before its rows only once. The first
// reader decompresses all pages to count their rows. If that fails, so will decoding them.
func (r *Reader) countPages(leaf int) ([]decoder.PageCount, error) {
	f := r.source.fetched
	if f == nil || f.shared == nil {
		return nil, nil
	}
	stats, err := r.checkPages(leaf, false)
	if err != nil {
		return nil, err
	}
	need := stats.Body.Size
	if r.codec(leaf) == compress.Codecs.Uncompressed {
		need = 0
	}
	if err := r.account.Reserve(need); err != nil {
		return nil, err
	}
	defer r.account.Release(need)
	all := &f.dictionaries
	all.mu.Lock()
	defer all.mu.Unlock()
	if counts, ok := all.counts[leaf]; ok {
		return counts, nil
	}
	counts, err := r.countLevels(leaf)
	if err != nil {
		counts = nil
	}
	if all.counts == nil {
		all.counts = map[int][]decoder.PageCount{}
	}
	all.counts[leaf] = counts
	return counts, nil
}

// countLevels decompresses the data pages of a leaf and counts the rows that begin in each.
func (r *Reader) countLevels(leaf int) (counts []decoder.PageCount, err error) {
	defer recovered(&err, r.file.Location(), "a page cannot be decoded")
	from, err := r.pages(leaf)
	if err != nil {
		return nil, err
	}
	from.Scratch = r.opts.Scratch
	defer from.Release()
	return decoder.CountPages(from, r.file.meta.Schema.Column(leaf))
}
