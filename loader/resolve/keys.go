package resolve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock/penstock/internal/bucket"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

// keys binds the pairs of key columns of a staging entry.
func (b *binder) keys(training, staging *catalog.Table, pairs []dataset.KeyPair, at string) []Key {
	at += ".key"
	keys := make([]Key, 0, len(pairs))
	for i, pair := range pairs {
		t, okT := training.Field(pair.Training)
		s, okS := staging.Field(pair.Staging)
		switch {
		case !okS && !okT:
			b.noPair(training, staging, pairs, i, at)
		case !okS:
			b.noKey(staging, pair.Staging, t, at, func(column string) string {
				return keyWith(pairs, i, dataset.KeyPair{Training: t.Name, Staging: column})
			})
		case !okT:
			b.noKey(training, pair.Training, s, at, func(column string) string {
				return keyWith(pairs, i, dataset.KeyPair{Training: column, Staging: s.Name})
			})
		default:
			b.pair(training, staging, Key{Training: t, Staging: s}, func(column string) string {
				if slices.ContainsFunc(pairs, func(p dataset.KeyPair) bool { return p.Staging == column }) {
					return ""
				}
				return keyWith(pairs, i, dataset.KeyPair{Training: pair.Training, Staging: column})
			}, at)
			keys = append(keys, Key{Training: t, Staging: s})
		}
	}
	return keys
}

// pair checks that values of a pair of columns can be equal. with returns the entry's key with
// another staging column in place of this one, or "" if the key already has that column.
func (b *binder) pair(training, staging *catalog.Table, k Key, with func(column string) string, at string) {
	t, s := k.Training, k.Staging
	switch {
	case !bucket.Supported(t.Type):
		b.fault(at, "", "column %s.%s of type %s cannot be a key: keys are integers, dates, times, timestamps, decimals, strings or binary values", training.Name, t.Name, t.Type)
	case !bucket.Comparable(t.Type, s.Type):
		near := evident(t, staging)
		remedy := fmt.Sprintf("rewrite %s with %s as %s", staging.Name, s.Name, t.Type)
		if bucketSources(staging)[s.ID] {
			remedy += ", bucketed by it again"
		}
		key := with(near)
		if key == "" {
			near = ""
		}
		if near != "" {
			remedy = fmt.Sprintf("if %s is the same key, write %s; else %s", near, key, remedy)
		}
		b.fault(at, near, "%s.%s is %s and %s.%s is %s: keys of these types cannot be equal, and are not cast, since a value of another type is in another bucket; %s",
			training.Name, t.Name, t.Type, staging.Name, s.Name, s.Type, remedy)
	}
}

// noKey reports that a table lacks a key column, and suggests a likely column of the table, if any.
// other is the key column of the other table. with returns the key with another column in place of
// this one.
func (b *binder) noKey(t *catalog.Table, name string, other catalog.Field, at string, with func(column string) string) {
	near := likely(other, t)
	if near == "" || withoutLineage(t, name) != "" {
		b.column(t, name, at)
		return
	}
	b.fault(at, near, "table %s has no column %q; write %s if that is the same key", t.Name, name, with(near))
}

// noPair reports a key pair whose two columns do not exist, and whether the swapped pair exists.
func (b *binder) noPair(training, staging *catalog.Table, pairs []dataset.KeyPair, i int, at string) {
	turned := dataset.KeyPair{Training: pairs[i].Staging, Staging: pairs[i].Training}
	_, okT := training.Field(turned.Training)
	_, okS := staging.Field(turned.Staging)
	if !okT || !okS {
		b.column(training, pairs[i].Training, at)
		b.column(staging, pairs[i].Staging, at)
		return
	}
	b.fault(at, "", "%s is a column of table %s and %s one of the training table %s: the training column comes first; write %s",
		turned.Staging, staging.Name, turned.Training, training.Name, keyWith(pairs, i, turned))
}

// likely returns the column of a table that probably corresponds to a key column of the other
// table: the evident one, or else the only column of the same type. It returns "" if there is none.
func likely(key catalog.Field, in *catalog.Table) string {
	if found := evident(key, in); found != "" {
		return found
	}
	if alike := ofType(key.Type, in); len(alike) == 1 {
		return alike[0].Name
	}
	return ""
}

// evident returns the only column of the key's type by which the table is bucketed, or else the
// column of that type with the most similar name.
func evident(key catalog.Field, in *catalog.Table) string {
	sources := bucketSources(in)
	var alike, bucketed []string
	for _, f := range ofType(key.Type, in) {
		alike = append(alike, f.Name)
		if sources[f.ID] {
			bucketed = append(bucketed, f.Name)
		}
	}
	if len(bucketed) == 1 {
		return bucketed[0]
	}
	if slices.Contains(alike, key.Name) {
		return key.Name
	}
	return fault.Nearest(key.Name, alike)
}

// bucketSources returns the columns by which a table is bucketed, by field id.
func bucketSources(t *catalog.Table) map[int]bool {
	sources := map[int]bool{}
	for _, spec := range t.Specs {
		for _, f := range spec {
			if f.Transform.Kind == catalog.Bucket {
				sources[f.Source] = true
			}
		}
	}
	return sources
}

// ofType returns the columns of a table whose values can be equal to values of a type.
func ofType(t arrow.DataType, in *catalog.Table) []catalog.Field {
	var out []catalog.Field
	for _, f := range in.Fields {
		if bucket.Comparable(t, f.Type) {
			out = append(out, f)
		}
	}
	return out
}

// keyWith returns the entry's key as it is written in a dataset file, with another pair at position
// i.
func keyWith(pairs []dataset.KeyPair, i int, pair dataset.KeyPair) string {
	pairs = slices.Clone(pairs)
	pairs[i] = pair
	texts := make([]string, len(pairs))
	for k, p := range pairs {
		texts[k] = fmt.Sprintf("%s: %s", p.Training, p.Staging)
	}
	return "key: {" + strings.Join(texts, ", ") + "}"
}
