//go:build !unix

package main

import "os"

// The permissions of a file say nothing here.

func writers(os.FileInfo) string { return "" }

func readableByOthers(os.FileInfo) bool { return false }
