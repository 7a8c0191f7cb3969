// Package frames sends batches without copying them, and counts what the network has of them.
//
// An Encoder makes the frames of a stream, which are the messages of Arrow Flight. Their bodies point into the memory of batches: a
// Lease keeps that memory until gRPC has written it, or no longer uses the connection. Inflight bounds the memory of all leases. A
// client that takes nothing while others wait loses its connection, since nothing else frees what gRPC has for it.
package frames
