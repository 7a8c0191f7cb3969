// Package buildside makes the rows of file groups ready to be probed, and
// shares them: each is read and indexed once for all ranges, lanes and streams
// that need it at the same time.
//
// A loader has one [Pool]. A stream asks it for the [Groups] of each staging
// input, says which ranges it will read, and takes a [Reference] for the range
// that a lane opens; [Reference.Probeable] is what the joiner asks. Whoever uses
// the package sees nothing else of what it promises:
//
//   - A build side is known by a digest of all that it is made of. The first
//     stream that needs it builds it, the others wait; when it fails, the next
//     one tries.
//   - It stays while some open stream will need it again and memory is
//     plentiful, and goes when the budget asks for room, the longest unused
//     first (package cache).
//   - What does not fit in memory, or had to give way before its stream was
//     done with it, is written to local disk, once for all streams: divided by
//     the training table's buckets, since each then reads its own part, or else
//     sliced by key. So no group is read more often than twice by a stream,
//     tries that failed aside: those do not send it to disk. Only where the disk
//     is full too, what lies there unused gives way, and is read again.
//   - What a stream's build sides cost is counted: [Costs].
//
// The tests here are those of one group. That streams share, spill and give way
// so, and read the same rows whatever happens here, is tested with whole streams:
// build_sides_test.go and spill_test.go of package loader.
package buildside
