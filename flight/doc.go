// Package flight serves datasets over Arrow Flight. It is the only gRPC server of the product;
// its clients are other programs and the command line.
//
// A client sends a query in a descriptor, gets a ticket per shard, and redeems a ticket for a
// stream: batches, each with the cursor after it, and a last message with the stream's report.
// Tickets are signed and expire, and contain everything that determines a stream. The server
// keeps no state that a client needs, so any replica with the same keys and datasets can redeem
// them.
//
// It promises that the schema comes first and without delay; that a stream without its report is
// incomplete; that any failure ends the stream with a status; and that a stream ends when its
// client goes away. Batches are sent without a copy: a lease retains each of them until gRPC has
// written its last part. After a stream is cancelled, gRPC may never report that it has written a
// part, so the memory of batches, pooled or not, must be memory that the Go collector can free.
//
// Three mechanisms limit how much clients can disturb each other: admission assigns slots to
// streams (package admission), batches that clients have not read are counted (package frames), and
// streams whose clients do not read are parked (parking.go).
package flight
