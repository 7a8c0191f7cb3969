// Package plan makes the plan of a query: which training rows, in which
// order, in which lane, beside which staging files (docs/spec/order.md).
//
// A Plan is an immutable value. It depends on the pin, the dataset, the
// query's filter, sample, order, shuffle, seed, epoch and number of lanes, and on the
// Algorithm; not on shards, batch size, columns, servers or clocks. The same
// inputs give the same plan, byte for byte, and its ID says so. The order of
// training rows never depends on the staging tables. Nothing here touches
// disk or network.
package plan
