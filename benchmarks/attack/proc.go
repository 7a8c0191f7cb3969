package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// memory is the resident memory of a process as Linux reports it, in bytes.
type memory struct {
	now  int64 // VmRSS
	peak int64 // VmHWM: its maximum so far
}

// memoryOf reads the memory of a running process.
func memoryOf(pid int) (memory, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return memory{}, err
	}
	return parseStatus(string(text))
}

// parseStatus reads the text of /proc/PID/status. A process that has ended and
// was not waited for has no memory there: that is an error.
func parseStatus(text string) (memory, error) {
	var m memory
	for _, want := range []struct {
		name string
		out  *int64
	}{{"VmRSS", &m.now}, {"VmHWM", &m.peak}} {
		found := false
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(line, ":")
			if name != want.name {
				continue
			}
			fields := strings.Fields(value)
			if len(fields) != 2 || fields[1] != "kB" {
				return memory{}, fmt.Errorf("%s is %q, not a number of kB", name, strings.TrimSpace(value))
			}
			n, err := strconv.ParseInt(fields[0], 10, 64)
			if err != nil {
				return memory{}, fmt.Errorf("%s is %q: %w", name, fields[0], err)
			}
			*want.out, found = n<<10, true
		}
		if !found {
			return memory{}, fmt.Errorf("no %s: the process has ended", want.name)
		}
	}
	return m, nil
}
