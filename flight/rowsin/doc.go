// Package rowsin reads the rows that a client writes to a server.
//
// A client chooses every byte that it sends, so nothing in a message is believed. Headers are read with every offset checked, and
// written again for the Arrow library; bodies are decompressed into memory of sizes that were checked; batches are validated. What
// a message needs is charged to the budget before it is allocated, and what a few bytes may stand for is bounded. Rows end with
// an error unless the client has said that it has sent them all.
package rowsin
