package budget_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/fault"
)

func TestReserve(t *testing.T) {
	t.Parallel()
	b := budget.New(100)
	r, err := b.Reserve("rows", 60)
	require.NoError(t, err)
	_, err = b.Reserve("index", 50)
	require.Equal(t, fault.Exhausted, fault.KindOf(err))
	require.ErrorContains(t, err, "index needs 50 bytes more, 60 of the memory budget's 100 are in use")
	require.NotEmpty(t, fault.As(err).Remedy)
	require.NoError(t, r.Grow(40))
	require.Error(t, r.Grow(1))
	require.Equal(t, int64(100), r.Held())
	r.Shrink(30)
	require.Equal(t, int64(70), b.Used())
	r.Release()
	r.Release()
	require.Zero(t, b.Used())
	require.Equal(t, int64(100), b.Peak(), "a refused reservation is no peak")
}

func TestNilIsUnlimited(t *testing.T) {
	t.Parallel()
	var b *budget.Budget
	r, err := b.Reserve("rows", 1<<60)
	require.NoError(t, err)
	require.Equal(t, int64(1)<<60, r.Held())
	require.Equal(t, int64(-1), b.Limit())
	require.Zero(t, b.Used()+b.Peak())
	r.Release()
}

func TestConcurrentHoldersNeverPassTheLimit(t *testing.T) {
	t.Parallel()
	b := budget.New(1000)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 1000 {
				if r, err := b.Reserve("rows", 300); err == nil {
					r.Release()
				}
			}
		})
	}
	group.Wait()
	require.Zero(t, b.Used())
	require.LessOrEqual(t, b.Peak(), int64(1000))
	require.GreaterOrEqual(t, b.Peak(), int64(300), "something was reserved")
}

func TestPressure(t *testing.T) {
	t.Parallel()
	b := budget.New(100)
	idle, err := b.Reserve("what can go", 80)
	require.NoError(t, err)
	var asked []int64
	b.OnPressure(func(bytes int64) {
		asked = append(asked, bytes)
		idle.Release()
	})
	r, err := b.Reserve("what is needed", 20)
	require.NoError(t, err)
	require.Empty(t, asked, "there was room")
	require.NoError(t, r.Grow(30))
	require.Equal(t, []int64{30}, asked)
	require.Equal(t, int64(50), b.Used())
	require.Error(t, r.Grow(60))
	require.Equal(t, []int64{30, 10}, asked)
	require.Equal(t, int64(50), b.Used())
	require.Equal(t, int64(100), b.Peak())
	(*budget.Budget)(nil).OnPressure(nil)
	require.True(t, b.Pressed(), "room was lacking")
	require.False(t, b.Pressed(), "and not since")
	require.False(t, (*budget.Budget)(nil).Pressed())
}

// TestLeave: who leaves some of the budget free fails where others do not, and asks
// for what it may have.
func TestLeave(t *testing.T) {
	b := budget.New(100)
	idle, err := b.Reserve("what can go", 40)
	require.NoError(t, err)
	var asked []int64
	b.OnPressure(func(bytes int64) { asked = append(asked, bytes) })
	modest, err := b.Reserve("rows", 0)
	require.NoError(t, err)
	modest.KeepFree(20)
	require.NoError(t, modest.Grow(40))
	require.Equal(t, fault.Exhausted, fault.KindOf(modest.Grow(5)))
	require.Equal(t, []int64{5}, asked)
	other, err := b.Reserve("a batch", 20)
	require.NoError(t, err)
	for _, r := range []*budget.Reservation{idle, modest, other} {
		r.Release()
	}
	require.Zero(t, b.Used())
}

// TestSplit: what was parted from a reservation outlives it.
func TestSplit(t *testing.T) {
	b := budget.New(100)
	r, err := b.Reserve("the test", 60)
	require.NoError(t, err)
	part := r.Split(25)
	require.Equal(t, int64(35), r.Held())
	require.Equal(t, int64(60), b.Used())
	r.Release()
	require.Equal(t, int64(25), b.Used())
	part.Release()
	require.Zero(t, b.Used())
}
