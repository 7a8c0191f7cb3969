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
// Probeable builds a build side when a row needs it, unless a goroutine that Prefetch started has
// built it before. A build side is pinned while a range that needs it is open, from Reference.Pin
// to Reference.Release. It is idle while it has no references, or only references of upcoming
// ranges. An idle build side is evicted if a reservation lacks room, if a row needs room on a full
// disk, or if more than half of the budget is in use. If a stream has built a group in memory, and
// has to build it again, it builds the group on disk. A build side is freed when no stream needs it
// any more. A stream no longer needs a build side when it has released its references and has no
// upcoming range of the group (Groups.Expect, Groups.MarkReached), or when it has closed its
// Groups. If Options.Keep is set, a build side in memory is then kept for later streams. Kept build
// sides are idle memory of the budget, and the first memory to be released when a reservation lacks
// room.
//
// A prefetch ends when its build has ended. WaitPrefetch, Probeable and Release wait for the
// prefetch's goroutine and take its result. The Release of a group's last reference first cancels
// the prefetch.
//
// The tests in this package cover one group. With whole streams, build_sides_test.go and
// spill_test.go of package joined test that build sides are shared, spilled and evicted as
// described, and that the rows do not depend on this.
package buildside
