// Package segmenttest receives segments as a client on the same host does: in tests of servers, and in
// benchmarks. It relies on the seals of docs/spec/local.md, and uses none of the server's code.
package segmenttest
