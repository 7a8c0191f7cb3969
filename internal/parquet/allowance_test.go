package parquet

import (
	"errors"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
)

// TestKept follows what a decoder holds on to from one batch to the next.
func TestKept(t *testing.T) {
	t.Parallel()
	checked := memory.NewCheckedAllocator(memory.NewGoAllocator())
	defer checked.AssertSize(t, 0)
	held := int64(0)
	a := &account{admit: func(n, _ int64) error { held += n; return nil }}
	decoder := track(checked)
	begin := func(n int64) *allowance {
		m, err := a.begin(checked, n)
		require.NoError(t, err)
		decoder.begin(m)
		return m
	}

	first := begin(100)
	values := memory.NewResizableBuffer(decoder)
	values.Resize(64)
	levels := decoder.Allocate(30)
	gone := decoder.Allocate(6)
	require.Equal(t, int64(100), held)
	levels = decoder.Reallocate(40, levels)
	require.Equal(t, int64(140), held, "there were 30 and 40 bytes for a moment")
	decoder.Free(gone)
	out := array.NewData(arrow.PrimitiveTypes.Int8, 64, []*memory.Buffer{nil, values}, nil, 0, 0)
	values.Release()
	decoder.handOut(out)
	moved, kept := decoder.keep(first)
	require.Equal(t, []int64{40, 40}, []int64{moved, kept})
	used, admitted := first.close()
	require.Equal(t, []int64{104, 140}, []int64{used, admitted})

	second := begin(0)
	out.Release()
	require.Zero(t, second.used, "the batch before makes no room")
	levels = decoder.Reallocate(80, levels)
	moved, kept = decoder.keep(second)
	require.Equal(t, []int64{80, 80}, []int64{moved, kept}, "the 40 bytes are free")
	second.close()

	third := begin(0)
	late := memory.NewBufferWithAllocator(levels, decoder)
	out = array.NewData(arrow.PrimitiveTypes.Int8, 64, []*memory.Buffer{nil, late}, nil, 0, 0)
	late.Release()
	decoder.handOut(out)
	moved, kept = decoder.keep(third)
	require.Equal(t, []int64{0, 0}, []int64{moved, kept}, "what was kept is of the batch that it is handed out with")
	used, admitted = third.close()
	require.Equal(t, []int64{80, 0}, []int64{used, admitted})
	out.Release()
}

// TestRefusals leave the account as it was.
func TestRefusals(t *testing.T) {
	t.Parallel()
	full := errors.New("full")
	a := &account{admit: func(n, batch int64) error {
		require.Equal(t, int64(50), n, "what is missing alone")
		require.Equal(t, int64(150), batch)
		return full
	}}
	m := &allowance{under: memory.NewGoAllocator(), account: a, admitted: 100, whole: true}
	b := m.Allocate(90)
	allocate := func() (err error) {
		defer refused(&err)
		m.Allocate(60)
		return nil
	}
	require.ErrorIs(t, allocate(), full)
	require.ErrorIs(t, a.refusal(), full)
	require.Equal(t, int64(90), m.used)
	m.Free(b)
	require.Zero(t, m.used)
	require.Panics(t, func() {
		var err error
		defer refused(&err)
		panic("a fault of ours")
	}, "other panics are left alone")
}
