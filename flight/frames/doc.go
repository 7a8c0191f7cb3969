// Package frames sends batches without copying them, and counts the memory that the network still
// uses.
//
// An Encoder makes the frames of a stream, which are the messages of Arrow Flight. The bodies of
// frames point into the memory of batches. A Lease keeps that memory until gRPC has written it, or
// no longer uses the connection. Inflight bounds the memory of all leases. If a client reads
// nothing while others wait for memory, the server closes its connection: nothing else makes gRPC
// free the memory.
package frames
