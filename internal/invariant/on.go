//go:build invariants

package invariant

import "fmt"

// On reports that assertions are compiled in.
const On = true

// Check panics with the message if ok is false. Guard costly arguments with
// "if invariant.On".
func Check(ok bool, format string, args ...any) {
	if !ok {
		panic("invariant: " + fmt.Sprintf(format, args...)) //nolint:forbidigo // built only with the tag
	}
}
