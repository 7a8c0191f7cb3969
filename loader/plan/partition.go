package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/penstock/penstock/loader/catalog"
)

// specOrder describes how the partition values of a spec are compared with those of
// other specs. Its fields are indices into a split's partition values.
type specOrder struct {
	shared []int // the fields that all specs in use have, in the order of the first spec
	rest   []int // the other fields, in the order of the spec
	family int   // identifies the specs with the same other fields: the first of these specs
}

// specOrders computes the order for each spec of the training files. It uses all files of the
// pinned table, so that filters do not change the order.
func (b *Bound) specOrders(files []catalog.File) map[int]specOrder {
	fields := map[int][]string{}
	var specs []int
	for _, f := range files {
		if _, ok := fields[f.Spec]; !ok {
			fields[f.Spec] = b.fieldTexts(f.Spec)
			specs = append(specs, f.Spec)
		}
	}
	slices.Sort(specs)
	orders := make(map[int]specOrder, len(specs))
	families := map[string]int{}
	for _, spec := range specs {
		var o specOrder
		for _, field := range fields[specs[0]] {
			inAll := !slices.ContainsFunc(specs, func(other int) bool { return !slices.Contains(fields[other], field) })
			if at := slices.Index(fields[spec], field); inAll && !slices.Contains(o.shared, at) {
				o.shared = append(o.shared, at)
			}
		}
		var others []string
		for at, field := range fields[spec] {
			if !slices.Contains(o.shared, at) {
				o.rest = append(o.rest, at)
				others = append(others, field)
			}
		}
		family := fmt.Sprintf("%q", others)
		if _, ok := families[family]; !ok {
			families[family] = spec
		}
		o.family = families[family]
		orders[spec] = o
	}
	return orders
}

// fieldTexts returns texts that identify those partition fields of a spec for which a split has
// values.
func (b *Bound) fieldTexts(spec int) []string {
	texts := []string{}
	for i, field := range b.Relation.Training.Specs[spec] {
		if i != b.BucketField(spec) {
			texts = append(texts, fmt.Sprint(field.Source, field.Transform))
		}
	}
	return texts
}

// pick returns the values at some indices.
func pick(values []any, at []int) []any {
	picked := make([]any, len(at))
	for i, k := range at {
		picked[i] = values[k]
	}
	return picked
}

// comparePartitions orders partition values: by value, nulls last.
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
