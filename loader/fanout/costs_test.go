package fanout_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/scenario"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// scanned returns the number of scans since the last call.
func (k *kit) scanned() int {
	all := 0
	for _, n := range k.scans() {
		all += n
	}
	return all
}

// withWire returns a query with a form of its batches.
func withWire(w dataset.Wire, q dataset.Query) dataset.Query {
	q.Wire = w
	return q
}

// atRandomPace has two streams read in turns of random lengths. Neither is ahead by more than a number
// of rows.
func atRandomPace(t *testing.T, all [2]loader.Stream, sizes [2]int, rows, ahead int) [2][]string {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	var got [2][]string
	var done [2]int
	for done[0] < rows || done[1] < rows {
		i := random.IntN(2)
		if done[i] >= rows || done[i]-done[1-i] >= ahead {
			i = 1 - i
		}
		got[i] = append(got[i], next(t, all[i]))
		done[i] += sizes[i]
	}
	return got
}

// TestStreamsThatComeDisagree has two streams come to a group whose columns of one name differ, and wait. The
// group reads more for one of them, once.
func TestStreamsThatComeDisagree(t *testing.T) {
	t.Parallel()
	k := newKit(t, 4000, plenty, same)
	narrow := queryOf(8, "v")
	want := k.alone(t, narrow)
	first := k.open(t.Context(), t, narrow)
	defer first.Release()
	var got []string
	for range 10 {
		got = append(got, next(t, first))
	}
	for _, column := range []string{"id", "item"} {
		q := queryOf(8, "v")
		q.Columns = append(q.Columns, dataset.Column{Column: column, Name: "x"})
		s := k.open(t.Context(), t, q)
		defer s.Release()
		next(t, s)
	}
	more, err := rest(first)
	require.NoError(t, err)
	require.Equal(t, want, append(got, more...))
	require.Equal(t, int64(1), k.sharer.Stats().Widened)
}

// TestStreamThatStopsComing checks that a group keeps no window for a stream that is too far behind to come.
func TestStreamThatStopsComing(t *testing.T) {
	t.Parallel()
	k := newKit(t, 4000, 8000, same)
	first, second := k.open(t.Context(), t, queryOf(8, "v")), k.open(t.Context(), t, queryOf(8))
	defer first.Release()
	defer second.Release()
	for range 10 {
		next(t, first)
	}
	next(t, second)
	for range 200 {
		next(t, first)
	}
	require.Less(t, k.sharer.Stats().WindowBytes, int64(1000))
}

// TestSizesWithManyMarks has streams read whose sizes divide the largest one, but that would need too many marks
// together, or too many slices. Those that came first continue to share.
func TestSizesWithManyMarks(t *testing.T) {
	t.Parallel()
	for name, sizes := range map[string][]int{"marks": {240, 15, 16}, "slices": {256, 16, 1}} {
		k := newKit(t, 12_000, plenty, same)
		var want, got [][]string
		var all []loader.Stream
		for _, n := range sizes {
			want, got = append(want, k.alone(t, queryOf(n))), append(got, nil)
			all = append(all, k.open(t.Context(), t, queryOf(n)))
		}
		rows := sizes[0] * 20
		for end := sizes[0]; end <= rows; end += sizes[0] {
			for i, s := range all {
				for len(got[i])*sizes[i] < end {
					got[i] = append(got[i], next(t, s))
				}
			}
		}
		for i, s := range all {
			require.Equal(t, want[i][:len(got[i])], got[i], name)
			s.Release()
		}
		require.GreaterOrEqual(t, k.sharer.Stats().Views, int64(rows/sizes[1]*3/4), name)
	}
}

// TestStreamJoinsInTheFormThatIsRead has a stream look for a group while the group reads a column, in another
// form, for the first time.
func TestStreamJoinsInTheFormThatIsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, 2000, plenty, func(k *kit) { k.id = func(row int) int { return row * 7 % 50 } })
		plain := withWire(dataset.WireAuto, queryOf(2, "item", "v"))
		want := k.alone(t, plain)
		first := k.open(t.Context(), t, withWire(dataset.WireAuto, queryOf(2, "item")))
		defer first.Release()
		second := k.open(t.Context(), t, withWire(dataset.WireAuto, queryOf(32, "item", "v")))
		defer second.Release()
		third := k.open(t.Context(), t, plain)
		defer third.Release()
		for _, s := range []loader.Stream{first, second, third} {
			require.NoError(t, s.Begin())
		}
		require.NotEqual(t, second.Schema().String(), third.Schema().String())
		reading, proceed := make(chan struct{}), make(chan struct{})
		begun := sync.OnceFunc(func() { close(reading) })
		k.set(func(context.Context, string) error {
			begun()
			<-proceed
			return nil
		})
		var group sync.WaitGroup
		group.Go(func() { second.Next() })
		<-reading
		group.Go(func() { third.Next() })
		synctest.Wait()
		close(proceed)
		group.Wait()
		require.NoError(t, second.Err())
		require.NoError(t, third.Err())
		require.Equal(t, want[0], given(third))
	})
}

// TestFormsAreDecidedAtOnce has equal streams begin at once whose form depends on their first batch. It is
// for the race detector.
func TestFormsAreDecidedAtOnce(t *testing.T) {
	t.Parallel()
	for range 10 {
		k := newKit(t, 400, plenty, same)
		q := withWire(dataset.WireAuto, queryOf(8))
		want := k.alone(t, q)
		got := make([][]string, 6)
		var group sync.WaitGroup
		for i := range got {
			s := k.open(t.Context(), t, q)
			group.Go(func() {
				defer s.Release()
				if s.Begin() == nil {
					got[i], _ = rest(s)
				}
			})
		}
		group.Wait()
		for i := range got {
			require.Equal(t, want, got[i])
		}
	}
}

// TestStreamsWithoutWindowJoinSeldom has streams read at about the same pace that always lose what they shared,
// since windows are empty.
func TestStreamsWithoutWindowJoinSeldom(t *testing.T) {
	t.Parallel()
	for _, sizes := range [][2]int{{16, 16}, {16, 8}} {
		k := newKit(t, 8000, 0, same)
		var want [2][]string
		var all [2]loader.Stream
		for i, n := range sizes {
			want[i] = k.alone(t, queryOf(n))
			all[i] = k.open(t.Context(), t, queryOf(n))
		}
		require.Equal(t, want, atRandomPace(t, all, sizes, 8000, 16))
		for _, s := range all {
			s.Release()
		}
		require.Less(t, k.scanned(), 300, "%v", sizes) // 64 if they never join, 1,300 if they always do
	}
}

// TestStreamsThatFailTogetherStayApart has two streams read whose batches are too large together, which only
// their rows tell.
func TestStreamsThatFailTogetherStayApart(t *testing.T) {
	t.Parallel()
	k := newKit(t, 16, plenty, same)
	text := make([]string, 4000)
	for i := range text {
		text[i] = fmt.Sprintf("%d %s %[2]s", i, strings.Repeat("x", 100))
	}
	k.replace(t, "id:long a:string b:string", text, 2900)
	var want [2][]string
	var all [2]loader.Stream
	for i, column := range []string{"a", "b"} {
		want[i] = k.alone(t, queryOf(16, column))
		all[i] = k.open(t.Context(), t, queryOf(16, column))
	}
	require.Equal(t, want, atRandomPace(t, all, [2]int{16, 16}, 4000, 16))
	for _, s := range all {
		s.Release()
	}
	require.Less(t, k.scanned(), 150) // 32 if they never join, 960 if they always do
}

// replace makes the kit read a table of its own, with a limit on batches.
func (k *kit) replace(t *testing.T, header string, text []string, maxBatchBytes int64) {
	t.Helper()
	fields, err := scenario.Fields(header)
	require.NoError(t, err)
	spec, err := scenario.Spec("bucket(16,id)", fields)
	require.NoError(t, err)
	table, err := k.NewTable("ml.other", fields, spec)
	require.NoError(t, err)
	rows, err := scenario.Rows(fields, text)
	require.NoError(t, err)
	defer rows.Release()
	require.NoError(t, k.Append(table, 0, rows, 0))
	d := dataset.Dataset{Name: "d", Key: []string{"id"}, Training: dataset.Training{Table: "ml.other"}}
	k.loader = k.sharer.Over(loader.New(loader.Options{
		Datasets: []dataset.Dataset{d.Defaults()}, Catalog: k.World, Scan: k.scan, Budget: k.budget, MaxBatchBytes: maxBatchBytes,
	}))
}

// silentCatalog is a catalog that does not answer while it is silent.
type silentCatalog struct {
	catalog.Catalog
	silent atomic.Bool
}

func (c *silentCatalog) At(ctx context.Context, name string, pin dataset.TablePin) (*catalog.Table, error) {
	if c.silent.Load() {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return c.Catalog.At(ctx, name, pin)
}

// TestStreamDoesNotWaitForCatalog checks that streams which are planned continue when the catalog does not answer
// while it is planned what they need together.
func TestStreamDoesNotWaitForCatalog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, 400, plenty, same)
		c := &silentCatalog{Catalog: k.World}
		k.loader = k.sharer.Over(loader.New(loader.Options{Datasets: []dataset.Dataset{k.dataset()}, Catalog: c, Scan: k.scan, Budget: k.budget}))
		want := [][]string{k.alone(t, queryOf(8, "v")), k.alone(t, queryOf(8))}
		all := []loader.Stream{k.open(t.Context(), t, queryOf(8, "v")), k.open(t.Context(), t, queryOf(8))}
		c.silent.Store(true)
		begun := time.Now()
		require.Equal(t, want, readTogether(t, all))
		require.Equal(t, time.Second, time.Since(begun), "the clock of the bubble moves for the catalog alone")
	})
}

// TestViewWaitsForMemory has a stream take a view while another one has all memory: it waits for the memory
// that a part of an indexed batch needs.
func TestViewWaitsForMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t, 4000, plenty, func(k *kit) { k.id = func(row int) int { return row * 7 % 50 } })
		large, small := withWire(dataset.WireIndexed, queryOf(256)), withWire(dataset.WireIndexed, queryOf(64))
		want := k.alone(t, small)
		first, second := k.open(t.Context(), t, large), k.open(t.Context(), t, small)
		defer first.Release()
		defer second.Release()
		next(t, first)
		require.Equal(t, want[0], next(t, second))
		for _, s := range []loader.Stream{first, second} { // clients have the batches
			kept := s.RecordBatch()
			kept.Retain()
			defer kept.Release()
		}
		var mu sync.Mutex
		var others []*budget.Reservation
		take := func(int64) { // another stream takes all memory, and what caches release
			mu.Lock()
			defer mu.Unlock()
			if r, err := k.budget.Reserve("another stream", max(0, plenty-k.budget.Used())); err == nil {
				others = append(others, r)
			}
		}
		synctest.Wait() // what is read ahead has its memory
		take(0)
		k.budget.OnPressure(take)
		begun := time.Now()
		time.AfterFunc(100*time.Millisecond, func() {
			mu.Lock()
			defer mu.Unlock()
			for _, r := range others {
				r.Release()
			}
		})
		require.Positive(t, k.sharer.Stats().WindowBytes)
		require.Equal(t, want[1], next(t, second))
		require.EqualValues(t, 2, k.sharer.Stats().Views)
		require.Equal(t, 100*time.Millisecond, time.Since(begun), "it waits until the memory is released")
	})
}

// TestReaderIsReplacedSeldom has short streams with changing columns join a stream at each of its steps.
func TestReaderIsReplacedSeldom(t *testing.T) {
	t.Parallel()
	k := newKit(t, 2000, plenty, same)
	q := queryOf(8, "v")
	want := k.alone(t, q)
	first := k.open(t.Context(), t, q)
	defer first.Release()
	var got []string
	for first.Next() {
		got = append(got, given(first))
		short := queryOf(8, []string{"id", "item"}[len(got)%2])
		short.Cursor = dataset.Cursors{first.Cursor()}
		s := k.open(t.Context(), t, short)
		s.Next()
		s.Release()
	}
	require.NoError(t, first.Err())
	require.Equal(t, want, got)
	require.Less(t, k.sharer.Stats().Widened, int64(50))
}
