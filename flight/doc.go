// Package flight serves datasets over Arrow Flight: the one server of gRPC. Its
// clients are other programs, and the command line.
//
// A client asks with a query, in a descriptor; gets a ticket per shard; and
// hands a ticket in for a stream of batches, each with the cursor after it,
// and a last message with the stream's report. Tickets are signed and expire,
// and hold all that a stream is made of: the server keeps nothing that a
// client needs, so any replica with the same keys and datasets redeems them.
//
// What it promises: the schema comes first and at once; a stream without the
// report is not whole; any failure ends the stream with a status that says so;
// a client that goes away ends its stream. Batches are sent without copying
// them: a lease keeps each until gRPC has written the last part of it. After a
// cancelled stream gRPC may never say so, so the memory of batches must be
// such that the Go collector finds it, pooled or not.
//
// What clients can do to each other is bounded in three places: admission gives
// streams their places, transit counts the batches that clients have not read, and
// parking takes back what streams hold whose clients do not read.
//
// Failures become gRPC codes in status.go and nowhere else.
package flight
