package charged

import (
	"errors"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
)

// TestBuffersKeptAcrossBatches follows buffers that the library holds beyond a batch.
func TestBuffersKeptAcrossBatches(t *testing.T) {
	t.Parallel()
	checked := memory.NewCheckedAllocator(batch.Default())
	defer checked.AssertSize(t, 0)
	held := int64(0)
	a := &Account{Admit: func(n, _ int64) error { held += n; return nil }}
	decoder := NewDecoderAllocator(checked)
	begin := func(n int64) *Allocator {
		m, err := a.NewBatch(checked, n)
		require.NoError(t, err)
		decoder.SetBatch(m)
		return m
	}

	first := begin(100)
	values := memory.NewResizableBuffer(decoder)
	values.Resize(64)
	levels := decoder.Allocate(30)
	gone := decoder.Allocate(6)
	require.Equal(t, int64(100), held)
	levels = decoder.Reallocate(40, levels)
	require.Equal(t, int64(140), held, "30 and 40 bytes exist together for a moment")
	decoder.Free(gone)
	out := array.NewData(arrow.PrimitiveTypes.Int8, 64, []*memory.Buffer{nil, values}, nil, 0, 0)
	values.Release()
	decoder.HandOut(out)
	moved, kept := decoder.Keep(first)
	require.Equal(t, []int64{40, 40}, []int64{moved, kept})
	used, admitted := first.Close()
	require.Equal(t, []int64{104, 140}, []int64{used, admitted})

	second := begin(0)
	out.Release()
	require.Zero(t, second.used, "freeing a batch makes no room in the next")
	levels = decoder.Reallocate(80, levels)
	moved, kept = decoder.Keep(second)
	require.Equal(t, []int64{80, 80}, []int64{moved, kept}, "the 40 bytes were freed")
	second.Close()

	third := begin(0)
	late := memory.NewBufferWithAllocator(levels, decoder)
	out = array.NewData(arrow.PrimitiveTypes.Int8, 64, []*memory.Buffer{nil, late}, nil, 0, 0)
	late.Release()
	decoder.HandOut(out)
	moved, kept = decoder.Keep(third)
	require.Equal(t, []int64{0, 0}, []int64{moved, kept}, "a kept buffer belongs to the batch that it is handed out with")
	used, admitted = third.Close()
	require.Equal(t, []int64{80, 0}, []int64{used, admitted})
	out.Release()
}

// TestRefusalKeepsCounts checks that a refusal leaves the counts as they were.
func TestRefusalKeepsCounts(t *testing.T) {
	t.Parallel()
	full := errors.New("full")
	a := &Account{Admit: func(n, batch int64) error {
		require.Equal(t, int64(50), n, "only the missing bytes")
		require.Equal(t, int64(150), batch)
		return full
	}}
	m := &Allocator{under: memory.DefaultAllocator, account: a, admitted: 100, ofBatch: true}
	b := m.Allocate(90)
	allocate := func() (err error) {
		defer Refused(&err)
		m.Allocate(60)
		return nil
	}
	require.ErrorIs(t, allocate(), full)
	require.ErrorIs(t, a.Refusal(), full)
	require.Equal(t, int64(90), m.used)
	m.Free(b)
	require.Zero(t, m.used)
	require.Panics(t, func() {
		var err error
		defer Refused(&err)
		panic("a fault of ours")
	}, "other panics are passed on")
}
