//go:build !shiftclock

package clock

import "time"

// Now returns the current time of the machine.
func Now() time.Time { return time.Now() } //nolint:forbidigo // it is the clock that others take
