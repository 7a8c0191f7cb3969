package disk

import (
	"bytes"
	"encoding/binary"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
)

// memoryFile is a private file in memory.
type memoryFile struct{ content []byte }

func (f memoryFile) ReadAt(p []byte, at int64) (int, error) {
	return bytes.NewReader(f.content).ReadAt(p, at)
}
func (f memoryFile) WriteAt([]byte, int64) (int, error) { return 0, io.ErrShortWrite }
func (f memoryFile) Close() error                       { return nil }
func (f memoryFile) Stat() (fs.FileInfo, error)         { return f, nil }
func (f memoryFile) Name() string                       { return "file" }
func (f memoryFile) Size() int64                        { return int64(len(f.content)) }
func (f memoryFile) Mode() fs.FileMode                  { return 0o600 }
func (f memoryFile) ModTime() time.Time                 { return time.Time{} }
func (f memoryFile) IsDir() bool                        { return false }
func (f memoryFile) Sys() any                           { return ownStat() }

// fileOf returns the file that a tier writes for a chunk.
func fileOf(t testing.TB, id ColumnID, arrays ...arrow.Array) []byte {
	t.Helper()
	tier := &Tier{options: Options{Limit: 1 << 30}}
	w := &bodyWriter{scratch: make([]byte, scratchSize)}
	f, err := tier.encode(w, &Offer{ID: id, Arrays: arrays, Cost: 1, key: id.Key()})
	require.NoError(t, err)
	out := make([]byte, f.head.length)
	w.store = func(block []byte) error {
		out = append(out, block...)
		return nil
	}
	require.NoError(t, w.body(f.form, f.shape, &f.layout, arrays))
	copy(f.head.sums, w.sums)
	f.head.seal(f.begin)
	copy(out, f.begin)
	require.Len(t, out, int(f.size()))
	return out
}

// readFileOf makes a tier read the given content as the file of a chunk.
func (r *rig) readFileOf(id ColumnID, content []byte, like ...arrow.Array) (*Chunk, bool) {
	r.t.Helper()
	r.tier.sys.open = func(string) (diskFile, error) { return memoryFile{content}, nil }
	r.tier.mu.Lock()
	if r.tier.ledger.files[id.Key()] == nil {
		require.NoError(r.t, r.tier.listed.Grow(listedBytes))
		r.tier.ledger.used += footprint(int64(len(content)))
		r.tier.ledger.add(id.Key(), int64(len(content)), 1)
	}
	r.tier.mu.Unlock()
	return r.get(id, like...)
}

// mixedChunk has every kind of buffer.
func mixedChunk() []arrow.Array {
	of := arrow.StructOf(
		arrow.Field{Name: "a", Type: codes(), Nullable: true},
		arrow.Field{Name: "b", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
		arrow.Field{Name: "c", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
		arrow.Field{Name: "d", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64), Nullable: true},
		arrow.Field{Name: "e", Type: arrow.FixedSizeListOf(2, arrow.BinaryTypes.LargeBinary), Nullable: true},
		arrow.Field{Name: "f", Type: arrow.Null, Nullable: true},
	)
	s := newRandomArrays(5)
	return []arrow.Array{s.array(of, 40, true), s.array(of, 0, true), s.array(of, 9, true)}
}

// TestFlippedBitsAreNotServed: a file with any byte changed is refused.
//
// spec: disk-1
func TestFlippedBitsAreNotServed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	chunk := mixedChunk()
	intact := fileOf(t, numbered(1), chunk...)
	c, ok := r.readFileOf(numbered(1), intact, chunk...)
	require.True(t, ok, "%+v", r.tier.Stats())
	requireSame(t, chunk, c.Arrays)
	c.Release()
	for i := range intact {
		content := bytes.Clone(intact)
		content[i] ^= 1 << (i % 8)
		_, ok := r.readFileOf(numbered(1), content, chunk...)
		require.False(t, ok, "byte %d of %d", i, len(intact))
	}
	require.EqualValues(t, len(intact), r.tier.Stats().Reads.Damaged)
	require.Zero(t, r.tier.Stats().Folder.Bytes)
}

// TestShortFilesAreNotServed: a file that ends anywhere, whether its entry has the old length or the new one.
func TestShortFilesAreNotServed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	chunk := mixedChunk()
	intact := fileOf(t, numbered(1), chunk...)
	for n := range intact {
		_, ok := r.readFileOf(numbered(1), intact[:n], chunk...)
		require.False(t, ok, "%d bytes", n)
	}
	require.EqualValues(t, len(intact), r.tier.Stats().Reads.Damaged)
	r.tier.sys = realSystem()
	r.put(numbered(2), 1, chunk...)
	require.NoError(t, os.Truncate(r.tier.path(chunkName(numbered(2).Key(), 1)), 100))
	_, ok := r.get(numbered(2), chunk...)
	require.False(t, ok)
	require.EqualValues(t, len(intact)+1, r.tier.Stats().Reads.Damaged)
}

// TestOtherFilesAreNotServed: an intact file of another chunk, or of another version, under the name of this one.
func TestOtherFilesAreNotServed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	chunk := mixedChunk()
	_, ok := r.readFileOf(numbered(1), fileOf(t, numbered(2), chunk...), chunk...)
	require.False(t, ok)
	newer := fileOf(t, numbered(1), chunk...)
	newer[len(magic)]++
	key, end := numbered(1).Key(), binary.LittleEndian.Uint32(newer[len(magic)+4:])-sumBytes
	binary.LittleEndian.PutUint64(newer[end:], checksum(key, headSum, newer[:end]))
	_, ok = r.readFileOf(numbered(1), newer, chunk...)
	require.False(t, ok)
	require.EqualValues(t, 2, r.tier.Stats().Reads.Damaged)
}

// TestBlocksAreBoundToTheirPlace: two equal blocks of a file that are exchanged with those of another file.
func TestBlocksAreBoundToTheirPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	one, two := numbers(0, 100_000), numbers(7, 100_000)
	content, other := fileOf(t, numbered(1), one), fileOf(t, numbered(2), two)
	body := len(content) - padded800k
	copy(content[body:body+blockSize], other[body:body+blockSize])
	_, ok := r.readFileOf(numbered(1), content, one)
	require.False(t, ok, "a block of another file")
	content = fileOf(t, numbered(1), one)
	first := bytes.Clone(content[body : body+blockSize])
	copy(content[body:], content[body+blockSize:body+2*blockSize])
	copy(content[body+blockSize:], first)
	_, ok = r.readFileOf(numbered(1), content, one)
	require.False(t, ok, "two blocks of the file, exchanged")
	require.NotEqual(t, checksum(numbered(1).Key(), 0, first), checksum(numbered(1).Key(), 1, first))
	require.NotEqual(t, checksum(numbered(1).Key(), 0, first), checksum(numbered(2).Key(), 0, first))
}

// padded800k is the length of a body of 100,000 numbers.
const padded800k = 800_000

// forged decodes a file whose checksums a forger has corrected: only the checks of lengths and
// contents remain.
func forged(content []byte, key ChunkKey, types []arrow.DataType, mem memory.Allocator) (out []arrow.Array, err error) {
	length, err := headLength(content)
	if err != nil || length > int64(len(content)) {
		return nil, damaged("no head")
	}
	head := bytes.Clone(content[:length])
	end := len(head) - sumBytes
	binary.LittleEndian.PutUint64(head[end:], checksum(key, headSum, head[:end]))
	c, err := decodeHead(head, key, types)
	if err != nil {
		return nil, err
	}
	if c.length+c.body != int64(len(content)) || c.longest() > 1<<16 {
		return nil, damaged("it has another length, or takes long to read")
	}
	r := &bodyReader{chunk: c}
	defer r.release()
	at := c.length
	for i, e := range slices.Concat(c.layout.dictionaries, c.layout.arrays) {
		dictionaries, first := i < len(c.layout.dictionaries), len(out)
		if dictionaries {
			first = len(r.dictionaries)
		}
		var buffers []*memory.Buffer
		for _, size := range c.sizes(dictionaries, first, e) {
			buffer := memory.NewResizableBuffer(mem)
			buffer.Resize(int(size))
			defer buffer.Release()
			copy(buffer.Bytes(), content[at:])
			at += size
			buffers = append(buffers, buffer)
		}
		if dictionaries {
			err = r.nextDictionaries(buffers)
		} else {
			out, err = r.nextArrays(buffers, out)
		}
		if err != nil {
			releaseArrays(out)
			return nil, err
		}
	}
	return out, nil
}

// longest returns the length of the longest array, which takes no memory if it has no buffers.
func (c *readableChunk) longest() (length int64) {
	for _, arrays := range [][][]arrayNode{c.shape.dictionaries, c.shape.arrays} {
		for _, n := range slices.Concat(arrays...) {
			length = max(length, n.length)
		}
	}
	return length
}

// useAll reads every value of arrays, also behind nulls.
func useAll(arrays []arrow.Array) {
	for _, a := range arrays {
		_ = a.String()
		useIndices(a)
		a.Release()
	}
}

// useIndices reads the values of all indices, as code does that does not look at nulls first.
func useIndices(a arrow.Array) {
	switch a := a.(type) {
	case *array.Dictionary:
		for i := range a.Len() {
			if a.Dictionary().Len() > 0 {
				_ = a.Dictionary().ValueStr(a.GetValueIndex(i))
			}
		}
	case *array.Struct:
		for i := range a.NumField() {
			useIndices(a.Field(i))
		}
	case array.ListLike:
		useIndices(a.ListValues())
	}
}

// forgeable are chunks of all kinds of types, with their IDs.
func forgeable(t testing.TB) (files [][]byte, ids []ColumnID, types []arrow.DataType) {
	t.Helper()
	for i := range 60 {
		s := newRandomArrays(uint64(1000 + i))
		of := s.dataType(2)
		if i < len(leafTypes()) {
			of = leafTypes()[i]
		}
		chunk := s.chunk(of)
		if i == 0 {
			chunk = mixedChunk()
			of = chunk[0].DataType()
		}
		files, ids, types = append(files, fileOf(t, numbered(i), chunk...)), append(ids, numbered(i)), append(types, of)
	}
	return files, ids, types
}

// TestForgedFilesDoNotPanic: files with random changes and corrected checksums are refused, or make
// arrays whose values can all be read.
func TestForgedFilesDoNotPanic(t *testing.T) {
	t.Parallel()
	files, ids, types := forgeable(t)
	random, checked := rand.New(rand.NewPCG(3, 3)), memory.NewCheckedAllocator(batch.Default())
	const forgeries = 4_000
	served := 0
	for range forgeries {
		n := random.IntN(len(files))
		content := bytes.Clone(files[n])
		for range 1 + random.IntN(3) {
			at := random.IntN(len(content))
			if random.IntN(2) == 0 { // the lengths and checksums, which few random bytes hit
				at = random.IntN(min(len(content), 400))
			}
			content[at] = byte(random.IntN(256) & random.IntN(256))
		}
		arrays, err := forged(content, ids[n].Key(), types, checked)
		if err == nil {
			served++
			useAll(arrays)
		}
	}
	require.Positive(t, served)
	require.Less(t, served, forgeries)
	checked.AssertSize(t, 0)
}

// FuzzForgedFiles is TestForgedFilesDoNotPanic for any content.
func FuzzForgedFiles(f *testing.F) {
	files, ids, types := forgeable(f)
	for i, content := range files {
		f.Add(i, content)
	}
	f.Fuzz(func(_ *testing.T, n int, content []byte) {
		arrays, err := forged(content, ids[uint(n)%uint(len(ids))].Key(), types, memory.DefaultAllocator)
		if err == nil {
			useAll(arrays)
		}
	})
}

// TestImpossibleContentsAreRefused: each check of the content of a buffer.
func TestImpossibleContentsAreRefused(t *testing.T) {
	t.Parallel()
	texts := array.NewStringBuilder(memory.DefaultAllocator)
	texts.AppendValues([]string{"ab", "c", "def"}, []bool{true, false, true})
	words := array.NewStringBuilder(memory.DefaultAllocator)
	words.AppendValues([]string{"x", "y"}, nil)
	indices := array.NewInt32Builder(memory.DefaultAllocator)
	indices.AppendValues([]int32{0, 1, 0}, []bool{true, false, true})
	items := array.NewListBuilder(memory.DefaultAllocator, arrow.PrimitiveTypes.Int64)
	items.Append(true)
	items.Append(true)
	text, coded, list := texts.NewArray(), array.NewDictionaryArray(codes(), indices.NewArray(), words.NewArray()), items.NewArray()
	for name, c := range map[string]struct {
		chunk  arrow.Array
		at     int // in the last extent
		value  int32
		served bool
	}{
		"unchanged":               {text, 64, 0, true},
		"first offset not 0":      {text, 64, 1, false},
		"offsets decrease":        {text, 64 + 8, 7, false},
		"a negative offset":       {text, 64 + 4, -1, false},
		"last offset beyond":      {text, 64 + 12, 99, false},
		"last offset before":      {text, 64 + 12, 3, false},
		"other number of nulls":   {text, 0, 7, false},
		"an index beyond":         {coded, 64, 2, false},
		"a negative index":        {coded, 64, -1, false},
		"an index beyond, null":   {coded, 64 + 4, 2, true},
		"a list that has no item": {list, 8, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			content := fileOf(t, numbered(1), c.chunk)
			begin, err := headLength(content)
			require.NoError(t, err)
			if c.chunk == coded {
				begin += 128 // the dictionary
			}
			binary.LittleEndian.PutUint32(content[begin+int64(c.at):], uint32(c.value))
			arrays, err := forged(content, numbered(1).Key(), []arrow.DataType{c.chunk.DataType()}, memory.DefaultAllocator)
			require.Equal(t, c.served, err == nil, "%v", err)
			if c.served {
				requireSame(t, []arrow.Array{c.chunk}, arrays)
			}
			useAll(arrays)
		})
	}
}
