//go:build !linux && !darwin

package rowformat

import "os"

// TerminalWidth returns 0: the width is unknown on this system.
func TerminalWidth(*os.File) int { return 0 }
