package plan

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// partitionText identifies partition values within one spec.
func partitionText(values []any) string {
	var b strings.Builder
	for _, v := range values {
		fmt.Fprintf(&b, "%T %q\n", v, fmt.Sprint(v))
	}
	return b.String()
}

// comparePartitions orders partition values: nulls last, then by value.
func comparePartitions(a, b []any) int {
	for i := range min(len(a), len(b)) {
		if c := compareValues(a[i], b[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func compareValues(a, b any) int {
	switch x := a.(type) {
	case int64:
		if y, ok := b.(int64); ok {
			return cmp.Compare(x, y)
		}
	case float64:
		if y, ok := b.(float64); ok {
			return cmp.Compare(x, y)
		}
	case string:
		if y, ok := b.(string); ok {
			return cmp.Compare(x, y)
		}
	case bool:
		if y, ok := b.(bool); ok {
			return cmp.Compare(strconv.FormatBool(x), strconv.FormatBool(y))
		}
	}
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return cmp.Compare(fmt.Sprintf("%T%v", a, a), fmt.Sprintf("%T%v", b, b))
}
