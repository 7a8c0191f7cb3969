package s3_test

import (
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/store/s3"
)

// TestTakenBodies are read no more: the memory is the upload's again.
//
// spec: storage-35
func TestTakenBodies(t *testing.T) {
	sent, take := s3.NewBody(digits(100), time.Hour, func() {})
	for range 2 {
		all, err := io.ReadAll(sent)
		require.NoError(t, err)
		require.Equal(t, string(digits(100)), string(all))
		at, err := sent.Seek(0, io.SeekStart)
		require.NoError(t, err)
		require.Zero(t, at)
	}
	at, err := sent.Seek(-90, io.SeekEnd)
	require.NoError(t, err)
	require.Equal(t, int64(10), at)
	at, err = sent.Seek(5, io.SeekCurrent)
	require.NoError(t, err)
	require.Equal(t, int64(15), at)
	for _, wrong := range []int64{-1, 101} {
		_, err = sent.Seek(wrong, io.SeekStart)
		require.Error(t, err)
	}
	take()
	n, err := sent.Read(make([]byte, 10))
	require.Zero(t, n)
	require.ErrorContains(t, err, "the request has ended")
}

// TestSendingIsProgress: a slow request is not given up while the store takes bytes.
//
// spec: storage-39
func TestSendingIsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var given atomic.Bool
		sent, _ := s3.NewBody(make([]byte, 1<<20), time.Minute, func() { given.Store(true) })
		for range 10 {
			_, err := io.ReadFull(sent, make([]byte, 64<<10))
			require.NoError(t, err)
			time.Sleep(50 * time.Second)
		}
		require.False(t, given.Load())
		time.Sleep(11 * time.Second)
		require.True(t, given.Load())
	})
}
