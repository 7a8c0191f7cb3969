package chunkcache_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/loader/scan/chunkcache"
)

// distinct is the number of values of a column of texts.
const distinct = 5

// textOf returns a row of a column of texts, "" for a null.
func textOf(i, row int) string {
	if row%11 == 3 {
		return ""
	}
	return fmt.Sprintf("value %d of column %d", row*7%distinct, i)
}

func textID(i int) chunkcache.ChunkID {
	id := column(i)
	id.Type = "utf8 or codes"
	return id
}

// textScan is a scan of rows of a column of texts. It has a decoder's dictionary, with its own memory.
type textScan struct {
	r          *rig
	i, at      int
	dictionary arrow.Array // nil: its arrays have values
	fill       *chunkcache.Fill
	copies     int
	copying    func() // is called before the dictionary is copied; nil: nothing is
}

func (r *rig) textScan(i, from, to int, coded bool) *textScan {
	s := &textScan{r: r, i: i, at: from}
	if coded {
		s.dictionary = r.textScanDictionary(i)
	}
	s.fill = r.Fill(chunkcache.Filling{Column: textID(i), Table: "t", Rows: rows, From: int64(from), To: int64(to), Repeated: true})
	return s
}

func (r *rig) textScanDictionary(i int) arrow.Array {
	b := array.NewStringBuilder(r.memory)
	defer b.Release()
	for code := range distinct {
		b.Append(fmt.Sprintf("value %d of column %d", code, i))
	}
	return b.NewArray()
}

// array returns the next rows as the scan decodes them.
func (s *textScan) array(n int) arrow.Array {
	if s.dictionary == nil {
		b := array.NewStringBuilder(s.r.memory)
		defer b.Release()
		for row := s.at; row < s.at+n; row++ {
			if text := textOf(s.i, row); text != "" {
				b.Append(text)
			} else {
				b.AppendNull()
			}
		}
		return b.NewArray()
	}
	b := array.NewInt32Builder(s.r.memory)
	defer b.Release()
	for row := s.at; row < s.at+n; row++ {
		if textOf(s.i, row) != "" {
			b.Append(int32(row * 7 % distinct))
		} else {
			b.AppendNull()
		}
	}
	codes := b.NewArray()
	defer codes.Release()
	data := batch.NewCoded(arrow.PrimitiveTypes.Int32, s.dictionary.Data(), codes.Data().Buffers(), n, codes.NullN())
	defer data.Release()
	return array.MakeFromData(data)
}

func (s *textScan) reserve(bytes int64) *budget.Reservation {
	held, err := s.r.budget.Reserve("a column", bytes)
	if err != nil {
		return nil
	}
	return held
}

// add adds the next rows, and returns the view that the cache gives, nil if it does not take them.
func (s *textScan) add(n int) arrow.Array {
	a := s.array(n)
	defer a.Release()
	s.at += n
	return s.fill.Add(chunkcache.Decoded{Array: a, Took: 1000, Charge: s.reserve, Copy: func(a arrow.Array) (arrow.Array, *budget.Reservation) {
		held := s.reserve(batch.ArraySize(a) + 1000)
		if held == nil {
			return nil, nil
		}
		if s.copies++; s.copying != nil {
			s.copying()
		}
		out, err := batch.Gather(a.DataType(), []batch.Segment{{Values: a, Rows: a.Len()}}, s.r.memory)
		require.NoError(s.r.t, err)
		held.Shrink(held.Held() - batch.ArraySize(out))
		return out, held
	}})
}

// end ends the scan, and so the memory of its decoder.
func (s *textScan) end(keep bool) {
	switch {
	case s.fill == nil:
	case keep:
		s.fill.Commit()
	default:
		s.fill.Abandon()
	}
	if s.dictionary != nil {
		s.dictionary.Release()
	}
}

// fillTexts fills the cache with rows of a column of texts, in arrays of a length, and returns how often the dictionary was copied.
func (r *rig) fillTexts(i, from, to, step int, coded bool) int {
	s := r.textScan(i, from, to, coded)
	for s.fill != nil && s.at < to {
		if view := s.add(min(step, to-s.at)); view != nil {
			requireTexts(r.t, view, i, s.at-view.Len())
			view.Release()
		}
	}
	s.end(true)
	return s.copies
}

func requireTexts(t *testing.T, a arrow.Array, i, from int) {
	t.Helper()
	values, err := batch.Gather(arrow.BinaryTypes.String, []batch.Segment{{Values: a, Rows: a.Len()}}, nil)
	if err != nil {
		t.Error(err)
		return
	}
	for j := range values.Len() {
		want := textOf(i, from+j)
		if got := values.(*array.String); got.IsNull(j) != (want == "") || got.IsValid(j) && got.Value(j) != want {
			t.Errorf("row %d of column %d is %s", from+j, i, values.ValueStr(j))
		}
	}
}

func (r *rig) findTexts(i, from, to int) *chunkcache.Pinned {
	of := arrow.BinaryTypes.String
	return r.Find(context.Background(), textID(i), chunkcache.Wanted{Types: []arrow.DataType{of, batch.Coded(of)}, Rows: rows, From: int64(from), To: int64(to)})
}

// formsRead counts the arrays that were read: all, those with codes, and the dictionaries of these.
type formsRead struct{ arrays, coded, dictionaries int }

// readTexts reads rows that were found, at most step at a time.
func (r *rig) readTexts(p *chunkcache.Pinned, i, from, to, step int) (out formsRead, err error) {
	seen := map[arrow.ArrayData]bool{}
	p.Skip(int64(from))
	for at := from; at < to; out.arrays++ {
		a, err := p.Read(min(max(p.Rows(), 1), int64(step), int64(to-at)), r.memory)
		if err != nil {
			return out, err
		}
		requireTexts(r.t, a, i, at)
		if batch.IsCoded(a) {
			out.coded++
			seen[a.Data().Dictionary()] = true
			out.dictionaries = len(seen)
		}
		at += a.Len()
		a.Release()
	}
	return out, nil
}

// TestCodesHaveOneDictionary: all parts of a column share it, whichever scan decoded them, and it is charged once.
//
// spec: cache-11
func TestCodesHaveOneDictionary(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, nil)
	require.Equal(t, 1, r.fillTexts(1, 0, 50, 10, true))
	require.Zero(t, r.fillTexts(1, 50, rows, 13, true), "the values are there")
	bytes := r.Stats().Bytes
	require.Equal(t, bytes, r.budget.Idle())
	require.Equal(t, bytes, r.budget.Used())
	for _, step := range []int{1, 7, 1000} {
		p := r.findTexts(1, 0, rows)
		read, err := r.readTexts(p, 1, 0, rows, step)
		require.NoError(t, err)
		require.Equal(t, formsRead{read.arrays, read.arrays, 1}, read, "the consumer merges one dictionary")
		p.Release()
	}
}

// TestCodesOutliveTheirUnit: a view keeps its codes and their dictionary, both charged, and nothing else.
//
// spec: cache-11
func TestCodesOutliveTheirUnit(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, nil)
	r.fillTexts(1, 0, rows, rows/4, true)
	all := r.budget.Used()
	p := r.findTexts(1, 0, rows)
	a, err := p.Read(5, memory.DefaultAllocator)
	require.NoError(t, err)
	inUse := r.budget.InUse()
	require.Positive(t, inUse)
	r.Drop("")
	require.Equal(t, inUse, r.budget.Used())
	require.Less(t, inUse, all)
	requireTexts(t, a, 1, 0)
	_, err = p.Read(1, memory.DefaultAllocator)
	require.ErrorIs(t, err, chunkcache.ErrGone)
	p.Release()
	requireTexts(t, a, 1, 0)
	require.Equal(t, inUse, r.budget.Used())
	a.Release()
	require.Zero(t, r.budget.Used())
}

// TestColumnsMayChangeTheirForm: some rows of a column are codes and others values. Such a column is not offered to the disk.
//
// spec: cache-12
func TestColumnsMayChangeTheirForm(t *testing.T) {
	t.Parallel()
	disk := &slow{puts: map[chunkcache.ChunkID]int{}}
	r := newRig(t, 100, func(o *chunkcache.Options) { o.Disk = disk })
	r.fillTexts(1, 0, 10, 10, true)
	r.fillTexts(1, 10, 20, 10, false)
	r.fillTexts(1, 20, rows, 10, true)
	p := r.findTexts(1, 0, rows)
	require.NotNil(t, p)
	require.EqualValues(t, 10, p.Rows(), "short arrays of different forms are not joined")
	read, err := r.readTexts(p, 1, 0, rows, rows)
	require.NoError(t, err)
	require.Equal(t, formsRead{3, 2, 1}, read)
	p.Release()
	require.Empty(t, disk.puts)
	require.EqualValues(t, 1, r.Stats().Mixed)
	r.fillTexts(2, 0, rows, 10, true)
	r.fillTexts(3, 0, rows, 10, false)
	require.Len(t, disk.puts, 2)
	require.EqualValues(t, 1, r.Stats().Mixed)
	require.EqualValues(t, 3, r.Stats().Filled)
}

// TestDictionariesThatDiffer: a scan that decoded other values for the same column, since what it read was damaged, does not add
// codes to those of another one.
//
// spec: cache-11
func TestDictionariesThatDiffer(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, nil)
	r.fillTexts(1, 0, 50, 10, true)
	s := r.textScan(1, 50, rows, true)
	s.dictionary.Release()
	b := array.NewStringBuilder(r.memory)
	b.AppendValues([]string{"a", "b", "c", "d", "e"}, nil)
	s.dictionary = b.NewArray()
	b.Release()
	require.Nil(t, s.add(10))
	require.Nil(t, s.add(10))
	s.end(true)
	require.Nil(t, r.findTexts(1, 0, 50), "which of both is right is not known")
	require.Zero(t, r.budget.Used())
	require.Equal(t, 1, r.fillTexts(1, 0, rows, 10, true))
	p := r.findTexts(1, 0, rows)
	_, err := r.readTexts(p, 1, 0, rows, 9)
	require.NoError(t, err)
	p.Release()
}

// TestDictionariesNeedRoom: without it, or without memory, the rows stay those of the scan.
//
// spec: cache-11
func TestDictionariesNeedRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0, func(o *chunkcache.Options) { o.Limit = 100 })
	require.Zero(t, r.fillTexts(1, 0, rows, rows, true), "nothing is copied")
	require.Zero(t, r.Stats().Bytes)
	require.Positive(t, r.Stats().Passed)
	r = newRig(t, 100, nil)
	others, err := r.budget.Reserve("others", r.budget.Limit()-100)
	require.NoError(t, err)
	s := r.textScan(1, 0, rows, true)
	require.Nil(t, s.add(rows))
	s.end(true)
	require.Zero(t, r.Stats().Bytes)
	others.Release()
	require.Equal(t, 1, r.fillTexts(1, 0, rows, rows, true))
}

// TestScansThatCopyADictionaryAtTheSameTime: the one that comes later uses the dictionary of the other one, if that is the same.
//
// spec: cache-11
func TestScansThatCopyADictionaryAtTheSameTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, 100, nil)
	s := r.textScan(1, 0, 50, true)
	s.copying = func() { require.Equal(t, 1, r.fillTexts(1, 50, rows, 20, true)) }
	view := s.add(50)
	requireTexts(t, view, 1, 0)
	view.Release()
	s.end(true)
	require.Equal(t, r.Stats().Bytes, r.budget.Used())
	p := r.findTexts(1, 0, rows)
	read, err := r.readTexts(p, 1, 0, rows, rows)
	require.NoError(t, err)
	require.Equal(t, 1, read.dictionaries)
	p.Release()

	s = r.textScan(2, 0, rows, true)
	s.copying = func() { r.Drop("") }
	require.Nil(t, s.add(50))
	require.Zero(t, r.budget.Used())
	s.end(true)

	r = newRig(t, 2, nil)
	s = r.textScan(1, 0, rows, true)
	s.copying = func() {
		require.True(t, r.fill(2, 1<<40, true))
		require.True(t, r.fill(3, 1<<40, true))
	}
	require.Nil(t, s.add(50), "its room is taken")
	require.LessOrEqual(t, r.Stats().Bytes, r.Stats().Limit)
	s.end(true)
}

// TestDictionariesDoNotGrow: the rows that are missing are not expected to have further ones.
//
// spec: cache-11
func TestDictionariesDoNotGrow(t *testing.T) {
	t.Parallel()
	var bytes int64
	for _, limit := range []int64{1 << 20, 0} {
		r := newRig(t, 0, func(o *chunkcache.Options) {
			if o.Limit = limit; limit == 0 {
				o.Limit = bytes * 5 / 4
			}
		})
		r.fillTexts(1, 0, rows, 16, true)
		require.EqualValues(t, 1, r.Stats().Filled)
		bytes = r.Stats().Bytes
	}
}

// textDisk is a Disk that keeps copies of what it got.
type textDisk struct {
	r      *rig
	stored map[chunkcache.ChunkID]arrow.Array
	split  bool // the arrays that it returns have a dictionary each
}

func (d *textDisk) Put(of chunkcache.ChunkID, values chunkcache.StoredColumn, done func()) {
	defer done()
	if !batch.IsCoded(values.Arrays[0]) {
		return
	}
	all, err := array.Concatenate(values.Arrays, memory.DefaultAllocator)
	require.NoError(d.r.t, err)
	defer all.Release()
	d.stored[of] = withCopy(d.r.t, all)
}

// withCopy returns an array of codes with a copy of its dictionary.
func withCopy(t *testing.T, a arrow.Array) arrow.Array {
	t.Helper()
	copied, err := array.Concatenate([]arrow.Array{a.(*array.Dictionary).Dictionary()}, memory.DefaultAllocator)
	require.NoError(t, err)
	return array.MakeFromData(batch.NewCoded(arrow.PrimitiveTypes.Int32, copied.Data(), a.Data().Buffers(), a.Len(), a.NullN()))
}

func (d *textDisk) Get(_ context.Context, of chunkcache.ChunkID, want chunkcache.Wanted) (*chunkcache.StoredColumn, bool) {
	from := d.stored[of]
	if from == nil {
		return nil, false
	}
	held, err := want.Reserve(8 * unit)
	if err != nil {
		return nil, false
	}
	half := int64(from.Len() / 2)
	arrays := []arrow.Array{array.NewSlice(from, 0, 0), array.NewSlice(from, 0, half), array.NewSlice(from, half, int64(from.Len()))}
	if d.split {
		other, err := array.Concatenate(arrays[2:], memory.DefaultAllocator)
		require.NoError(d.r.t, err)
		arrays[2] = withCopy(d.r.t, other)
	}
	return &chunkcache.StoredColumn{Arrays: arrays, Held: held, Cost: 70}, true
}

// TestCodesOnDisk: the disk gets codes with their dictionary, and returns them. Arrays with different dictionaries are not used.
//
// spec: cache-11
func TestCodesOnDisk(t *testing.T) {
	t.Parallel()
	disk := &textDisk{stored: map[chunkcache.ChunkID]arrow.Array{}}
	r := newRig(t, 100, func(o *chunkcache.Options) { o.Disk = disk })
	disk.r = r
	for i := range 2 {
		r.fillTexts(i, 0, 50, 20, true)
		r.fillTexts(i, 30, rows, 20, true)
		require.NotNil(t, disk.stored[textID(i)])
	}
	for _, room := range []bool{true, false} {
		r.Drop("")
		for i := 100; !room && r.Stats().Passed == 0; i++ {
			r.fill(i, 1<<30, true)
		}
		p := r.findTexts(1, 0, rows)
		require.NotNil(t, p)
		read, err := r.readTexts(p, 1, 0, rows, rows)
		require.NoError(t, err)
		require.Equal(t, formsRead{read.arrays, read.arrays, 1}, read)
		p.Release()
	}
	r.Drop("")
	disk.split = true
	require.Nil(t, r.findTexts(1, 0, rows))
	require.Zero(t, r.budget.Used())
}

// TestTextsUnderLoad fills, reads, drops and loses texts in parts, as codes and as values, in several goroutines, while others take
// the memory.
//
// spec: cache-1, cache-11, cache-12
func TestTextsUnderLoad(t *testing.T) {
	t.Parallel()
	draw := drawing(5, 6)
	r := newRig(t, 12, func(o *chunkcache.Options) {
		o.Budget = budget.New(20 * unit)
		o.Lose = func(chunkcache.ChunkID) bool { return draw(60) == 0 }
	})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 300 {
				i, from := draw(6), draw(rows)
				to := from + 1 + draw(rows-from)
				if p := r.findTexts(i, from, to); p != nil {
					_, _ = r.readTexts(p, i, from, to, 1+draw(60))
					p.Release()
				} else if s := r.textScan(i, from, to, draw(4) > 0); s.fill != nil {
					for s.at < to {
						if view := s.add(min(1+draw(70), to-s.at)); view != nil {
							requireTexts(t, view, i, s.at-view.Len())
							view.Release()
						}
					}
					s.end(draw(9) > 0)
				} else {
					s.end(false)
				}
				if err := r.Check(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Go(func() { r.disturb(draw, 40) })
	group.Wait()
	require.NoError(t, r.Check())
	require.Positive(t, r.Stats().Hits)
}
