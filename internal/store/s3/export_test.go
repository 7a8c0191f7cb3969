package s3

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/store"
)

// BackOff returns whether and when a read is retried after a number of attempts, for a random
// number and the delay that the store requests.
func BackOff(tries int, random float64, after time.Duration) (time.Duration, bool) {
	s := &Store{options: Options{Random: func() float64 { return random }}}
	return s.again(context.Background(), &triesMade{made: tries}, &object{}, failure{outcome: Throttled, passing: true, after: after})
}

// PartSize is partSize.
func PartSize(number int) int { return partSize(number) }

// NewBody makes the body of a request that is given up after a time of silence.
func NewBody(content []byte, silence time.Duration, silent func()) (sent io.ReadSeeker, take func()) {
	b := &body{try: &try{silence: silence, timer: time.AfterFunc(silence, silent)}, content: content}
	return b, b.take
}

// Settle waits until the store has taken all parts that an upload has sent.
func Settle(t testing.TB, of store.Upload) {
	t.Helper()
	u, ok := of.(*upload)
	require.True(t, ok)
	require.Eventually(t, func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return len(u.parts) == u.sent
	}, 30*time.Second, time.Millisecond)
}
