// Package buildside builds the hash join's build sides, one for each file group of a
// staging table, and shares them: each is read and indexed once for all ranges, lanes
// and streams that need it at the same time.
//
// A loader has one [Pool]. A stream takes the [Groups] of each staging input from it, declares the
// ranges that it will read, and acquires a [Reference] for each range that a lane opens.
// [Reference.Probeable] returns the build side for the joiner. The package promises:
//
//   - A build side is identified by a digest of all inputs. The first stream that needs
//     it builds it while the others wait. If the build fails, the next stream tries.
//   - It stays while some open stream will need it again and memory is plentiful. When
//     the budget needs room, idle build sides are evicted, the least recently used first
//     (package cache).
//   - A group that does not fit in memory, or whose build side was evicted before its
//     stream was done, is written to local disk, once for all streams: partitioned by the
//     buckets of the training table, so that each bucket reads its own partition, or else
//     sliced by key. A stream therefore reads a group at most twice, not counting failed
//     attempts, which do not send it to disk. Idle build sides on disk are evicted, and
//     read again, only when the disk is full.
//   - [Costs] reports what a stream's build sides cost.
//
// The states of a build side in the pool:
//
//	         Reference          build          built, range open
//	unknown ───────────► needed ─────► building ─────────────────► pinned
//	                     ▲    ▲        │   │                        │  ▲
//	                     │    └────────┘   │ built,   last open     │  │ range
//	                     │      failed     │ none     range         │  │ opened
//	                     │                 ▼ open     released      ▼  │
//	                     └─────────────── idle ◄────────────────────┘  │
//	                          evicted      │ └─────────────────────────┘
//	                                       ▼
//	                                     freed
//
// It is built by Probeable, when a row needs it, or before that by a goroutine that Prefetch
// starts. It is pinned while a range that needs it is open, from Begin to Release. It is idle while
// it has no references, or only references of upcoming ranges. An idle one is evicted if a
// reservation lacks room, if a row needs more of a full disk, or if more than half of the budget is
// in use. A stream that has built a group in memory, and has to build it again, does so on disk. A
// build side is freed when no stream needs it any more: each has released its references and has no
// upcoming range (Groups.Expect, Groups.MarkReached), or has closed its Groups. With Options.Keep,
// a build side in memory is then kept for later streams, as idle memory of the budget, which is
// released first when a reservation lacks room.
//
// A prefetch ends with its build. WaitPrefetch, Probeable and Release wait for its goroutine and
// take its result; Release of a group's last reference cancels it first.
//
// The tests in this package cover one group. build_sides_test.go and spill_test.go of
// package loader test with whole streams that build sides are shared, spilled and evicted
// as described, and that the rows do not depend on it.
package buildside
