package spool

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// nested has every layout of Arrow that a staging table can have.
func nested() *arrow.Schema {
	fields := []arrow.Field{}
	for i, t := range []arrow.DataType{
		arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Float64, arrow.BinaryTypes.String,
		arrow.BinaryTypes.LargeBinary, &arrow.Decimal128Type{Precision: 20, Scale: 2}, &arrow.FixedSizeBinaryType{ByteWidth: 5},
		arrow.FixedWidthTypes.Timestamp_us, arrow.ListOf(arrow.BinaryTypes.String), arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32),
		arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64),
		arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, arrow.Field{Name: "b", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32), Nullable: true}),
	} {
		fields = append(fields, arrow.Field{Name: fmt.Sprint("c", i), Type: t, Nullable: true})
	}
	return arrow.NewSchema(fields, nil)
}

// random returns rows of nested, cut out of more rows.
func random(seed uint64, rows int) arrow.RecordBatch {
	r := rand.New(rand.NewPCG(seed, 1))
	b := array.NewRecordBuilder(memory.DefaultAllocator, nested())
	defer b.Release()
	before := r.IntN(9)
	for range before + rows + r.IntN(9) {
		for _, f := range b.Fields() {
			fill(r, f)
		}
	}
	whole := b.NewRecordBatch()
	defer whole.Release()
	return whole.NewSlice(int64(before), int64(before+rows))
}

func fill(r *rand.Rand, b array.Builder) {
	if r.IntN(5) == 0 {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.MapBuilder:
		b.Append(true)
		for i := range r.IntN(3) {
			b.KeyBuilder().(*array.StringBuilder).Append(strconv.Itoa(i))
			fill(r, b.ItemBuilder())
		}
	case *array.ListBuilder:
		b.Append(true)
		for range r.IntN(4) {
			fill(r, b.ValueBuilder())
		}
	case *array.FixedSizeListBuilder:
		b.Append(true)
		for range 3 {
			fill(r, b.ValueBuilder())
		}
	case *array.StructBuilder:
		b.Append(true)
		for i := range b.NumField() {
			fill(r, b.FieldBuilder(i))
		}
	case *array.BooleanBuilder:
		b.Append(r.IntN(2) == 0)
	case *array.FixedSizeBinaryBuilder:
		b.Append([]byte(fmt.Sprintf("%05d", r.IntN(100_000))))
	case *array.BinaryBuilder:
		b.Append([]byte(strings.Repeat("x", r.IntN(40))))
	case *array.StringBuilder:
		b.Append(strings.Repeat("é", r.IntN(40)))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(r.Int64()))
	default:
		if err := b.AppendValueFromString(strconv.Itoa(r.IntN(1000))); err != nil {
			b.AppendNull()
		}
	}
}

func files(t *testing.T, place string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(place, "*"))
	require.NoError(t, err)
	return found
}

// TestReadBack reads what was written: any number of times, in any order, in several
// goroutines, under the schema it was written with; and the memory is the allocator's until it
// is released.
func TestReadBack(t *testing.T) {
	t.Parallel()
	mem := memory.NewCheckedAllocator(batch.Default())
	defer mem.AssertSize(t, 0)
	place := t.TempDir()
	s, err := Open(Options{Folder: place, Memory: mem})
	require.NoError(t, err)
	f, err := s.Create("rows")
	require.NoError(t, err)
	require.Empty(t, files(t, place), "a file has no name")

	const batches = 20
	want := make([]arrow.RecordBatch, batches)
	for i := range want {
		want[i] = random(uint64(i), i*7)
		number, err := f.Append(want[i])
		require.NoError(t, err)
		require.Equal(t, i, number)
	}
	require.Equal(t, batches, f.Len())
	other := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int8}}, nil)
	number, err := f.Append(array.NewRecordBatch(other, []arrow.Array{array.NewInt8Data(array.NewData(arrow.PrimitiveTypes.Int8, 2, []*memory.Buffer{nil, memory.NewBufferBytes([]byte{1, 2})}, nil, 0, 0))}, 2))
	require.NoError(t, err)

	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range batches {
				i = (i*7 + g) % batches
				got, err := f.Read(i)
				if err != nil || !array.RecordEqual(want[i], got) || got.Schema() != want[0].Schema() && !got.Schema().Equal(nested()) {
					t.Errorf("batch %d reads otherwise: %v", i, err)
				}
				if err == nil {
					got.Release()
				}
			}
		})
	}
	group.Wait()
	last, err := f.Read(number)
	require.NoError(t, err)
	require.Same(t, other, last.Schema())
	require.Equal(t, int64(mem.CurrentAlloc()), f.Size(number), "what to reserve before reading")

	require.Equal(t, Stats{Used: f.Bytes(), Peak: f.Bytes(), Written: f.Bytes(), Files: 1}, s.Stats())
	f.Retain()
	f.Release()
	require.Equal(t, 1, s.Stats().Files)
	written := f.Bytes()
	f.Release()
	require.Equal(t, Stats{Peak: written, Written: written}, s.Stats())
	require.Equal(t, "[1 2]", last.Column(0).String(), "a batch outlives its file")
	last.Release()
}

// TestNulls reads nulls, with an allocator whose memory is not cleared.
func TestNulls(t *testing.T) {
	t.Parallel()
	s, err := Open(Options{Folder: t.TempDir(), Memory: batch.Default()})
	require.NoError(t, err)
	f, err := s.Create("nulls")
	require.NoError(t, err)
	defer f.Release()
	b := array.NewRecordBuilder(memory.DefaultAllocator, nested())
	defer b.Release()
	for _, c := range b.Fields() {
		c.AppendNulls(3)
	}
	want := b.NewRecordBatch()
	defer want.Release()
	number, err := f.Append(want)
	require.NoError(t, err)
	got, err := f.Read(number)
	require.NoError(t, err)
	defer got.Release()
	for i, c := range got.Columns() {
		require.Equal(t, 3, c.NullN())
		require.True(t, c.IsNull(0) && c.IsNull(2), got.ColumnName(i))
	}
}

// TestLimit fails before anything is written, and lets on when room is made.
func TestLimit(t *testing.T) {
	t.Parallel()
	s, err := Open(Options{Folder: t.TempDir(), Limit: 40_000})
	require.NoError(t, err)
	one, err := s.Create("one")
	require.NoError(t, err)
	two, err := s.Create("two")
	require.NoError(t, err)
	defer two.Release()
	b := random(1, 100)
	for err == nil {
		_, err = one.Append(b)
	}
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	require.Contains(t, err.Error(), "one needs")
	require.Contains(t, err.Error(), s.Folder())
	require.NotEmpty(t, fault.As(err).Remedy)
	require.LessOrEqual(t, s.Stats().Peak, s.limit)
	_, err = two.Append(b)
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	one.Release()
	_, err = two.Append(b)
	require.NoError(t, err)
}

// TestBrokenDisk names the place, and never gives rows that were not written.
func TestBrokenDisk(t *testing.T) {
	t.Parallel()
	place := t.TempDir()
	s, err := Open(Options{Folder: place})
	require.NoError(t, err)
	f, err := s.Create("rows")
	require.NoError(t, err)
	defer f.Release()
	number, err := f.Append(random(3, 50))
	require.NoError(t, err)

	_, err = f.disk.WriteAt([]byte{0xff, 0xff, 0xff}, f.batches[number].at+f.batches[number].bytes-100)
	require.NoError(t, err)
	_, err = f.Read(number)
	require.Equal(t, fault.Corrupt, fault.KindOf(err))
	require.Contains(t, err.Error(), place)

	require.NoError(t, f.disk.Truncate(10))
	_, err = f.Read(number)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.Contains(t, err.Error(), place)

	require.NoError(t, f.disk.Close())
	_, err = f.Append(random(3, 50))
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.Contains(t, err.Error(), place)
}

// TestFolder: the folder is created in one that exists, and nothing else is.
func TestFolder(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	for _, place := range []string{filepath.Join(parent, "spool"), parent + "/slash/", filepath.Join(parent, "spool")} {
		s, err := Open(Options{Folder: place})
		require.NoError(t, err)
		require.NoError(t, s.Try())
		at, err := os.Stat(place)
		require.NoError(t, err)
		require.True(t, at.IsDir())
		require.Equal(t, fs.FileMode(0o700), at.Mode().Perm())
	}
	plain := filepath.Join(parent, "plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(parent, "dangling")))
	for place, why := range map[string]string{
		filepath.Join(parent, "typo", "spool"):     "neither does its parent folder",
		filepath.Join(parent, "typo", "a", "b"):    "neither does its parent folder",
		filepath.Join(parent, "dangling", "spool"): "neither does its parent folder",
		plain: "is not a folder",
	} {
		_, err := Open(Options{Folder: place})
		require.Equal(t, fault.Invalid, fault.KindOf(err), place)
		require.ErrorContains(t, err, place)
		require.ErrorContains(t, err, why)
		require.Contains(t, fault.As(err).Remedy, "the setting spool")
	}
	for _, place := range []string{filepath.Join(plain, "spool"), filepath.Join(parent, "dangling")} {
		_, err := Open(Options{Folder: place})
		require.Equal(t, fault.Unavailable, fault.KindOf(err), place)
		require.ErrorContains(t, err, place)
	}
	require.ElementsMatch(t, []string{
		filepath.Join(parent, "spool"), filepath.Join(parent, "slash"), plain, filepath.Join(parent, "dangling"),
	}, files(t, parent))
}

// TestNamedFiles is the way of systems that cannot unlink an open file: its
// owner removes it, and a folder is swept of what others left, not of what
// they use.
func TestNamedFiles(t *testing.T) {
	t.Parallel()
	place := t.TempDir()
	s, err := Open(Options{Folder: place})
	require.NoError(t, err)
	s.unlink = func(string) error { return errors.New("the file is open") }
	f, err := s.Create("rows")
	require.NoError(t, err)
	_, err = f.Append(random(1, 10))
	require.NoError(t, err)
	used := files(t, place)
	require.Len(t, used, 1)

	left := filepath.Join(place, "penstock-1.spool")
	require.NoError(t, os.WriteFile(left, []byte("of a killed process"), 0o600))
	strange := filepath.Join(place, "else")
	require.NoError(t, os.WriteFile(strange, []byte("not ours"), 0o600))
	_, err = Open(Options{Folder: place})
	require.NoError(t, err)
	require.ElementsMatch(t, append(used, strange), files(t, place))
	_, err = f.Append(random(1, 10))
	require.NoError(t, err)
	f.Release()
	require.Equal(t, []string{strange}, files(t, place))
}

// TestKill kills a process that spools, in the middle of it.
func TestKill(t *testing.T) {
	t.Parallel()
	const place = "PENSTOCK_SPOOL_TEST_PLACE"
	if folder := os.Getenv(place); folder != "" {
		spoolForever(folder)
	}
	folder := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKill$")
	child.Env = append(os.Environ(), place+"="+folder)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "spooling\n", line)
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	require.Empty(t, files(t, folder))
}

func spoolForever(folder string) {
	s, err := Open(Options{Folder: folder})
	if err != nil {
		os.Exit(1)
	}
	f, err := s.Create("rows")
	if err != nil {
		os.Exit(1)
	}
	b := random(1, 1000)
	for {
		if _, err := f.Append(b); err != nil {
			os.Exit(1)
		}
		if f.Len() == 3 {
			_, _ = os.Stdout.WriteString("spooling\n")
		}
		if s.Stats().Used > 1<<30 {
			select {}
		}
	}
}

// TestTry: a folder that serves is left as it was; one that does not is found
// out, and named with the setting.
func TestTry(t *testing.T) {
	t.Parallel()
	mem := memory.NewCheckedAllocator(batch.Default())
	defer mem.AssertSize(t, 0)
	place := t.TempDir()
	s, err := Open(Options{Folder: place, Memory: mem})
	require.NoError(t, err)
	require.NoError(t, s.Try())
	require.Empty(t, files(t, place))
	require.Zero(t, s.Stats().Used)
	require.Zero(t, s.Stats().Files)
	require.Positive(t, s.Stats().Written)

	require.NoError(t, os.RemoveAll(place))
	err = s.Try()
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "try the spool: create a file in "+place)
	require.Contains(t, fault.As(err).Remedy, "the setting spool")

	small, err := Open(Options{Folder: t.TempDir(), Limit: 1000, Memory: mem})
	require.NoError(t, err)
	err = small.Try()
	require.Equal(t, fault.Exhausted, fault.KindOf(err), "a limit below what one batch takes")
	require.Zero(t, small.Stats().Files)
}
