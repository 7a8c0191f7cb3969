package decode

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/fault"
)

// forms returns examples of correct values by field name, for errors about values of the
// wrong form. The values in them are both YAML and JSON.
func forms() map[string]string {
	return map[string]string{
		"training":   `training: {"table": "namespace.table"}`,
		"staging":    `staging: [{"table": "namespace.table"}]`,
		"table":      `table: "namespace.table"`,
		"key":        `key: ["request_id"]`,
		"columns":    `columns: ["name", "other"]`,
		"by":         `by: ["name", "other"]`,
		"computed":   `computed: [{"column": "ctr", "expr": "clicks / nullif(views, 0)"}]`,
		"dense":      `dense: {"features": ["name", "other"]}`,
		"sample":     `sample: {"rate": 0.1, "where": "label = 0"} or {"hash": [0, 0.1], "by": "request"}`,
		"shard":      `shard: {"index": 0, "of": 4}`,
		"every":      `every: {"step": 0, "of": 4}`,
		"order":      `order: "shuffled", or "stored"`,
		"shuffle":    `order: "shuffled", and shuffle: "requests", "rows" or "splits"`,
		"cursor":     `cursor: and the object received with a batch, unchanged`,
		"as_of":      `ref: and a branch or tag, or snapshot: and a snapshot's id`,
		"match_rate": `min_match in the staging entry`,
		"align":      `align: {"training": "day", "staging": "day", "lag": "1d"}`,
		"distinct":   `distinct: {"by": ["request_id", "item_id"], "keep": "first"}`,
	}
}

// itemForms returns the examples for entries of lists.
func itemForms() map[string]string {
	return map[string]string{"staging": `{"table": "namespace.table"}`, "computed": `{"column": "ctr", "expr": "clicks / nullif(views, 0)"}`}
}

// formOf returns the example for a path as the end of an error message, or "" if there is
// none.
func formOf(path string) string {
	known := forms()
	if at := strings.LastIndexByte(path, '['); at >= 0 && strings.HasSuffix(path, "]") {
		known, path = itemForms(), path[:at]
	}
	if strings.HasSuffix(path, "point_in_time.training") || strings.HasSuffix(path, "align.training") {
		return `; write training: "column"`
	}
	if form, ok := known[path[strings.LastIndexByte(path, '.')+1:]]; ok {
		return "; write " + form
	}
	return ""
}

// mismatch reports a value of the wrong kind, with an example of a correct one.
func (d *decoder) mismatch(at place, want string) {
	form := cmp.Or(formOfNames(at), formOfPin(at), formOf(at.path))
	if form == "" && at.kind == kindText && want == "a whole number" && isWhole(at.text) {
		form = "; write it without quotes"
	}
	d.fail(at.path, "must be %s, not %s%s", want, at.kind, form)
}

// formOfNames returns the example for a list of names that was written as a single text:
// the same names as a list.
func formOfNames(at place) string {
	field := at.path[strings.LastIndexByte(at.path, '.')+1:]
	if at.kind != kindText || !slices.Contains([]string{"key", "columns", "by", "request_level"}, field) {
		return ""
	}
	var names []string
	for name := range strings.SplitSeq(fault.Shorten(at.text, 100), ",") {
		names = append(names, strconv.Quote(strings.TrimSpace(name)))
	}
	return "; write " + field + ": [" + strings.Join(names, ", ") + "]"
}

// formOfPin returns the example for the pin of a table. Its path ends like that of a
// table of a dataset, so formOf cannot distinguish them.
func formOfPin(at place) string {
	of, ok := strings.CutPrefix(at.path, "snapshots.")
	if !ok {
		return ""
	}
	if table, ok := strings.CutSuffix(of, ".snapshot"); ok {
		if at.kind != kindText || isWhole(at.text) {
			return ""
		}
		return "; to read a branch or tag, set the ref of " + table + " in the dataset"
	}
	snapshot, entry := "the snapshot's id", of
	if at.kind == kindWhole {
		snapshot = at.text
	}
	if name, ok := strings.CutPrefix(of, "staging."); ok {
		entry = name
	}
	return fmt.Sprintf(`; write %s: {"snapshot": %s}`, entry, snapshot)
}

func isWhole(text string) bool {
	_, err := strconv.ParseInt(text, 10, 64)
	return err == nil
}
