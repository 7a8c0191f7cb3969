// Package rowsin reads the rows that a client writes to a server.
//
// A client chooses every byte that it sends, so the package trusts nothing in a message. It checks
// every offset of a header, and writes a new header for the Arrow library. It decompresses bodies
// into memory whose size was checked, and validates batches. It charges the memory of a message to
// the budget before allocating it, and bounds how many bytes of rows a few received bytes can
// expand to. Reading ends with an error unless the client has declared the number of rows and
// exactly this number has arrived.
package rowsin
