// Package cache holds values by key. Concurrent callers share one load of a value.
//
// The package does not depend on tables. Both of its types work alike: one caller loads a missing
// value, on its goroutine and with its context, while the others wait. If the load fails, only that
// caller gets the error, and the next caller tries.
//
//   - A [Cache] holds values that may be dropped at any time, up to a limit in bytes:
//     plans, footers. Its values are immutable and garbage-collected. Several
//     goroutines of one stream may ask for a key at once. A caller that waits for a load
//     is therefore not marked as waiting in the memory budget: its own stream may be the
//     one that loads.
//   - A [Shared] holds reference-counted values with a size, such as build sides, for as
//     long as a [Need] of them is open. It evicts unpinned values when the budget needs
//     room. A caller waits only for other streams, and is marked as waiting in the
//     memory budget, so that no stream waits for memory that it holds.
//
// The states of a value in a Shared:
//
//	         Need             Get           Pin
//	absent ───────► needed ───────► loaded ─────► pinned ◄───────┐
//	                  ▲               │             │            │
//	                  │               │    last pin │            │ Pin
//	                  │               │    released ▼            │
//	                  └───────────────┼─────────── idle ─────────┘
//	                    evicted       │             │
//	                                  ▼             ▼
//	                          last Need closed: released
//
// Only idle values are evicted: when a reservation lacks room, when the disk is full
// (EvictDisk), or when the last pin is released while more than half of the budget is in
// use. The next Get loads an evicted value again. A pin may also come before
// the load.
//
// A Shared of NewKeeping keeps values in memory after their last Need, for a later one. Kept values
// are idle memory of the budget (budget.AddIdle): they are released before idle ones.
package cache
