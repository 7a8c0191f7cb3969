package s3

import (
	"context"
	"io"
	"time"
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
