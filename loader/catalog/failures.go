package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

// All implementations of Catalog return the errors in this file.

// UnknownTable returns the error NotFound for a table that does not exist. It suggests the known
// name that is most similar.
func UnknownTable(name string, known []string) *fault.Error {
	return unknown("table", name, known, "table %s does not exist", name).In(name, "")
}

// UnknownRef returns the error NotFound for a branch or tag that a table does not have.
func UnknownRef(table, ref string, known []string) *fault.Error {
	e := unknown("ref", ref, known, "table %s has no branch or tag %q", table, ref).In(table, "")
	if len(known) == 0 {
		return e.WithRemedy("it has no snapshot yet: read it without a ref")
	}
	return e.WithRemedy("name one of its refs: %s", strings.Join(known, ", "))
}

// SnapshotTime is the id of a snapshot and the time when it was committed.
type SnapshotTime struct {
	ID   int64
	Time time.Time
}

// listedSnapshots bounds the snapshots that an error lists.
const listedSnapshots = 10

// SnapshotTexts lists snapshots with their times, the newest first, for an error.
func SnapshotTexts(known []SnapshotTime) string {
	known = slices.Clone(known)
	slices.SortStableFunc(known, func(a, b SnapshotTime) int { return b.Time.Compare(a.Time) })
	var texts []string
	for _, k := range known[:min(len(known), listedSnapshots)] {
		texts = append(texts, fmt.Sprintf("%d of %s", k.ID, k.Time.UTC().Format(time.RFC3339)))
	}
	if more := len(known) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d older ones", more))
	}
	return strings.Join(texts, ", ")
}

// UnknownSnapshot returns the error NotFound for a snapshot id that the table does not have. The
// error lists the snapshots that the table has. The missing snapshot may have existed and expired.
func UnknownSnapshot(table string, id int64, known []SnapshotTime) *fault.Error {
	texts := make([]string, len(known))
	for i, k := range known {
		texts[i] = strconv.FormatInt(k.ID, 10)
	}
	e := unknown("snapshot", strconv.FormatInt(id, 10), texts, "table %s has no snapshot %d", table, id).In(table, "")
	if len(known) == 0 {
		return e.WithRemedy("the table has no snapshots")
	}
	return e.WithRemedy("its snapshots are %s", SnapshotTexts(known))
}

func unknown(field, name string, known []string, format string, args ...any) *fault.Error {
	f := fault.Field{Field: field, Message: fmt.Sprintf(format, args...), Nearest: fault.Nearest(name, known)}
	message := f
	message.Field = ""
	return &fault.Error{Kind: fault.NotFound, Message: message.String(), Faults: []fault.Field{f}}
}

// ExpiredSnapshot returns the error Expired for a pinned snapshot that no longer exists.
func ExpiredSnapshot(table string, id int64) *fault.Error {
	return fault.New(fault.Expired, "snapshot %d of table %s no longer exists", id, table).In(table, "").
		WithRemedy("plan again without this pin; keep snapshots for as long as runs need them: pin_tags in the block of the catalog does so")
}

// ExpiredSince returns the error Expired for snapshot gone, which lies between since and the pinned
// snapshot and no longer exists, so that its changes are unknown. Gone may be since itself.
func ExpiredSince(table string, gone, since int64) *fault.Error {
	return fault.New(fault.Expired, "snapshot %d of table %s no longer exists, and what was appended since %d cannot be determined without it", gone, table, since).
		In(table, "").WithRemedy("name a later snapshot, or read the whole table without since; keep snapshots for as long as readers need them")
}

// ForgottenParent returns the error Expired for a snapshot since that may or may not be an ancestor
// of the pinned snapshot: the parent of the oldest known ancestor has expired, so it is unknown.
func ForgottenParent(table string, oldest, since int64) *fault.Error {
	return fault.New(fault.Expired, "the parent of snapshot %d of table %s has expired, and what was appended since %d cannot be determined without it", oldest, table, since).
		In(table, "").WithRemedy("name %d or a later snapshot, or read the whole table without since; keep snapshots for as long as readers need them", oldest)
}

// NotAnAncestor returns the error Invalid for a snapshot since that is not an ancestor of the
// pinned snapshot. The list ancestors begins with the pinned snapshot, followed by its ancestors,
// newest first. Newest is the first snapshot of this list that is also an ancestor of since, or 0
// if there is none.
func NotAnAncestor(table string, since int64, ancestors []int64, newest int64) *fault.Error {
	if len(ancestors) == 0 {
		return fault.InvalidField("since", "table %s has no snapshot to read, and none since %d", table, since).In(table, "").
			WithRemedy("leave since out")
	}
	texts := make([]string, len(ancestors))
	for i, a := range ancestors {
		texts[i] = strconv.FormatInt(a, 10)
	}
	e := fault.InvalidField("since", "snapshot %d is not an ancestor of snapshot %d of table %s, the one that is read", since, ancestors[0], table).In(table, "")
	e.Faults[0].Nearest = fault.Nearest(strconv.FormatInt(since, 10), texts)
	if newest != 0 {
		e.Faults[0].Nearest = strconv.FormatInt(newest, 10)
	}
	listed := strings.Join(texts[:min(len(texts), listedAncestors)], ", ")
	if len(texts) > listedAncestors {
		listed += " …"
	}
	if newest != 0 {
		return e.WithRemedy("name %d, the newest ancestor of both, or another one of %s", newest, listed)
	}
	return e.WithRemedy("name one of its ancestors: %s", listed)
}

// listedAncestors bounds how many ancestors an error lists.
const listedAncestors = 5

// NotAppended returns the error Invalid for a snapshot after since that did more than append rows.
func NotAppended(table string, snapshot, since int64, operation, what string) *fault.Error {
	if operation == "" {
		operation = "no operation"
	}
	return fault.InvalidField("since", "snapshot %d of table %s (%s) %s after snapshot %d: changes since then are not only appends",
		snapshot, table, operation, what, since).In(table, "").
		WithRemedy("name since %d or a later snapshot, or read the whole table without since", snapshot)
}

// ExpiredSchema returns the error Expired for a pinned schema that no longer exists.
func ExpiredSchema(table string, id int) *fault.Error {
	return fault.New(fault.Expired, "schema %d of table %s no longer exists", id, table).In(table, "").
		WithRemedy("plan again without this pin")
}

// ExpiredMapping returns the error Expired for a pinned name mapping that the table no longer has.
func ExpiredMapping(table string) *fault.Error {
	return fault.New(fault.Expired, "the name mapping of table %s, which applies to its files without field ids, has changed", table).In(table, "").
		WithRemedy("plan again without this pin")
}

// RecreatedTable returns the error Expired for a pinned table if another table has its name now.
func RecreatedTable(table, pinned, now string) *fault.Error {
	return fault.New(fault.Expired, "table %s was dropped and created again: the pin is of table %s, and its name now belongs to table %s",
		table, pinned, now).In(table, "").WithRemedy("plan again without this pin; if a staging entry names another table than before, give it another name too")
}

// LacksRequired returns the error Corrupt for a file that is older than a column which is required
// and has no initial default.
func LacksRequired(table, file, column string) *fault.Error {
	return fault.New(fault.Corrupt,
		"file %s of table %s was written before column %q, which the table requires and has no initial default for",
		file, table, column).In(table, file).
		WithRemedy("rewrite the files that are older than the column, or leave it out")
}

// Parts splits a name into its parts: a namespace of at least one part, and the table. A
// name without a namespace or with an empty part is Invalid.
func Parts(name string) ([]string, error) {
	parts := strings.Split(name, ".")
	if len(parts) < 2 {
		return nil, fault.InvalidField("table", "%q has no namespace", name).In(name, "").
			WithRemedy("write [catalog.]namespace.table")
	}
	if slices.Contains(parts, "") {
		return nil, fault.InvalidField("table", "%q has an empty part", name).In(name, "").
			WithRemedy("write [catalog.]namespace.table")
	}
	return parts, nil
}
