package s3

import (
	"context"
	"time"
)

// BackOff returns whether and when a read is retried after a number of attempts, for a random
// number and the delay that the store requests.
func BackOff(tries int, random float64, after time.Duration) (time.Duration, bool) {
	s := &Store{options: Options{Random: func() float64 { return random }}}
	return s.again(context.Background(), &triesMade{made: tries}, &object{}, failure{outcome: Throttled, passing: true, after: after})
}
