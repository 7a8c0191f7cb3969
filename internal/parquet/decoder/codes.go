package decoder

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/batch"
)

// Code makes the column return codes instead of values. It copies the dictionary's values into
// memory from allocate, since batches share these values and may outlive the column.
func (c *Text) Code(allocate func(size int) (*memory.Buffer, error)) error {
	if err := c.begin(); err != nil {
		return err
	}
	if c.dictionary == nil {
		return errDictionary
	}
	offsets, err := allocate((c.entries + 1) * arrow.Int32SizeBytes)
	if err != nil {
		return err
	}
	defer offsets.Release()
	values, err := allocate(len(c.dictionary) - 4*c.entries)
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

// readCodes is Read for a coded column.
func (c *Text) readCodes(rows int, mem memory.Allocator) (arrow.ArrayData, error) {
	codes, validity := memory.NewResizableBuffer(mem), memory.NewResizableBuffer(mem)
	defer batch.ReleaseAll(codes, validity)
	codes.Resize(rows * arrow.Int32SizeBytes)
	out := arrow.Uint32Traits.CastFromBytes(codes.Bytes())
	if c.optional {
		batch.ResizeBits(validity, rows)
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
