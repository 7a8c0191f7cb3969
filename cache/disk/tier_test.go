package disk

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/digest/digesttest"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/store"
)

// rig is a tier over a folder of a test, with everything that it charges.
type rig struct {
	t       *testing.T
	options Options
	tier    *Tier
	budget  *budget.Budget
	checked *memory.CheckedAllocator
}

// newRig opens a tier. change may change the options.
func newRig(t *testing.T, change func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, budget: budget.New(1 << 30), checked: memory.NewCheckedAllocator(batch.NewPoison(&batch.Pool{}))}
	r.options = Options{
		Folder: filepath.Join(t.TempDir(), "cache"), Limit: 1 << 30, Budget: r.budget, Memory: r.checked,
		Calls: store.NewCalls(store.Options{Timeout: time.Minute}), Clock: time.Now,
	}
	if change != nil {
		change(&r.options)
	}
	r.open()
	t.Cleanup(func() {
		r.tier.Close(t.Context())
		r.checked.AssertSize(t, 0)
		require.Zero(t, r.budget.Used())
	})
	return r
}

func (r *rig) open() {
	r.t.Helper()
	var err error
	r.tier, err = Open(context.Background(), r.options)
	require.NoError(r.t, err)
}

// restart closes the tier, after it has written what is queued, and opens it again.
func (r *rig) restart() {
	r.t.Helper()
	r.tier.Close(context.Background())
	require.Zero(r.t, r.budget.Used())
	r.open()
}

// put writes a chunk and waits until it is written or dropped.
func (r *rig) put(id ColumnID, cost uint32, arrays ...arrow.Array) {
	r.t.Helper()
	done := make(chan struct{})
	r.tier.Put(Offer{ID: id, Arrays: arrays, Cost: cost, Done: func() { close(done) }})
	<-done
}

// get reads a chunk as it was put; ok is false if the tier does not have it.
func (r *rig) get(id ColumnID, like ...arrow.Array) (*Chunk, bool) {
	r.t.Helper()
	rows := int64(0)
	for _, a := range like {
		rows += int64(a.Len())
	}
	return r.tier.Get(r.t.Context(), id, WantedChunk{
		Types: []arrow.DataType{arrow.Null, like[0].DataType()}, Rows: rows,
		Reserve: func(n int64) (*budget.Reservation, error) { return r.budget.Reserve("a chunk", n) },
	})
}

// requireGet reads a chunk and compares it.
func (r *rig) requireGet(id ColumnID, like ...arrow.Array) {
	r.t.Helper()
	c, ok := r.get(id, like...)
	require.True(r.t, ok, "%+v", r.tier.Stats())
	defer c.Release()
	requireSame(r.t, like, c.Arrays)
	require.Positive(r.t, c.Held.Held())
	require.GreaterOrEqual(r.t, c.Held.Held(), batch.ArraySize(c.Arrays...), "memory that is held is charged")
}

// requireSame compares the values of arrays.
func requireSame(t *testing.T, want, got []arrow.Array) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.True(t, arrow.TypeEqual(want[i].DataType(), got[i].DataType()))
		require.Truef(t, array.Equal(want[i], got[i]), "want %s\ngot %s", want[i], got[i])
		if want[i].Len() < 1_000 {
			require.Equal(t, want[i].String(), got[i].String())
		}
		require.Equal(t, want[i].NullN(), got[i].NullN())
		requireAligned(t, got[i].Data())
	}
}

func requireAligned(t *testing.T, d arrow.ArrayData) {
	t.Helper()
	for _, b := range d.Buffers() {
		if b != nil && b.Len() > 0 {
			require.Zero(t, uintptr(unsafe.Pointer(unsafe.SliceData(b.Bytes())))%64)
		}
	}
	for _, c := range d.Children() {
		requireAligned(t, c)
	}
}

func numbered(n int) ColumnID {
	return ColumnID{Table: "4a0e2c57-7a4d-4c4e-9f6b-6f3b6d3c1d10", File: fmt.Sprint("data/part-", n, ".parquet"), FileSize: 1 << 20, RowGroup: n % 3, Field: 7, Type: "int64"}
}

// numbers returns an array of n numbers from a first one on.
func numbers(first, n int) arrow.Array {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	for i := range n {
		b.Append(int64(first + i))
	}
	return b.NewArray()
}

func TestKeysDependOnAllFields(t *testing.T) {
	t.Parallel()
	digesttest.EveryFieldCounts(t, numbered(1))
	require.NotEqual(t, numbered(1).Key(), numbered(2).Key())
	key, cost, ok := parseName(chunkName(numbered(1).Key(), 77))
	require.True(t, ok)
	require.Equal(t, numbered(1).Key(), key)
	require.EqualValues(t, 77, cost)
}

// TestChunksAreReadAsTheyWerePut tries random types and arrays, before and after a restart.
func TestChunksAreReadAsTheyWerePut(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	const cases = 120
	chunks := make([][]arrow.Array, cases)
	for i := range chunks {
		s := newRandomArrays(uint64(i))
		chunks[i] = s.chunk(s.dataType(3))
		r.put(numbered(i), uint32(i), chunks[i]...)
	}
	for range 2 {
		for i, want := range chunks {
			r.requireGet(numbered(i), want...)
		}
		r.restart()
	}
	require.Zero(t, r.tier.Stats().Writes.Unstored)
	require.Equal(t, cases, r.tier.Stats().Folder.Chunks)
}

// TestLargeChunksHaveManyExtents: values beyond a block and an extent, whose lengths divide neither.
func TestLargeChunksHaveManyExtents(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	var chunk []arrow.Array
	for i := range 70 {
		chunk = append(chunk, numbers(i, 5_000+i))
	}
	chunk = append(chunk, array.NewSlice(numbers(0, 400_000), 3, 400_000))
	r.put(numbered(1), 1, chunk...)
	r.requireGet(numbered(1), chunk...)
	c, _ := r.get(numbered(1), chunk...)
	kept := c.Arrays[0]
	kept.Retain()
	c.Release()
	require.Equal(t, padded(5_000*8), batch.ArraySize(kept), "an array keeps its own memory alone")
	kept.Release()
}

// TestSharedDictionariesAreStoredOnce: however many arrays share them, and they are shared when read.
func TestSharedDictionariesAreStoredOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	words := newRandomArrays(1).array(arrow.BinaryTypes.String, 5_000, false)
	var chunk []arrow.Array
	for range 50 {
		indices := array.NewInt32Builder(memory.DefaultAllocator)
		indices.AppendValues([]int32{0, 4_999, 7}, nil)
		chunk = append(chunk, array.NewDictionaryArray(codes(), indices.NewArray(), words))
	}
	r.put(numbered(1), 1, chunk...)
	r.requireGet(numbered(1), chunk...)
	require.Less(t, r.tier.Stats().Writes.Bytes, 2*batch.ArraySize(words))
	c, _ := r.get(numbered(1), chunk...)
	defer c.Release()
	first, last := c.Arrays[0].Data().Dictionary(), c.Arrays[49].Data().Dictionary()
	require.Same(t, first.(*array.Data), last.(*array.Data))
}

// TestOtherReadersGetNothing: a chunk of another type or length than the reader's table has.
func TestOtherReadersGetNothing(t *testing.T) {
	t.Parallel()
	for name, like := range map[string]arrow.Array{
		"another type": newRandomArrays(1).array(arrow.PrimitiveTypes.Float64, 100, false),
		"fewer rows":   numbers(0, 99),
		"more rows":    numbers(0, 101),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.put(numbered(1), 1, numbers(0, 100))
			_, ok := r.get(numbered(1), like)
			require.False(t, ok)
			require.EqualValues(t, 1, r.tier.Stats().Reads.Damaged)
			require.Zero(t, r.tier.Stats().Folder.Bytes, "it is deleted, so that it can be written again")
		})
	}
}

func TestUnsupportedTypesAreNotStored(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	b := array.NewStringViewBuilder(memory.DefaultAllocator)
	b.Append("a")
	r.put(numbered(1), 1, b.NewArray())
	r.put(numbered(2), 1)
	r.put(numbered(3), 1, numbers(0, 1), newRandomArrays(1).array(arrow.PrimitiveTypes.Float64, 1, false))
	require.EqualValues(t, 3, r.tier.Stats().Writes.Unstored)
	require.Zero(t, r.tier.Stats().Folder.Bytes)
}

// TestMemoryIsReservedFirst: a reservation that is refused reads nothing, and leaves the chunk.
//
// spec: disk-6
func TestMemoryIsReservedFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.put(numbered(1), 1, numbers(0, 100_000))
	_, ok := r.tier.Get(t.Context(), numbered(1), WantedChunk{
		Types: []arrow.DataType{arrow.PrimitiveTypes.Int64}, Rows: 100_000,
		Reserve: func(n int64) (*budget.Reservation, error) {
			require.GreaterOrEqual(t, n, int64(800_000))
			return budget.New(n-1).Reserve("a chunk", n)
		},
	})
	require.False(t, ok)
	require.EqualValues(t, 1, r.tier.Stats().Reads.NoMemory)
	r.requireGet(numbered(1), numbers(0, 100_000))
}

func TestCanceledReadersGetNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.put(numbered(1), 1, numbers(0, 10))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, ok := r.tier.Get(ctx, numbered(1), WantedChunk{
		Types: []arrow.DataType{arrow.PrimitiveTypes.Int64}, Rows: 10,
		Reserve: func(n int64) (*budget.Reservation, error) { return r.budget.Reserve("a chunk", n) },
	})
	require.False(t, ok)
	require.EqualValues(t, 1, r.tier.Stats().Reads.Canceled)
	r.requireGet(numbered(1), numbers(0, 10))
}

// TestPresentChunksAreNotWrittenAgain: nor ones that are queued.
func TestPresentChunksAreNotWrittenAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for range 3 {
		r.put(numbered(1), 1, numbers(0, 10))
	}
	require.True(t, r.tier.Has(numbered(1)))
	require.False(t, r.tier.Has(numbered(2)))
	require.EqualValues(t, 1, r.tier.Stats().Writes.Chunks)
	require.EqualValues(t, 2, r.tier.Stats().Writes.Present)
}

// TestFilesAreOfThisUserAlone: modes of files, and folders that are refused.
//
// spec: disk-4
func TestFilesAreOfThisUserAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.put(numbered(1), 1, numbers(0, 10))
	found, err := os.Lstat(r.options.Folder)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), found.Mode().Perm())
	entries, err := os.ReadDir(r.options.Folder)
	require.NoError(t, err)
	require.Len(t, entries, 2, "a chunk and the lock")
	for _, e := range entries {
		file, err := e.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), file.Mode())
	}
	dir := t.TempDir()
	for name, make := range map[string]func(path string) error{
		"open to others":  func(path string) error { return os.Mkdir(path, 0o750) },
		"a link":          func(path string) error { return os.Symlink(r.options.Folder, path) },
		"a file":          func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"without parent":  func(string) error { return nil },
		"of another user": func(path string) error { return anotherUsersFolder(t, path) },
	} {
		path := filepath.Join(dir, name)
		if name == "without parent" {
			path = filepath.Join(path, "below")
		}
		require.NoError(t, make(path))
		_, err := Open(t.Context(), Options{Folder: path, Limit: 1 << 20})
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%s: %v", name, err)
		require.ErrorContains(t, err, "cache_dir")
	}
	_, err = Open(t.Context(), Options{Folder: "relative", Limit: 1 << 20})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

// anotherUsersFolder makes a folder of another user where the test may, and one that is open to
// others elsewhere.
func anotherUsersFolder(t *testing.T, path string) error {
	t.Helper()
	if os.Geteuid() != 0 {
		return os.Mkdir(path, 0o755)
	}
	require.NoError(t, os.Mkdir(path, 0o700))
	return os.Chown(path, 4242, 4242)
}

// TestAFolderHasOneTier: a second one fails as Conflict, and gets the folder after the first is closed.
func TestAFolderHasOneTier(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	_, err := Open(t.Context(), r.options)
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	require.ErrorContains(t, err, "is in use by another process")
	r.restart()
}

// TestClosedTiersDoNothing: calls after Close.
func TestClosedTiersDoNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.put(numbered(1), 1, numbers(0, 10))
	closed := r.tier
	r.restart()
	r.tier, closed = closed, r.tier
	_, ok := r.get(numbered(1), numbers(0, 10))
	require.False(t, ok)
	r.put(numbered(2), 1, numbers(0, 10))
	require.EqualValues(t, 1, r.tier.Stats().Writes.Dropped)
	r.tier.DropQueued()
	r.tier = closed
}

// TestFilesMayBeReadAndRemovedByOthers: the heads of files can be read while a tier uses the folder, and chunks whose
// files were removed are written again.
func TestFilesMayBeReadAndRemovedByOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for i := range 3 {
		r.put(numbered(i), uint32(10+i), numbers(0, 100))
	}
	many := make([]arrow.Array, 4_000)
	for i := range many {
		many[i] = numbers(i, 1)
	}
	r.put(numbered(3), 13, many...)
	require.NoError(t, os.WriteFile(filepath.Join(r.options.Folder, chunkName(numbered(4).Key(), 1)), []byte("PENSCOL"), 0o600))
	all, err := list(r.options.Folder)
	require.NoError(t, err)
	require.Len(t, all, 5)
	found := map[ColumnID]listedChunk{}
	for _, c := range all {
		found[c.ID] = c
	}
	two := found[numbered(2)]
	require.WithinDuration(t, time.Now(), two.Written, time.Hour)
	two.Written = time.Time{}
	require.Equal(t, listedChunk{
		Key: numbered(2).Key(), ID: numbered(2), Type: typeText(arrow.PrimitiveTypes.Int64), Rows: 100, Bytes: 2 * diskBlock, Cost: 12,
	}, two)
	require.EqualValues(t, 4_000, found[numbered(3)].Rows, "a head that is longer than the first read")
	require.Equal(t, numbered(4).Key(), found[ColumnID{}].Key, "a damaged file is listed by its key")
	chunks, bytes, err := removeChunks(r.options.Folder, func(c listedChunk) bool { return c.Cost <= 11 })
	require.NoError(t, err)
	require.Equal(t, 3, chunks)
	require.EqualValues(t, 3*2*diskBlock, bytes)
	_, ok := r.get(numbered(0), numbers(0, 100))
	require.False(t, ok)
	require.Zero(t, r.tier.Stats().Reads.Damaged)
	r.requireGet(numbered(2), numbers(0, 100))
	r.put(numbered(0), 1, numbers(0, 100))
	r.requireGet(numbered(0), numbers(0, 100))
}

// TestDropAll: nothing stays on disk, and chunks can be written again.
func TestDropAll(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for i := range 3 {
		r.put(numbered(i), 1, numbers(0, 100))
	}
	used := r.tier.Stats().Folder.Bytes
	chunks, bytes := r.tier.DropAll(t.Context())
	require.Equal(t, 3, chunks)
	require.Equal(t, used, bytes)
	require.Zero(t, r.tier.Stats().Folder.Bytes)
	entries, err := os.ReadDir(r.options.Folder)
	require.NoError(t, err)
	require.Len(t, entries, 1, "the lock")
	r.put(numbered(0), 1, numbers(0, 100))
	r.requireGet(numbered(0), numbers(0, 100))
}

// removeChunks removes the files of the chunks for which match returns true, as another process may, and
// returns their number and bytes.
func removeChunks(folder string, match func(listedChunk) bool) (chunks int, bytes int64, err error) {
	all, err := list(folder)
	if err != nil {
		return 0, 0, err
	}
	for _, c := range all {
		if !match(c) {
			continue
		}
		if err := os.Remove(filepath.Join(folder, chunkName(c.Key, c.Cost))); err != nil {
			return chunks, bytes, err
		}
		chunks++
		bytes += c.Bytes
	}
	return chunks, bytes, nil
}
