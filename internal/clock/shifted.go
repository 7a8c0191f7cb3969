//go:build shiftclock

package clock

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"
)

// every is how often the file is read.
const every = 100 * time.Millisecond

var shift atomic.Int64 //nolint:gochecknoglobals // the clock of a process

func init() { //nolint:gochecknoinits // built only with the tag
	path := os.Getenv("PENSTOCK_CLOCK_SHIFT")
	if path == "" {
		return
	}
	read(path)
	go func() {
		for range time.Tick(every) {
			read(path)
		}
	}()
}

// read sets the shift to the seconds in a file. A file that cannot be read, or is being written,
// changes nothing.
func read(path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return
	}
	if seconds, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
		shift.Store(seconds)
	}
}

// Now returns the time of the machine, with the wall clock shifted. As on a machine whose clock was
// set, the monotonic reading, and with it the time between two results, is unchanged.
func Now() time.Time {
	now := time.Now() //nolint:forbidigo // it is the clock that others take
	return moved(now, shift.Load())
}

// moved returns a result of time.Now whose wall clock is shifted by seconds.
func moved(now time.Time, seconds int64) time.Time {
	const secondsAt = 30                                             // time.Time has the seconds of the wall clock above the 30 bits of the nanoseconds
	*(*uint64)(unsafe.Pointer(&now)) += uint64(seconds) << secondsAt //nolint:gosec // a negative shift subtracts
	return now
}
