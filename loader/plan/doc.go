// Package plan makes the plan of a query. The plan determines which training rows are read, in
// which order, in which lane, and with which staging files (docs/spec/order.md).
//
// A Plan is an immutable value. It depends on the Algorithm, on the pin and the dataset, and on the
// query's filter, sample, order, shuffle, seed, epoch and number of lanes. It does not depend on
// shards, batch size, columns, servers or clocks. The same inputs give the same plan, byte for
// byte, and therefore the same ID. The order of training rows never depends on the staging tables.
// The package uses neither disk nor network.
package plan
