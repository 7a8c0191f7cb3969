package thrift

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// everyKind is a struct with a field of each kind, and the kinds in its order.
func everyKind() ([]byte, []byte) {
	var out, kinds []byte
	field := func(kind byte, value ...byte) {
		out = append(append(out, 1<<4|kind), value...)
		kinds = append(kinds, kind)
	}
	field(True)
	field(False)
	field(Byte, 0xff)
	field(I16, binary.AppendVarint(nil, -300)...)
	field(I32, binary.AppendVarint(nil, math.MinInt32)...)
	field(I64, binary.AppendVarint(nil, math.MaxInt64)...)
	field(Double, 1, 2, 3, 4, 5, 6, 7, 8)
	field(Binary, 3, 0, 0, 0)
	field(List, 2<<4|True, True, False)
	field(List, append([]byte{15<<4 | Byte, 16}, make([]byte, 16)...)...)
	field(Set, 1<<4|Binary, 1, 'x')
	field(Map, 0)
	field(Map, 2, Byte<<4|Struct, 7, 0, 8, 1<<4|True, 0)
	field(Struct, 1<<4|Struct, 0, 0)
	return append(out, 0), kinds
}

// TestEveryKindIsSkipped skips values of all kinds, alone and in a struct, to their last byte.
func TestEveryKindIsSkipped(t *testing.T) {
	t.Parallel()
	content, want := everyKind()
	r := Reader{Rest: append(bytes.Clone(content), "rest"...)}
	var kinds []byte
	require.NoError(t, r.Fields(func(id int64, kind byte) error {
		kinds = append(kinds, kind)
		require.Equal(t, int64(len(kinds)), id)
		return r.Skip(kind, MaxDepth)
	}))
	require.Equal(t, want, kinds)
	require.Equal(t, "rest", string(r.Rest))

	r = Reader{Rest: append(bytes.Clone(content), "rest"...)}
	require.NoError(t, r.Skip(Struct, MaxDepth))
	require.Equal(t, "rest", string(r.Rest))
	require.Equal(t, int64(5), r.Structs, "the outer one, two in the map, two in the last field")
}

// TestEveryCutIsAnError expects an error for each proper prefix of a struct.
func TestEveryCutIsAnError(t *testing.T) {
	t.Parallel()
	content, _ := everyKind()
	for length := range content {
		r := Reader{Rest: content[:length]}
		require.ErrorIs(t, r.Skip(Struct, MaxDepth), Err, "the first %d bytes", length)
	}
}

// TestClaimsAreChecked expects an error for values that claim more than follows, before anything is
// done for each element, and for kinds that do not exist.
func TestClaimsAreChecked(t *testing.T) {
	t.Parallel()
	huge := binary.AppendUvarint(nil, math.MaxUint64)
	for name, c := range map[string]struct {
		kind  byte
		value []byte
	}{
		"bytes":        {Binary, append(bytes.Clone(huge), "abc"...)},
		"a list":       {List, append(append([]byte{15<<4 | True}, huge...), "abc"...)},
		"a short list": {List, []byte{4<<4 | Byte, 1, 2, 3}},
		"a set":        {Set, append(append([]byte{15<<4 | Byte}, huge...), "abc"...)},
		"a map":        {Map, append(append(bytes.Clone(huge), Byte<<4|Byte), "abc"...)},
		"a short map":  {Map, []byte{2, Byte<<4 | Byte, 1, 2, 3}},
		"a number":     {I64, bytes.Repeat([]byte{0xff}, 11)},
		"no kind":      {0, []byte{0}},
		"another kind": {13, []byte{0}},
		"an element":   {List, []byte{1<<4 | 13, 0}},
	} {
		r := Reader{Rest: c.value}
		require.ErrorIs(t, r.Skip(c.kind, MaxDepth), Err, name)
	}
}

// TestDepthIsBounded skips structs, lists and maps that are nested as deeply as allowed, and no deeper.
func TestDepthIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind         byte
		open, closed []byte // of each level
	}{
		"structs": {Struct, []byte{1<<4 | Struct}, []byte{0}},
		"lists":   {List, []byte{1<<4 | List}, nil},
		"maps":    {Map, []byte{1, Byte<<4 | Map, 0}, nil},
	} {
		for _, deep := range []int{1, 3, MaxDepth} {
			content := append(bytes.Repeat(c.open, deep-1), 0)
			content = append(content, bytes.Repeat(c.closed, deep-1)...)
			r := Reader{Rest: content}
			require.NoError(t, r.Skip(c.kind, deep), "%s, %d", name, deep)
			require.Empty(t, r.Rest)
			r = Reader{Rest: content}
			require.ErrorIs(t, r.Skip(c.kind, deep-1), Err, "%s, %d", name, deep)
		}
	}
}

// TestFieldIDs reads ids that are stored as differences and as numbers.
func TestFieldIDs(t *testing.T) {
	t.Parallel()
	content := []byte{15<<4 | True}
	content = binary.AppendVarint(append(content, True), 1000)
	content = append(content, 2<<4|True)
	content = binary.AppendVarint(append(content, True), -7)
	r := Reader{Rest: append(content, 1<<4|True, 0)}
	var ids []int64
	require.NoError(t, r.Fields(func(id int64, _ byte) error { ids = append(ids, id); return nil }))
	require.Equal(t, []int64{15, 1000, 1002, -7, -6}, ids)
}

// TestNumbers reads the first fields of a struct if they are numbers of 32 bits.
func TestNumbers(t *testing.T) {
	t.Parallel()
	content := binary.AppendVarint([]byte{1<<4 | I32}, -5)
	content = append(content, 1<<4|Binary, 1, 'x')
	content = binary.AppendVarint(append(content, 1<<4|I32), 7)
	content = append(binary.AppendVarint(append(content, 1<<4|I32), 9), 0)
	a, b, c := int64(1), int64(2), int64(3)
	r := Reader{Rest: content}
	require.NoError(t, r.Numbers(&a, &b, &c))
	require.Equal(t, []int64{-5, 2, 7}, []int64{a, b, c}, "the second is no number, and the fourth is not wanted")
	for _, wide := range []int64{math.MaxInt32 + 1, math.MinInt32 - 1} {
		r = Reader{Rest: binary.AppendVarint(nil, wide)}
		require.ErrorIs(t, r.Number(&a), Err)
		require.Equal(t, int64(-5), a)
	}
}

// TestLists reads the elements of lists of the wanted kind.
func TestLists(t *testing.T) {
	t.Parallel()
	for _, kind := range []byte{True, False} { // writers use either for booleans
		r := Reader{Rest: []byte{2<<4 | kind, True, False}}
		var got []byte
		require.NoError(t, r.List(True, func() error {
			b, err := r.Byte()
			got = append(got, b)
			return err
		}))
		require.Equal(t, []byte{True, False}, got)
	}
	r := Reader{Rest: []byte{1<<4 | I32, 2}}
	require.ErrorIs(t, r.List(I64, func() error { return nil }), Err)
	r = Reader{Rest: append(binary.AppendUvarint([]byte{15<<4 | I64}, 1<<40), 2)}
	require.ErrorIs(t, r.List(I64, func() error { t.Fatal("an element is read"); return nil }), Err)
}
