package digest_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/digest"
	"github.com/penstock/penstock/internal/digest/digesttest"
)

type inner struct {
	Name string
	at   [2]int32
}

type everything struct {
	Flag    bool
	Small   int8
	Large   uint64
	Share   float64
	Text    string
	List    []inner
	ByName  map[string]int
	Pointer *inner
	Any     any
	hidden  []string
}

func full() everything {
	return everything{
		Flag: true, Small: -3, Large: math.MaxUint64, Share: 0.25, Text: "a\x00\xff",
		List:   []inner{{"x", [2]int32{1, 2}}, {"y", [2]int32{3, 4}}},
		ByName: map[string]int{"a": 1, "b": 2}, Pointer: &inner{"z", [2]int32{5, 6}}, Any: int64(7), hidden: []string{"h"},
	}
}

func TestEveryFieldCounts(t *testing.T) {
	t.Parallel()
	digesttest.EveryFieldCounts(t, full())
}

// TestDigestsAreStable: cursors that outlive the process contain digests.
func TestDigestsAreStable(t *testing.T) {
	t.Parallel()
	for range 20 { // in any order of map iteration
		require.Equal(t, "a050f9c0d66c9ff41757064a275635fda4b4ef97d45d8bcf97a24de3cb48ee6d", digest.Of(full()))
	}
}

// TestDifferentContentsHaveDifferentDigests tries values whose parts would be
// equal if they were concatenated.
func TestDifferentContentsHaveDifferentDigests(t *testing.T) {
	t.Parallel()
	seen := map[string]any{}
	for _, v := range []any{
		[]string{"ab", ""},
		[]string{"a", "b"},
		[]string{"", "ab"},
		[]string{"ab"},
		[]string{"a\x01b"},
		[][]string{{"ab"}, {}},
		[][]string{{}, {"ab"}},
		[]any{int32(1)},
		[]any{int64(1)},
		[]any{nil},
		[]any{""},
		[]any{[]any{}},
		[]*string{nil},
		[]*string{new("")},
		map[string]string{"a": "b", "c": "d"},
		map[string]string{"a": "d", "c": "b"},
		[]float64{0},
		[]float64{math.Copysign(0, -1)},
		[]string{"\xff"},
		[]string{"\xfe"},
		[]string{"\ufffd"},
	} {
		name := digest.Of([]any{v})
		require.Len(t, name, 64)
		require.NotContains(t, seen, name, "%v", v)
		seen[name] = v
	}
}

func TestEmptyAndNilHaveOneDigest(t *testing.T) {
	t.Parallel()
	require.Equal(t, digest.Of([]string(nil)), digest.Of([]string{}))
	require.Equal(t, digest.Of(map[string]int(nil)), digest.Of(map[string]int{}))
}

type ring struct{ next *ring }

func TestUnsupportedValuesPanic(t *testing.T) {
	t.Parallel()
	self := &ring{}
	self.next = self
	for _, v := range []any{func() {}, make(chan int), struct{ f func() }{func() {}}, self} {
		require.Panics(t, func() { digest.Of(v) }, "%T", v)
	}
}
