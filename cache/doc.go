// Package cache holds values by key that several ask for: each is loaded once,
// whoever asks first.
//
// It is a leaf and knows nothing of tables. Both of its kinds stand on the same
// entries: of those that ask for a key at the same moment one loads, on its own
// goroutine and under its own context, while the others wait for their turn.
// When a load fails, that failure is the loader's alone, and the next one tries.
//
//   - A [Cache] keeps what may be lost without harm, under a bound of bytes:
//     plans, footers. Its values are immutable, and left to the garbage
//     collector. Several goroutines of one stream may ask for a key at once, so
//     whoever waits for a load is not marked as waiting in its memory budget:
//     the stream may well be the one that loads.
//   - A [Shared] keeps what is counted by reference and has a price, for as long
//     as somebody will need it: build sides. It gives up what nobody uses at
//     the moment when the budget asks for room. A stream that waits here waits
//     for another one, and is marked as waiting in its memory budget, so that no
//     stream waits for memory that it holds.
package cache
