//go:build !linux && !darwin

package rowformat

import "os"

// TerminalWidth returns 0: it is unknown on this system.
func TerminalWidth(*os.File) int { return 0 }
