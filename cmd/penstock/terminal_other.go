//go:build !linux && !darwin

package main

import "os"

// terminalWidth is not known on this system.
func terminalWidth(*os.File) int { return 0 }
