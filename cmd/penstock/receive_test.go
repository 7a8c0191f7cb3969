package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The heap of a receiver and its rings have one bound. Only a small heap remains beside rings that take
// all of it.
//
// spec: receiver-9
func TestTheHeapOfAReceiverIsBoundedBesideItsRings(t *testing.T) {
	require.Equal(t, int64(1<<30), heapBeside(1<<30, 0))
	require.Equal(t, int64(1<<30-700<<20), heapBeside(1<<30, 700<<20))
	require.Equal(t, int64(minReceiverHeap), heapBeside(1<<30, 1<<30))
}
