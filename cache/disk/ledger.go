package disk

import (
	"cmp"
	"container/heap"

	"github.com/penstock/penstock/internal/invariant"
)

// ledger counts the bytes of all files, and finds the chunk that is worth least. It is not safe for
// concurrent use.
//
// The worth of a chunk is its cost of rebuilding per byte, plus the worth of the last evicted chunk
// at the time when this chunk was written or read. So chunks that are not read lose worth relative
// to others (GreedyDual-Size).
type ledger struct {
	limit int64
	used  int64 // the bytes of files, complete or being written, until they are deleted
	floor float64
	next  uint64
	files map[ChunkKey]*chunkFile
	idle  worthHeap // the files that are not being read
}

// chunkFile is a complete file.
type chunkFile struct {
	key   ChunkKey
	size  int64 // the size of the file
	cost  uint32
	worth float64
	order uint64 // of two files with equal worth, the one with the lower order is evicted
	// refs counts the readers of the file, and one reference for its name in the folder. When the
	// last reference is released, the bytes become free.
	refs    int
	leaving bool // the file is being deleted, or was deleted
	at      int  // the position in the heap; -1: the file is being read or leaving
}

// diskBlock is the size of the units in which file systems allocate.
const diskBlock = 4 << 10

// footprint returns the bytes that a file counts for: its size in whole blocks, and one block for
// its directory entry and the file system's metadata.
func footprint(size int64) int64 { return (size + 2*diskBlock - 1) / diskBlock * diskBlock }

func newLedger(limit int64) *ledger { return &ledger{limit: limit, files: map[ChunkKey]*chunkFile{}} }

// fits reports whether there is room for the given number of bytes now.
func (l *ledger) fits(bytes int64) bool { return bytes <= l.limit-l.used }

// add adds a complete file whose bytes are reserved.
func (l *ledger) add(key ChunkKey, size int64, cost uint32) {
	invariant.Check(l.files[key] == nil, "a chunk was added twice")
	f := &chunkFile{key: key, size: size, cost: cost, refs: 1}
	l.files[key] = f
	l.appraise(f)
	heap.Push(&l.idle, f)
}

// appraise sets the worth of a file that is being written or read.
func (l *ledger) appraise(f *chunkFile) {
	f.worth = l.floor + float64(f.cost)/float64(footprint(f.size))
	f.order = l.next
	l.next++
}

// open returns the file of a key with a reference, or nil if there is none.
func (l *ledger) open(key ChunkKey) *chunkFile {
	f := l.files[key]
	if f == nil || f.leaving {
		return nil
	}
	f.refs++
	if f.at >= 0 {
		heap.Remove(&l.idle, f.at)
	}
	return f
}

// close drops a reference that open returned.
func (l *ledger) close(f *chunkFile) {
	if f.refs == 2 && !f.leaving { // the other reference is the one for its name
		l.appraise(f)
	}
	l.closeUnread(f)
}

// closeUnread is like close, but for a file whose values were not read, so that its worth does not
// change.
func (l *ledger) closeUnread(f *chunkFile) {
	l.release(f)
	if f.refs == 1 && !f.leaving {
		heap.Push(&l.idle, f)
	}
}

// release drops a reference.
func (l *ledger) release(f *chunkFile) {
	f.refs--
	invariant.Check(f.refs >= 0, "a chunk's file has more releases than references")
	if f.refs == 0 {
		l.used -= footprint(f.size)
	}
}

// least marks the file that is worth least as leaving and returns it. It returns nil if all files
// are being read.
func (l *ledger) least() *chunkFile {
	if len(l.idle) == 0 {
		return nil
	}
	f := l.idle[0]
	l.floor = f.worth
	l.leave(f)
	return f
}

// leave marks a file as leaving, so that it is not opened again. It returns true if the file was
// not marked before; then the caller deletes the file and calls left.
func (l *ledger) leave(f *chunkFile) bool {
	if f.leaving {
		return false
	}
	f.leaving = true
	if f.at >= 0 {
		heap.Remove(&l.idle, f.at)
	}
	return true
}

// left removes a leaving file from the ledger. If the file could not be deleted, its bytes still
// count.
func (l *ledger) left(f *chunkFile, deleted bool) {
	delete(l.files, f.key)
	if deleted {
		l.release(f)
	}
}

// worthHeap is a heap of files, ordered by increasing worth.
type worthHeap []*chunkFile

func (h worthHeap) Len() int { return len(h) }

func (h worthHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].worth, h[j].worth), cmp.Compare(h[i].order, h[j].order)) < 0
}

func (h worthHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push implements heap.Interface.
func (h *worthHeap) Push(f any) {
	file, _ := f.(*chunkFile)
	file.at = len(*h)
	*h = append(*h, file)
}

// Pop implements heap.Interface.
func (h *worthHeap) Pop() any {
	last := len(*h) - 1
	f := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	f.at = -1
	return f
}
