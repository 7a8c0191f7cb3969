package config

import (
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// Memory sizes, in bytes.
const (
	memoryUnknown    = 2 << 30   // the default budget if the machine's memory is unknown
	maxMemory        = 64 << 30  // the largest default budget
	minDefaultMemory = 64 << 20  // the smallest default budget
	besideMemory     = 256 << 20 // the memory that a process needs in addition to five quarters of its budget
	minMachine       = minDefaultMemory + minDefaultMemory/4 + besideMemory
)

// defaultMemory returns the default budget, given the machine's memory in bytes (0 is unknown). It
// is half of the memory, but at most 64 GiB, and small enough that the process's other memory fits
// beside the budget.
func defaultMemory(machine int64) int64 {
	if machine <= 0 {
		return memoryUnknown
	}
	return min(machine/2, max(0, machine-besideMemory)/5*4, maxMemory)
}

// tooSmall returns the fault of a machine that is too small for a default budget. If a budget is
// given, there is no fault.
func tooSmall(machine int64, given []value) []fault.Field {
	if machine <= 0 || machine >= minMachine || len(given) > 0 {
		return nil
	}
	return []fault.Field{{Field: "memory", Message: fmt.Sprintf("this machine or container has %d MiB of memory, and the default budget needs %d MiB: "+
		"give it more, or set a budget, of which the process needs 1.25 times as much and %d MiB", machine>>20, minMachine>>20, besideMemory>>20)}}
}

// MachineMemory returns how many bytes of memory the process may use: the memory of the machine or,
// if that is less, the limit of the process's control group (version 1 or 2), which containers
// have. root is the file system. MachineMemory returns 0 if the memory is unknown, as on systems
// without /proc.
func MachineMemory(root fs.FS) int64 {
	least := int64(math.MaxInt64)
	for line := range strings.Lines(read(root, "proc/meminfo")) {
		var kib int64
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib, _ = strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		}
		if kib > 0 {
			least = min(least, kib<<10)
		}
	}
	for line := range strings.Lines(read(root, "proc/self/cgroup")) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[1] == "":
			least = min(least, groupLimit(root, "sys/fs/cgroup", parts[2], "memory.max"))
		case strings.Contains(","+parts[1]+",", ",memory,"):
			least = min(least, groupLimit(root, "sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes"))
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// groupLimit returns the smallest limit of a control group and its ancestors. In a container
// the group's path may not exist; then the root of the hierarchy is the container's group.
func groupLimit(root fs.FS, mount, group, name string) int64 {
	least := int64(math.MaxInt64)
	for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
		if n, err := strconv.ParseInt(strings.TrimSpace(read(root, path.Join(mount, dir, name))), 10, 64); err == nil && n > 0 {
			least = min(least, n)
		}
		if dir == "/" {
			return least
		}
	}
}

func read(root fs.FS, name string) string {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return string(text)
}
