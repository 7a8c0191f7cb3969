package parquet

import (
	"github.com/penstock/penstock/internal/parquet/charged"
	"github.com/penstock/penstock/internal/parquet/page"
)

// trimmed is a copy of the pages that the decoders of the open row group have still to read. It
// replaces the stored bytes of the row group.
type trimmed struct {
	content []byte // allocated from ReadOptions.Scratch
	spare   Spare  // the memory of content; nil: the stored bytes were not replaced
}

// minTrim is the minimum ratio of stored bytes to pages that are still needed for which the pages
// are copied and the stored bytes are freed. Copying takes much less time than decoding the pages.
const minTrim = 1.5

// trim frees the stored bytes of the row group if many of them are not needed anymore: those of
// dictionaries, which it decompresses, and those of pages without wanted rows. The other pages are
// copied. trim does nothing if readers share the stored bytes, if the library reads them, or if
// there is no memory to spare for the copy. It is called before the first page is read.
func (g *rowGroup) trim() error {
	pages, trims := g.ownPages()
	if !trims {
		return nil
	}
	var stored, needed int64
	for _, r := range g.source.regions {
		stored += r.length
	}
	for _, from := range pages {
		needed += from.Stored()
	}
	if needed == 0 || float64(stored) < minTrim*float64(needed) {
		return nil
	}
	spare, ok := g.opts.Ahead(needed, func() {})
	if !ok {
		return nil
	}
	g.trimmed.spare = spare
	if err := g.eachColumn(func(i int) error { return g.columns[i].loadDictionary() }); err != nil {
		return err
	}
	g.trimmed.content = g.opts.Scratch.Allocate(int(needed))
	rest := g.trimmed.content
	for _, from := range pages {
		rest = from.Move(rest)
	}
	g.freeStored(stored)
	return nil
}

// ownPages returns the pages of the columns. It returns false if trim cannot replace their stored
// bytes.
func (g *rowGroup) ownPages() (pages []*page.Reader, trims bool) {
	if g.opts.Ahead == nil || g.opts.Shared != nil {
		return nil, false
	}
	for _, c := range g.columns {
		switch {
		case c.pages != nil:
			pages = append(pages, c.pages)
		case len(c.chunks) > 0:
			return nil, false
		}
	}
	return pages, true
}

// freeStored frees the stored bytes of the row group and gives up their reservation.
func (g *rowGroup) freeStored(bytes int64) {
	if g.source.fetched != nil {
		g.source.release() // the fetch releases its Spare
		return
	}
	g.source.free()
	g.scratch.Shrink(bytes)
}

// release frees the copy.
func (t *trimmed) release(g *rowGroup) {
	if t.spare == nil {
		return
	}
	g.opts.Scratch.Free(t.content)
	t.spare.Release()
	*t = trimmed{}
}

// loadDictionary decompresses the dictionary of a column that this package decodes.
func (c *openColumn) loadDictionary() (err error) {
	defer recovered(&err, c.group.file.Location(), "a dictionary cannot be read")
	defer charged.Refused(&err)
	if c.pages == nil {
		return nil
	}
	if err := c.pages.LoadDictionary(); err != nil {
		return c.named(err)
	}
	return nil
}
