package fault

import "fmt"

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

// Count formats a number of things, given the singular: "1 stream", "2 streams".
func Count[N int | int32 | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
