package dataset

import (
	"strconv"
	"strings"
)

// forms are what some fields look like when they are right, by the last name of their
// path: what to write, for who wrote something else. Each is YAML and JSON.
func forms() map[string]string {
	return map[string]string{
		"training": `training: {"table": "namespace.table"}`,
		"staging":  `staging: [{"table": "namespace.table"}]`,
		"table":    `table: "namespace.table"`,
		"key":      `key: ["request_id"]`,
		"columns":  `columns: ["name", "other"]`,
		"by":       `by: ["name", "other"]`,
		"dense":    `dense: {"features": ["name", "other"]}`,
		"sample":   `sample: {"rate": 0.1, "where": "label = 0"} or {"hash": [0, 0.1], "by": "request"}`,
		"shard":    `shard: {"index": 0, "of": 4}`,
		"every":    `every: {"step": 0, "of": 4}`,
		"order":    `order: "shuffled", or "stored"`,
		"shuffle":  `order: "shuffled", and shuffle: "requests", "rows" or "splits"`,
		"cursor":   `cursor: and the object that came with a batch, as it is`,
		"as_of":    `ref: and a branch or tag, or snapshot: and the id of one`,
		"align":    `align: {"training": "day", "staging": "day", "lag": "1d"}`,
		"distinct": `distinct: {"by": ["request_id", "item_id"], "keep": "first"}`,
	}
}

// itemForms are the same of the entries of lists.
func itemForms() map[string]string {
	return map[string]string{"staging": `{"table": "namespace.table"}`}
}

// formOf is what to write at a path, as the end of a sentence; "" if nothing is known.
func formOf(path string) string {
	known := forms()
	if at := strings.LastIndexByte(path, '['); at >= 0 && strings.HasSuffix(path, "]") {
		known, path = itemForms(), path[:at]
	}
	if form, ok := known[path[strings.LastIndexByte(path, '.')+1:]]; ok {
		return "; write " + form
	}
	return ""
}

// mismatch records a value of another kind than is wanted, with what to write.
func (d *decoder) mismatch(at place, want string) {
	form := formOf(at.path)
	if form == "" && at.kind == kindText && want == "a whole number" && isWhole(at.text) {
		form = "; write it without quotes"
	}
	d.fail(at.path, "must be %s, not %s%s", want, at.kind, form)
}

func isWhole(text string) bool {
	_, err := strconv.ParseInt(text, 10, 64)
	return err == nil
}
