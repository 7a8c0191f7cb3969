package s3

import (
	"context"
	"time"
)

// BackOff says whether and when a read is tried again that was tried so often, with a
// random number, where the store asks to come again after a while.
func BackOff(tries int, random float64, after time.Duration) (time.Duration, bool) {
	s := &Store{options: Options{Random: func() float64 { return random }}}
	return s.again(context.Background(), &triesMade{made: tries}, &object{}, failure{outcome: Throttled, passing: true, after: after})
}
