package fault

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Size formats a number of bytes for people, with three digits: "1.5 KiB", "512 MiB".
func Size(bytes int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	value, at := float64(bytes), 0
	for value >= 1023.5 && at < len(units)-1 {
		value, at = value/1024, at+1
	}
	if at == 0 || value >= 99.95 {
		return fmt.Sprintf("%.0f %s", value, units[at])
	}
	return fmt.Sprintf("%.1f %s", value, units[at])
}

// ParseSize parses a number of bytes in the form that settings have: digits, optionally followed
// by a unit. With a unit, the number may have a fraction. The units are B, kB, MB, GB, TB (powers
// of 1000) and KiB, MiB, GiB, TiB (powers of 1024), in upper or lower case.
func ParseSize(text string) (int64, error) {
	digits := strings.TrimRight(strings.TrimSpace(text), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), digits)))
	scale := map[string]float64{
		"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
		"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
	}[unit]
	n, err := strconv.ParseFloat(digits, 64)
	if err == nil && len(unit) == 1 && strings.Contains("kmgt", unit) {
		return 0, fmt.Errorf("%q is not a size such as 512MiB or 4GiB; write %s%siB", text, digits, strings.ToUpper(unit))
	}
	if scale == 0 || err != nil || n < 0 || n*scale >= 1<<63 {
		return 0, errors.New(strconv.Quote(text) + " is not a size such as 512MiB or 4GiB")
	}
	return int64(n * scale), nil
}

// Count formats a number of things, given the singular: "1 stream", "2 streams".
func Count[N int | int32 | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
