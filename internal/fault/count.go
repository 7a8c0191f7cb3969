package fault

import "fmt"

// Count formats a number of things, given the singular: "1 stream", "2 streams".
func Count[N int | int32 | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
