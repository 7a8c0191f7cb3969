package chunk

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/penstock/penstock/internal/fault"
)

// checksumBytes is the maximum size of the checksum's field in a page header.
const checksumBytes = 1 + binary.MaxVarintLen32

// Checked are the pages of a chunk with a checksum in each page header.
type Checked struct {
	Pages, OffsetIndex []byte
	FirstDataPage      int64 // offset of the first page that is not the dictionary
}

// AddChecksums adds checksums to the pages of a chunk. at is the offset of the pages in the file
// that the offset index describes. The page headers must have no checksums, and the structure that
// the library writes: type, sizes, and then the fields of one type of page.
func AddChecksums(pages []byte, at int64, index []byte) (Checked, error) {
	x, err := readOffsets(index)
	if err != nil {
		return Checked{}, err
	}
	own := make([][]byte, len(x.pages))
	for i, p := range x.pages {
		own[i] = pages[p.at-at:][:p.size]
	}
	return x.check(pages[:x.pages[0].at-at], own, at)
}

// ReplacePages is like AddChecksums, but for other pages than those that the offset index
// describes: the same number of pages with the same rows. at is the offset that the first page gets
// in the new index. dictionary is empty if there is no dictionary page.
func ReplacePages(dictionary []byte, pages [][]byte, at int64, index []byte) (Checked, error) {
	x, err := readOffsets(index)
	if err != nil {
		return Checked{}, err
	}
	if len(x.pages) != len(pages) {
		return Checked{}, fault.New(fault.Internal, "an offset index has %d pages, not the %d that were written", len(x.pages), len(pages))
	}
	return x.check(dictionary, pages, at)
}

// check adds checksums to pages, and sets the places in the index to those of the new pages.
func (x *offsetIndex) check(dictionary []byte, pages [][]byte, at int64) (Checked, error) {
	size := len(dictionary) + checksumBytes
	for _, p := range pages {
		size += len(p) + checksumBytes
	}
	checked := make([]byte, 0, size)
	var err error
	if len(dictionary) > 0 {
		if checked, err = appendChecked(checked, dictionary); err != nil {
			return Checked{}, err
		}
	}
	for i, p := range pages {
		start := int64(len(checked))
		if checked, err = appendChecked(checked, p); err != nil {
			return Checked{}, err
		}
		x.pages[i].at, x.pages[i].size = at+start, int64(len(checked))-start
	}
	return Checked{Pages: checked, OffsetIndex: x.append(nil), FirstDataPage: x.pages[0].at}, nil
}

// appendChecked appends a page with a checksum.
func appendChecked(out, page []byte) ([]byte, error) {
	r := offsetReader{rest: page}
	stored := int64(0)
	for range 3 { // type, uncompressed and compressed size
		if r.byte() != 1<<4|thriftI32 {
			r.broken = true
		}
		stored = r.number()
	}
	before := len(page) - len(r.rest)
	next := r.byte()
	if r.broken || stored < 0 || stored > int64(len(r.rest)) || next&0xf != thriftStruct || next>>4 < 2 {
		return nil, fault.New(fault.Internal, "a page header has another form than expected")
	}
	sum := crc32.ChecksumIEEE(page[int64(len(page))-stored:])
	out = append(append(out, page[:before]...), 1<<4|thriftI32)
	out = binary.AppendVarint(out, int64(int32(sum)))
	out = append(out, next-1<<4)
	return append(out, page[before+1:]...), nil
}
