package dataset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Differences says in what the plans of two cursors differ, a's value first:
// "seed (7, not 8)", "pin.staging.history snapshot (12, not 15)". Shard, step
// and positions do not belong to the plan. Equal plans give nil.
func Differences(a, b Cursor) []string {
	var l differences
	l.add("algorithm", strconv.Itoa(a.Algorithm), strconv.Itoa(b.Algorithm))
	l.add("dataset", a.Dataset, b.Dataset)
	l.add("filter", a.Filter, b.Filter)
	l.add("sample", a.Sample, b.Sample)
	l.add("since", orNone(a.Since), orNone(b.Since))
	l.add("order", string(a.Order), string(b.Order))
	l.add("shuffle", string(a.Shuffle), string(b.Shuffle))
	l.add("shuffle_window", orNone(a.ShuffleWindow), orNone(b.ShuffleWindow))
	l.add("seed", strconv.FormatInt(a.Seed, 10), strconv.FormatInt(b.Seed, 10))
	l.add("epoch", strconv.FormatInt(a.Epoch, 10), strconv.FormatInt(b.Epoch, 10))
	l.add("lanes", strconv.Itoa(a.Lanes), strconv.Itoa(b.Lanes))
	l.add("batches of", a.unit(), b.unit())
	l.table("pin.training", a.Pin.Training, b.Pin.Training)
	both := maps.Clone(a.Pin.Staging)
	if both == nil {
		both = map[string]TablePin{}
	}
	maps.Copy(both, b.Pin.Staging)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		before, in := a.Pin.Staging[name]
		after, out := b.Pin.Staging[name]
		path := join("pin.staging", name)
		switch {
		case !in:
			l = append(l, path+" (none, not "+after.UUID+")")
		case !out:
			l = append(l, path+" ("+before.UUID+", not none)")
		default:
			l.table(path, before, after)
		}
	}
	return l
}

// unit is what its lanes give equal numbers of.
func (c Cursor) unit() string {
	if c.Requests {
		return "requests"
	}
	return "rows"
}

type differences []string

func (l *differences) add(name, a, b string) {
	if a == b {
		return
	}
	a, b = cmp.Or(a, "none"), cmp.Or(b, "none")
	*l = append(*l, fmt.Sprintf("%s (%s, not %s)", name, shorten(a, 80), shorten(b, 80)))
}

// table compares two pins of one table. What another table holds otherwise
// says nothing.
func (l *differences) table(path string, a, b TablePin) {
	if a.UUID != b.UUID {
		l.add(path+" table", a.UUID, b.UUID)
		return
	}
	l.add(path+" snapshot", snapshot(a.Snapshot), snapshot(b.Snapshot))
	l.add(path+" schema", strconv.Itoa(a.Schema), strconv.Itoa(b.Schema))
	l.add(path+" mapping", a.Mapping, b.Mapping)
}

// orNone is a number, or nothing for 0.
func orNone(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func snapshot(id int64) string {
	if id == NoSnapshot {
		return "none"
	}
	return strconv.FormatInt(id, 10)
}
