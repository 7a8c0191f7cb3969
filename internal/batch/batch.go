// Package batch is what Penstock does to Arrow arrays and batches beyond
// arrow-go: it gathers rows of several sources into one array, keeps rows,
// puts arrays one after the other, measures, allocates, and makes readers.
//
// What every function here promises about memory:
//
//   - Inputs are borrowed: nothing is kept or changed after the call. What is
//     returned belongs to the caller, who releases it.
//   - Memory comes from the allocator that is given. Gather without one takes
//     plain memory of the Go heap.
//   - Fixed-width values under a null are zero, so no bytes of another
//     stream's memory ever leave the process, and equal rows are equal bytes.
//
// Readers follow the one ownership sentence of Penstock: a batch is valid
// until the next call of Next or Release on its reader; Retain it to keep it
// longer; whoever opens a reader releases it.
package batch
