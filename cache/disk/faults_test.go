package disk

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/budget"
	"github.com/penstock/penstock/internal/store"
)

// TestFailedWritesLeaveNothing: whatever call of a write fails, no file and no byte stay, one line is
// logged, nothing is written for a while, and then chunks are written again.
func TestFailedWritesLeaveNothing(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"create", "write", "close after create", "rename"} {
		for _, failure := range []error{syscall.ENOSPC, syscall.EIO} {
			t.Run(fmt.Sprint(call, " ", failure), func(t *testing.T) {
				system, lines, now := newFaultySystem(), &logLines{}, time.Now()
				r := newRig(t, func(o *Options) {
					o.system, o.Log, o.Clock = system.system(), slog.New(lines), func() time.Time { return now }
				})
				r.put(numbered(0), 1, numbers(0, 10))
				before := r.tier.Stats().Folder
				system.failing(call, &os.PathError{Op: call, Path: "x", Err: failure})
				for i := range 3 {
					r.put(numbered(1+i), 1, numbers(0, 100_000))
				}
				stats := r.tier.Stats()
				require.Equal(t, before, stats.Folder)
				require.EqualValues(t, 1, stats.Writes.Failed)
				require.EqualValues(t, 2, stats.Writes.Dropped, "nothing is tried for a while")
				require.EqualValues(t, 1, lines.n.Load())
				entries, err := os.ReadDir(r.options.Folder)
				require.NoError(t, err)
				require.Len(t, entries, 2, "the first chunk and the lock")
				now = now.Add(retryAfter)
				r.put(numbered(1), 1, numbers(0, 100_000))
				require.EqualValues(t, 2, r.tier.Stats().Writes.Failed)
				require.EqualValues(t, 1, lines.n.Load(), "it is logged once")
				system.failing(call, nil)
				now = now.Add(retryAfter)
				r.put(numbered(1), 1, numbers(0, 100_000))
				r.requireGet(numbered(1), numbers(0, 100_000))
				r.requireGet(numbered(0), numbers(0, 10))
			})
		}
	}
}

// TestFilesThatCannotBeDeletedStayCounted: the limit holds even then.
func TestFilesThatCannotBeDeletedStayCounted(t *testing.T) {
	t.Parallel()
	system := newFaultySystem()
	r := newRig(t, func(o *Options) { o.system, o.Limit, o.Clock = system.system(), 300<<10, nil })
	r.put(numbered(0), 1, numbers(0, 20_000))
	used := r.tier.Stats().Folder.Bytes
	system.failing("remove", syscall.EIO)
	r.put(numbered(1), 1, numbers(0, 20_000))
	require.Equal(t, used, r.tier.Stats().Folder.Bytes)
	require.False(t, r.tier.Has(numbered(0)))
	require.False(t, r.tier.Has(numbered(1)))
	require.LessOrEqual(t, folderBytes(t, r.options.Folder), int64(300<<10))
	system.failing("remove", nil)
	r.restart()
	require.True(t, r.tier.Has(numbered(0)), "the next process finds it")
}

// TestFailedReadsAreMisses: the file is deleted, and written again.
//
// spec: disk-1
func TestFailedReadsAreMisses(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"open", "read"} {
		t.Run(call, func(t *testing.T) {
			system, lines := newFaultySystem(), &logLines{}
			r := newRig(t, func(o *Options) { o.system, o.Log = system.system(), slog.New(lines) })
			for i := range 2 {
				r.put(numbered(i), 1, numbers(0, 100_000))
			}
			system.failing(call, syscall.EIO)
			for i := range 2 {
				_, ok := r.get(numbered(i), numbers(0, 100_000))
				require.False(t, ok)
			}
			require.EqualValues(t, 2, r.tier.Stats().Reads.Failed)
			require.EqualValues(t, 1, lines.n.Load())
			require.Zero(t, r.tier.Stats().Folder.Bytes)
			system.failing(call, nil)
			r.put(numbered(0), 1, numbers(0, 100_000))
			r.requireGet(numbered(0), numbers(0, 100_000))
		})
	}
}

// TestReadsThatHangAreAbandoned: the caller continues at the time limit, the memory stays charged until the
// call returns, and meanwhile the disk is not used.
//
// spec: disk-5
func TestReadsThatHangAreAbandoned(t *testing.T) {
	for _, call := range []string{"open", "read", "close after open"} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				system := newFaultySystem()
				r := newRig(t, func(o *Options) { o.system = system.system() })
				for i := range 2 {
					r.put(numbered(i), 1, numbers(0, 200_000))
				}
				release, began := system.hanging(call), time.Now()
				idle := r.budget.Used()
				c, ok := r.get(numbered(0), numbers(0, 200_000))
				require.Equal(t, call == "close after open", ok)
				require.Equal(t, time.Minute, time.Since(began))
				if ok {
					c.Release()
				} else {
					require.GreaterOrEqual(t, r.budget.Used()-idle, int64(1_600_000), "the call may still use its memory")
				}
				opened := system.calledTimes("open")
				_, ok = r.get(numbered(1), numbers(0, 200_000))
				require.False(t, ok)
				require.Equal(t, time.Minute, time.Since(began), "the disk is not used")
				require.Equal(t, opened, system.calledTimes("open"))
				r.put(numbered(2), 1, numbers(0, 10))
				require.EqualValues(t, 1, r.tier.Stats().Writes.Dropped)
				release()
				synctest.Wait()
				require.Equal(t, idle, r.budget.Used())
				r.requireGet(numbered(0), numbers(0, 200_000))
				r.requireGet(numbered(1), numbers(0, 200_000))
				r.tier.Close(t.Context())
			})
		})
	}
}

// TestWritesThatHangAreAbandoned: the arrays are released at the time limit, the bytes on disk stay counted
// until the call returns, and then what was written is deleted.
func TestWritesThatHangAreAbandoned(t *testing.T) {
	for _, call := range []string{"create", "write", "close after create", "rename"} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				system := newFaultySystem()
				r := newRig(t, func(o *Options) { o.system = system.system() })
				release, began := system.hanging(call), time.Now()
				mem := memory.NewCheckedAllocator(batch.Default())
				of, _ := fromAllocator(mem, 100_000)
				r.put(numbered(0), 1, of)
				of.Release()
				mem.AssertSize(t, 0)
				require.Equal(t, time.Minute, time.Since(began))
				require.Positive(t, r.tier.Stats().Folder.Bytes)
				require.Zero(t, r.tier.Stats().Folder.Chunks)
				r.put(numbered(1), 1, numbers(0, 10))
				require.EqualValues(t, 1, r.tier.Stats().Writes.Dropped)
				release()
				synctest.Wait()
				require.Zero(t, r.tier.Stats().Folder.Bytes)
				entries, err := os.ReadDir(r.options.Folder)
				require.NoError(t, err)
				require.Len(t, entries, 1, "the lock")
				time.Sleep(retryAfter)
				r.put(numbered(0), 1, numbers(0, 10))
				r.requireGet(numbered(0), numbers(0, 10))
				r.tier.Close(t.Context())
			})
		})
	}
}

func fromAllocator(mem memory.Allocator, n int) (arrow.Array, int) {
	source := numbers(0, n)
	buffer := memory.NewResizableBuffer(mem)
	buffer.Resize(8 * n)
	copy(buffer.Bytes(), source.Data().Buffers()[1].Bytes())
	defer buffer.Release()
	return newNumbers(buffer, n), n
}

// TestCloseWaitsUntilItsDeadline: a writer that hangs is abandoned, and what is queued is dropped.
func TestCloseWaitsUntilItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := newFaultySystem()
		r := newRig(t, func(o *Options) { o.system = system.system() })
		release := system.hanging("write")
		var done atomic.Int64
		for i := range 3 {
			r.tier.Put(Offer{ID: numbered(i), Arrays: []arrow.Array{numbers(0, 1_000)}, Done: func() { done.Add(1) }})
		}
		synctest.Wait()
		require.Zero(t, done.Load())
		require.Positive(t, r.tier.Stats().Folder.Queued)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		r.tier.Close(ctx)
		require.Equal(t, time.Second, time.Since(began))
		require.EqualValues(t, 3, done.Load())
		release()
		synctest.Wait()
	})
}

// TestFullQueuesDrop: offers beyond the queue's bytes are refused at once, and DropQueued drops what waits.
func TestFullQueuesDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := newFaultySystem()
		r := newRig(t, func(o *Options) { o.system, o.Queue = system.system(), 20_000 })
		release := system.hanging("write")
		var done atomic.Int64
		put := func(n int) bool {
			return r.tier.Put(Offer{ID: numbered(n), Arrays: []arrow.Array{numbers(0, 1_000)}, Done: func() { done.Add(1) }})
		}
		require.True(t, put(0))
		synctest.Wait()
		require.True(t, put(1))
		require.False(t, put(1), "it is queued")
		require.True(t, put(2))
		require.False(t, put(3), "the queue is full")
		require.EqualValues(t, 2, done.Load())
		r.tier.DropQueued()
		require.EqualValues(t, 4, done.Load())
		require.True(t, put(1))
		release()
		synctest.Wait()
		require.EqualValues(t, 6, done.Load())
		stats := r.tier.Stats().Writes
		require.EqualValues(t, 2, stats.Chunks)
		require.EqualValues(t, 3, stats.Dropped)
		require.EqualValues(t, 1, stats.Present)
		r.tier.Close(t.Context())
	})
}

// TestLimitHoldsUnderChurn reads, writes and deletes at once, and adds up the folder meanwhile.
//
// spec: disk-2
func TestLimitHoldsUnderChurn(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	r := newRig(t, func(o *Options) { o.Limit = limit })
	var churn sync.WaitGroup
	for reader := range 3 { // more chunks than the limit has room for
		churn.Go(func() {
			s := newRandomArrays(uint64(reader))
			for range 120 {
				n := s.IntN(60)
				like := numbers(n, 400*(n%30))
				if c, ok := r.get(numbered(n), like); ok {
					if !array.Equal(like, c.Arrays[0]) {
						t.Errorf("chunk %d differs", n)
					}
					c.Release()
				} else {
					r.put(numbered(n), uint32(n), like)
				}
				if got := folderBytes(t, r.options.Folder); got > limit {
					t.Errorf("the folder has %d bytes", got)
				}
				if got := r.tier.Stats().Folder.Bytes; got > limit {
					t.Errorf("%d bytes are counted", got)
				}
				if s.IntN(40) == 0 {
					if _, _, err := removeChunks(r.options.Folder, func(c listedChunk) bool { return c.Cost%7 == 0 }); err != nil {
						t.Log("another goroutine deleted the file first:", err)
					}
				}
			}
		})
	}
	churn.Wait()
	require.Positive(t, r.tier.Stats().Writes.Evicted)
	require.Positive(t, r.tier.Stats().Reads.Hits)
	require.Zero(t, r.tier.Stats().Reads.Damaged)
	require.Zero(t, r.tier.Stats().Writes.Failed)
	r.restart()
	require.LessOrEqual(t, r.tier.Stats().Folder.Bytes, int64(limit))
}

// TestManyChunksAreListedWithoutReadingThem: a restart with 10,000 files opens none, and keeps those that fit.
func TestManyChunksAreListedWithoutReadingThem(t *testing.T) {
	t.Parallel()
	const chunks = 10_000
	system := newFaultySystem()
	r := newRig(t, func(o *Options) { o.system = system.system() })
	content := fileOf(t, numbered(0), numbers(0, 10))
	first := r.tier.path(chunkName(numbered(0).Key(), 1))
	require.NoError(t, os.WriteFile(first, content, 0o600))
	for n := 1; n < chunks; n++ { // links take less time than files
		require.NoError(t, os.Link(first, r.tier.path(chunkName(numbered(n).Key(), 1))))
	}
	r.restart()
	require.Equal(t, chunks, r.tier.Stats().Folder.Chunks)
	require.Equal(t, chunks*footprint(int64(len(content))), r.tier.Stats().Folder.Bytes)
	require.Zero(t, system.calledTimes("open"))
	r.requireGet(numbered(0), numbers(0, 10))
	r.options.Limit = 100 * footprint(int64(len(content)))
	r.restart()
	require.Equal(t, 100, r.tier.Stats().Folder.Chunks)
	r.options.Limit, r.options.Budget = 1<<30, budget.New(10*listedBytes)
	r.tier.Close(t.Context())
	r.open()
	require.Equal(t, 10, r.tier.Stats().Folder.Chunks, "entries take memory, too")
	found, err := filepath.Glob(filepath.Join(r.options.Folder, "*"+chunkSuffix))
	require.NoError(t, err)
	require.Len(t, found, 10)
}

// TestFilesOfOthersAreNotUsed: at start, incomplete files, those of other versions, links, files that others may
// read and second files of a chunk are deleted, and files of other names stay.
func TestFilesOfOthersAreNotUsed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.put(numbered(0), 5, numbers(0, 10))
	name := chunkName(numbered(1).Key(), 1)
	for _, deleted := range []string{
		numbered(2).Key().String() + tempSuffix, strings.Replace(name, ".v1.", ".v2.", 1), "x" + chunkSuffix,
		strings.ToUpper(name[:64]) + name[64:], chunkName(numbered(0).Key(), 9),
	} {
		require.NoError(t, os.WriteFile(r.tier.path(deleted), []byte("x"), 0o600))
	}
	require.NoError(t, os.WriteFile(r.tier.path(chunkName(numbered(3).Key(), 1)), []byte("x"), 0o644))
	require.NoError(t, os.Symlink(r.tier.path(chunkName(numbered(0).Key(), 5)), r.tier.path(name)))
	require.NoError(t, os.WriteFile(r.tier.path("notes.txt"), []byte("x"), 0o600))
	r.restart()
	r.requireGet(numbered(0), numbers(0, 10))
	entries, err := os.ReadDir(r.options.Folder)
	require.NoError(t, err)
	require.Len(t, entries, 3, "the chunk, the lock and the notes")
	require.NoError(t, os.Symlink("notes.txt", r.tier.path(name)))
	_, err = realSystem().open(r.tier.path(name))
	require.Error(t, err, "a link that appears later is not followed")
}

// TestUnlinkedReadsCount: a chunk that is deleted while it is read counts until the reader has closed it.
func TestUnlinkedReadsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := newFaultySystem()
		r := newRig(t, func(o *Options) {
			o.system, o.Limit, o.Calls = system.system(), 300<<10, store.NewCalls(store.Options{})
		})
		r.put(numbered(0), 1, numbers(0, 20_000))
		release := system.hanging("read")
		var group sync.WaitGroup
		group.Go(func() {
			c, ok := r.get(numbered(0), numbers(0, 20_000))
			if !ok {
				t.Error("the chunk was not read")
				return
			}
			c.Release()
		})
		synctest.Wait()
		r.put(numbered(1), 9, numbers(0, 20_000))
		require.False(t, r.tier.Has(numbered(1)), "there is no room while the other one is read")
		release()
		group.Wait()
		r.put(numbered(1), 9, numbers(0, 20_000))
		require.True(t, r.tier.Has(numbered(1)))
		require.False(t, r.tier.Has(numbered(0)))
		r.tier.Close(t.Context())
	})
}
