package stage

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/batch"
	"github.com/penstock/penstock/internal/fault"
)

// repeatedKeys counts repeated keys, and keeps the first ones for the error.
type repeatedKeys struct {
	check  *keyCheck
	stored bool // the table has the keys; otherwise, several new rows have them
	keys   int64
	shown  []string
}

// shownKeys is the number of keys that an error shows, and maxShownKey the maximum number of
// characters of each.
const (
	shownKeys   = 3
	maxShownKey = 60
)

func (r *repeatedKeys) add(at *keyCursor) {
	if r.keys++; len(r.shown) >= shownKeys {
		return
	}
	var values []string
	for i := range r.check.columns {
		values = append(values, batch.Text(at.batch.Column(i), at.row))
	}
	r.shown = append(r.shown, strings.Clone(fault.Shorten(strings.Join(values, ", "), maxShownKey))) // the values point into the batch
}

// describe returns the columns and the first keys.
func (r *repeatedKeys) describe() string {
	var names []string
	for i := range r.check.columns {
		names = append(names, r.check.schema.Field(i).Name)
	}
	text := strings.Join(names, ", ") + " = " + strings.Join(r.shown, "; ")
	if r.keys > int64(len(r.shown)) {
		text += "; …"
	}
	return text
}

// within returns the words of an error that limit it to one partition, or "" if the check is not
// aligned.
func (r *repeatedKeys) within() string {
	if r.check.aligned {
		return " in one partition"
	}
	return ""
}

// remedy returns how a call with repeated keys can be changed. Only a call that creates a table can
// choose its order, which decides nothing for a dataset that takes one row of each key.
func (r *repeatedKeys) remedy() string {
	call := r.check.call
	way := "leave out the repeated rows"
	switch {
	case call.stored:
		way = "restore the whole table, or the partitions that have these keys now too"
	case r.stored:
		way = "leave out the rows that the table has, replace its partitions with mode replace"
	}
	switch {
	case len(call.readers) > 0:
		way += ", read them with duplicates: last and order_by in the dataset's entry"
	case call.creates == nil || r.stored:
	case len(call.request.Sort) > 0:
		way += ", add the column that orders the rows of a key to sort (--sort)"
	default:
		way += fmt.Sprintf(", name the column that orders the rows of a key in sort (--sort %s,COLUMN)", strings.Join(call.request.Key, ","))
	}
	if len(call.readers) == 0 {
		way += ", add the dataset to the config file first if this is its training table"
	}
	return way + ", or allow them with allow_duplicates (--allow-duplicates)"
}

// err returns the error for repeated keys, or nil if there are none. If the call allows repeated
// keys, err keeps them for the result instead, and returns nil.
func (r *repeatedKeys) err() error {
	call := r.check.call
	switch {
	case r.keys == 0:
		return nil
	case call.request.AllowDuplicates:
		r.check.allowed = r
		return nil
	}
	return fault.InvalidField("key", "%s, and %s needs one row of each key: %s", r, r.check.needs, r.describe()).
		In(call.request.Table, "").WithRemedy("%s", r.remedy())
}

// String returns how many keys are repeated, and where.
func (r *repeatedKeys) String() string {
	if r.stored {
		return plural(r.keys, "key of the rows is", "keys of the rows are") + " in table " + r.check.call.request.Table + " already" + r.within()
	}
	return plural(r.keys, "key has several", "keys have several") + " of the rows" + r.within()
}

// BrokenRule is the error of an entry of a dataset whose rule duplicates: error the rows of a call
// break, although the call allows this.
type BrokenRule struct {
	Dataset, Entry string
	Err            error
}

// brokenRules returns the entries whose rule is broken, and that the caller may know.
func (c *staging) brokenRules() []BrokenRule {
	var out []BrokenRule
	for _, r := range c.readers {
		u, ok := r.unique(c.target)
		at := slices.IndexFunc(c.checks, func(k *keyCheck) bool { return ok && k.equal(u) })
		if r.Dataset == "" || at < 0 || c.checks[at].allowed == nil {
			continue
		}
		found := c.checks[at].allowed
		out = append(out, BrokenRule{r.Dataset, r.Entry, fault.New(fault.Invalid,
			"%s, and with duplicates: error, a stream ends at a training row with such a key: %s", found, found.describe()).
			In(c.shown, "").WithRemedy("set duplicates: last and order_by in the dataset's entry")})
	}
	return out
}

func plural(n int64, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatInt(n, 10) + " " + several
}
