package expr

import (
	"fmt"
	"slices"

	"github.com/penstock/penstock/internal/fault"
)

// maxFaults is the number of faults of a text that are listed. A hostile text has thousands.
const maxFaults = 100

// faultList collects the faults of a text, without those after the first maxFaults.
type faultList struct {
	listed []fault.Field
	found  int // also those that are not listed, and what was not checked
}

// skips reports whether further faults are not listed. Then it counts one, for something that the caller does not check.
func (l *faultList) skips() bool {
	if len(l.listed) < maxFaults {
		return false
	}
	l.found++
	return true
}

func (l *faultList) add(f fault.Field) {
	if !l.skips() {
		l.listed, l.found = append(l.listed, f), l.found+1
	}
}

func (l *faultList) fail(position int, format string, args ...any) {
	if l.skips() {
		return
	}
	l.add(fault.Field{Position: position, Message: fmt.Sprintf(format, args...)})
}

// all returns the listed faults, followed by one that says that there are more.
func (l *faultList) all() []fault.Field {
	if l.found == len(l.listed) {
		return l.listed
	}
	return append(slices.Clip(l.listed), fault.Field{Message: "further faults are not listed"})
}

// err returns the faults as one Invalid error, or nil if there are none.
func (l *faultList) err() error { return fault.Fields(l.all()) }
