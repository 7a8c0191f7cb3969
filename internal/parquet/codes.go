package parquet

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/release"
)

// DefaultMinRepeats is the default of ReadOptions.MinRepeats: with fewer rows per value, the
// dictionary takes nearly as much memory as the rows, and merging it with others as much time as
// copying them.
const DefaultMinRepeats = 8

// mayCode reports whether a column of the open row group is decoded as codes, given its pages:
// all of them have indices, and values repeat.
func (r *Reader) mayCode(c column, pages *pageStats) bool {
	return c.coded && !pages.hasValues && pages.dictionary.values > 0 && pages.dictionary.values*int64(r.opts.MinRepeats) <= r.group.left
}

// checked returns coded data, which needs no conversion, as an array.
func (conv *conversion) checked(coded arrow.ArrayData) (arrow.Array, error) {
	if conv.required && nullCount(coded) > 0 {
		return nil, fmt.Errorf("required column %s has nulls", conv.path)
	}
	return array.MakeFromData(coded), nil
}

// code makes the column return codes instead of values.
func (c *byteArrayColumn) code(r *Reader) error {
	if err := c.begin(); err != nil {
		return err
	}
	if c.dictionary == nil {
		return errDictionary
	}
	offsets, err := r.newDetached((c.entries + 1) * arrow.Int32SizeBytes)
	if err != nil {
		return err
	}
	defer offsets.Release()
	values, err := r.newDetached(len(c.dictionary) - 4*c.entries)
	if err != nil {
		return err
	}
	defer values.Release()
	ends, rest, end := arrow.Int32Traits.CastFromBytes(offsets.Bytes()), values.Bytes(), 0
	ends[0] = 0
	for i, v := range c.views {
		start, length := unpackView(v)
		rest = rest[copy(rest, c.dictionary[start:start+length]):]
		end += length
		ends[i+1] = int32(end)
	}
	c.coded = array.NewData(c.kind, c.entries, []*memory.Buffer{nil, offsets, values}, nil, 0, 0)
	return nil
}

// newDetached allocates memory that has an account of its own: batches that share it have not
// reserved it, and may outlive the row group.
func (r *Reader) newDetached(size int) (*memory.Buffer, error) {
	if err := r.account.reserve(int64(size), 0); err != nil {
		return nil, err
	}
	out := memory.NewResizableBuffer(&detachedAllocator{Allocator: r.opts.Memory, reserved: r.account.detach(int64(size))})
	out.Resize(size)
	return out, nil
}

// detachedAllocator allocates one buffer, and returns its reserved bytes when that is freed.
type detachedAllocator struct {
	memory.Allocator
	reserved *release.Handle
}

// Free frees the buffer.
func (d *detachedAllocator) Free(b []byte) {
	d.Allocator.Free(b)
	d.reserved.Release()
}

// readCodes is read for a coded column.
func (c *byteArrayColumn) readCodes(rows int, mem memory.Allocator) (arrow.ArrayData, error) {
	codes, validity := memory.NewResizableBuffer(mem), memory.NewResizableBuffer(mem)
	defer releaseAll(codes, validity)
	codes.Resize(rows * arrow.Int32SizeBytes)
	out := arrow.Uint32Traits.CastFromBytes(codes.Bytes())
	if c.optional {
		resizeBits(validity, rows)
	}
	nulls := 0
	at, err := pageByPage(rows, &c.left, c.nextPage, func(at, n int) error {
		present := n
		if c.optional {
			var err error
			if present, err = c.levels.defined(validity.Bytes(), at, n); err != nil {
				return err
			}
		}
		nulls += n - present
		if !c.indexed {
			return errValuesMissing
		}
		if err := c.indices.numbers(out[at:at+present], c.entries); err != nil {
			return err
		}
		if present < n {
			spread(out[at:at+n], validity.Bytes(), at, present)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	buffers := []*memory.Buffer{nil, codes}
	if nulls > 0 {
		buffers[0] = validity
	}
	return batch.NewCoded(arrow.PrimitiveTypes.Int32, c.coded, buffers, at, nulls), nil
}
