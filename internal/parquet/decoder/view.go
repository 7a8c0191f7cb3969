package decoder

import (
	"math/bits"

	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/penstock/penstock/internal/parquet/page"
	"github.com/penstock/penstock/internal/parquet/thrift"
)

// View is the part of a column chunk that is decoded when only some rows of the row group are
// read: its dictionary, and the data pages from the one with the first row to the one with the
// last. The pages before and after are neither decompressed nor decoded, and their checksums are
// not verified.
type View struct {
	Dictionary, Body []byte // bytes of the chunk
	Row              int64  // row of the row group at which Body begins
	Rows, Values     int64  // number of rows and values in Body; levels count as values if there are any
}

// PageStarts are the places of those data pages of a chunk that begin with a new row.
type PageStarts struct {
	at         []pageStart
	dictionary int   // where the dictionary page ends; 0: there is none
	rows       int64 // number of rows of all pages so far
	values     int64
}

// pageStart is a data page, and the number of rows and values before it.
type pageStart struct {
	offset       int // offset of the page's header in the chunk
	Rows, values int64
}

// FindPages returns the places of the data pages of a chunk, which has the given number of rows. It
// returns false if a page header lacks the number of rows, as it always does for lists in version 1
// pages, or if the headers contradict the footer. It also returns false if a page continues a row.
// The format forbids that in version 2, so a writer of such pages may count rows in another way.
// counts has the row counts of the data pages if the caller has counted them; otherwise it is nil.
func FindPages(of *page.Chunk, rows int64, chunk []byte, counts []PageCount) (*PageStarts, bool) {
	starts := &PageStarts{}
	for t := (thrift.Reader{Rest: chunk}); len(t.Rest) > 0; {
		at := len(chunk) - len(t.Rest)
		h, body, err := page.ReadBody(&t)
		if err != nil {
			return nil, false
		}
		switch {
		case h.Kind == page.Dictionary && starts.values == 0 && starts.dictionary == 0:
			starts.dictionary = len(chunk) - len(t.Rest)
		case h.Kind == page.Dictionary:
			return nil, false
		case h.IsData():
			count, ok := countOf(&h, body, of.Column)
			if len(counts) > 0 {
				count, counts, ok = counts[0], counts[1:], true
			}
			if !ok {
				return nil, false
			}
			starts.add(&h, count, at)
		}
	}
	starts.at = append(starts.at, pageStart{offset: len(chunk), Rows: starts.rows, values: starts.values})
	return starts, starts.rows == rows && starts.at[0].Rows == 0
}

// add adds a data page.
func (s *PageStarts) add(h *page.Header, count PageCount, at int) {
	if count.begins {
		s.at = append(s.at, pageStart{offset: at, Rows: s.rows, values: s.values})
	}
	s.rows, s.values = s.rows+count.rows, s.values+h.Count
}

// PageCount is the number of rows that begin in a page, and whether the page begins with a new row.
type PageCount struct {
	rows   int64
	begins bool
}

// countOf returns the PageCount of a data page by its header. It returns false if the header lacks
// the number of rows, or if the page continues a row.
func countOf(h *page.Header, body []byte, described *schema.Column) (PageCount, bool) {
	if described.MaxRepetitionLevel() == 0 {
		return PageCount{rows: h.Count, begins: true}, h.Count >= 0
	}
	if h.Kind != page.DataV2 || h.Rows < 0 || h.Rows > h.Count || h.RepetitionBytes < 0 || h.RepetitionBytes > int64(len(body)) {
		return PageCount{}, false
	}
	begins := h.Count == 0 || beginsRow(body[:h.RepetitionBytes], int(described.MaxRepetitionLevel()))
	return PageCount{rows: h.Rows, begins: true}, begins
}

// beginsRow reports whether the first repetition level of a page starts a new row.
func beginsRow(repetition []byte, maxLevel int) bool {
	levels := rleDecoder{rest: repetition, width: bits.Len(uint(maxLevel))}
	var first [1]byte
	return levels.bytes(first[:]) == nil && first[0] == 0
}

// Before returns the last page that begins at or before a row.
func (s *PageStarts) Before(row int64) pageStart {
	found := s.at[0]
	for _, one := range s.at {
		if one.Rows > found.Rows && one.Rows <= row {
			found = one
		}
	}
	return found
}

// View returns the pages of a chunk that start with the page from, and end before the first page
// that begins at or after the row to.
func (s *PageStarts) View(chunk []byte, from pageStart, to int64) View {
	end := s.at[len(s.at)-1]
	for i := len(s.at) - 1; i >= 0 && s.at[i].Rows >= to; i-- {
		end = s.at[i]
	}
	return View{
		Dictionary: chunk[:s.dictionary], Body: chunk[from.offset:end.offset],
		Row: from.Rows, Rows: end.Rows - from.Rows, Values: end.values - from.values,
	}
}

// Stats sums up the page headers of the view. If verify is set, it also checks the checksums of the
// view's pages.
func (v *View) Stats(of *schema.Column, verify bool) (page.Stats, error) {
	c := page.Stats{}
	for _, part := range [][]byte{v.Dictionary, v.Body} {
		if err := c.Walk(part, of, verify, func(*page.Header) error { return nil }); err != nil {
			return c, err
		}
	}
	return c, nil
}

// CountPages decompresses the data pages of a leaf and counts the rows that begin in each.
func CountPages(from *page.Reader, of *schema.Column) (counts []PageCount, err error) {
	width := bits.Len(uint(of.MaxRepetitionLevel()))
	for {
		from.SkipDictionary()
		next, err := from.Next()
		if next == nil || err != nil {
			return counts, err
		}
		count, err := countRows(next, width)
		if err != nil {
			return nil, err
		}
		counts = append(counts, count)
	}
}

// countRows counts the rows that begin in a page. width is the bit width of the page's repetition
// levels.
func countRows(p *page.Page, width int) (PageCount, error) {
	out := PageCount{begins: p.Count == 0 || beginsRow(p.Repetition, 1<<width-1)}
	levels := rleDecoder{rest: p.Repetition, width: width}
	if width == 1 {
		continued, err := levels.skipDefined(p.Count)
		out.rows = int64(p.Count - continued)
		return out, err
	}
	var window [levelWindow]byte
	for left := p.Count; left > 0; left -= levelWindow {
		some := window[:min(left, levelWindow)]
		if err := levels.bytes(some); err != nil {
			return out, err
		}
		for _, level := range some {
			if level == 0 {
				out.rows++
			}
		}
	}
	return out, nil
}
