package decode

import (
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/joiner/rule"
	"github.com/penstock/penstock/loader/dataset"
)

// requestName is the name of the training table's request-level columns on the wire. It
// is reserved: staging tables cannot use it.
const requestName = "request"

// readNamed decodes a dataset of a config file.
func readNamed(d *decoder, name string, at place) dataset.Dataset {
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, isControl) {
		d.fail(at.path, "a dataset's name has 1 to %d bytes and no control characters", maxName)
	}
	out := readDataset(d, at)
	out.Name = name
	return out
}

// readDataset decodes a dataset and sets its defaults.
func readDataset(d *decoder, at place) dataset.Dataset {
	var out dataset.Dataset
	object(d, at, &out, []field[dataset.Dataset]{
		{name: "training", also: []string{"train", "left", "base"}, must: true, read: func(d *decoder, at place, out *dataset.Dataset) { out.Training = readTraining(d, at) }},
		{name: "key", also: meantByKey(), read: func(d *decoder, at place, out *dataset.Dataset) { out.Key = d.key(at) }},
		{name: "staging", also: []string{"joins", "right", "tables", "features"}, read: func(d *decoder, at place, out *dataset.Dataset) {
			out.Staging = list(d, at, dataset.MaxStaging, readStaging)
		}},
		{name: "computed", also: []string{"expressions", "derived", "formulas", "transforms"}, read: func(d *decoder, at place, out *dataset.Dataset) {
			out.Computed = list(d, at, maxColumns, readComputed)
		}},
		{name: "fitted", also: []string{"lists", "vocabularies"}, read: func(d *decoder, at place, out *dataset.Dataset) { out.Fitted = readFitted(d, at) }},
	})
	if len(out.Staging) == 0 {
		out.Staging = nil
	}
	if len(out.Computed) == 0 {
		out.Computed = nil
	}
	out = out.Defaults()
	checkKeys(d, at, out)
	checkRequest(d, at, out)
	checkNames(d, at.pathOf("staging"), out.Staging)
	return out
}

// meantByKey returns the names that other programs use for a field with the key columns of a join.
func meantByKey() []string {
	return []string{"on", "keys", "using", "left_on", "right_on", "join_key", "primary_key"}
}

// checkKeys reports staging tables without a key. It skips entries that are not objects,
// which have a fault already.
func checkKeys(d *decoder, at place, out dataset.Dataset) {
	for i, s := range out.Staging {
		path := at.pathOf("staging") + indexed(i)
		if len(s.Key) == 0 && d.sound(at.pathOf("key"), fault.FieldPath(path, "key")) && !d.faulty(path) {
			d.fail(fault.FieldPath(path, "key"), "missing; name the columns here, or as the dataset's key")
		}
	}
}

// readRequestLevel decodes the names of columns that are constant within a request.
func readRequestLevel(d *decoder, at place) []string {
	names := list(d, at, maxColumns, (*decoder).name)
	if at.kind == kindList && len(at.items) == 0 {
		d.fail(at.path, "must name at least one column; leave the field out for none")
	}
	for i, name := range names {
		if slices.Index(names, name) < i {
			d.fail(at.path+indexed(i), "%q is listed twice", name)
		}
	}
	return names
}

// checkRequest reports request-level columns of a dataset without a key, which defines
// its requests.
func checkRequest(d *decoder, at place, out dataset.Dataset) {
	path := fault.FieldPath(at.pathOf("training"), "request_level")
	if len(out.Training.RequestLevel) > 0 && len(out.Key) == 0 && d.sound(at.pathOf("key"), path) {
		d.fail(path, "the dataset has no key, which tells requests apart; name its columns as the dataset's key")
	}
}

// checkNames reports staging tables with reserved or duplicate names. Names must be unique because
// each is the name of an indexed column.
func checkNames(d *decoder, list string, entries []dataset.Staging) {
	for i, s := range entries {
		path := fault.FieldPath(list+indexed(i), "name")
		if s.Name == requestName {
			d.fail(path, "%q is reserved for the training table's columns; choose another name", s.Name)
		}
		first := slices.IndexFunc(entries, func(o dataset.Staging) bool { return o.Name == s.Name })
		if s.Name != "" && first < i {
			d.fail(path, "%q is already the name of %s; rename one of them", s.Name, list[strings.LastIndexByte(list, '.')+1:]+indexed(first))
		}
	}
}

func readTraining(d *decoder, at place) dataset.Training {
	var out dataset.Training
	object(d, at, &out, []field[dataset.Training]{
		{name: "table", also: []string{"identifier", "source", "path"}, must: true, read: func(d *decoder, at place, out *dataset.Training) { out.Table = d.table(at) }},
		{name: "ref", also: []string{"branch", "tag"}, read: func(d *decoder, at place, out *dataset.Training) { out.Ref.Name = readRef(d, at) }},
		{name: "snapshot", also: []string{"snapshot_id", "version"}, read: func(d *decoder, at place, out *dataset.Training) { out.Ref.Snapshot = d.snapshotID(at, 1) }},
		{name: "as_of"},
		{name: "filter", also: []string{"where", "predicate"}, read: func(d *decoder, at place, out *dataset.Training) { out.Filter = d.filter(at) }},
		{name: "request_level", read: func(d *decoder, at place, out *dataset.Training) { out.RequestLevel = readRequestLevel(d, at) }},
		{name: "distinct", read: func(d *decoder, at place, out *dataset.Training) { out.Distinct = readDistinct(d, at) }},
		{name: "limits", also: []string{"expectations", "checks"}, read: func(d *decoder, at place, out *dataset.Training) { out.Limits = readValueLimits(d, at) }},
	})
	checkRef(d, at, out.Ref)
	return out
}

func readStaging(d *decoder, at place) dataset.Staging {
	var out dataset.Staging
	object(d, at, &out, slices.Concat(tableFields(), matchFields(), timeFields(), effortFields()))
	checkRef(d, at, out.Ref)
	checkOutputs(d, at.pathOf("columns"), out.Prefix, out.Columns)
	noCategories(d, at.pathOf("columns"), out.Columns, "category belongs to a query, not to a dataset; write it in the query's columns")
	checkRules(d, at, out)
	return out
}

// tableFields are the fields that select rows and columns of a staging table.
func tableFields() []field[dataset.Staging] {
	return []field[dataset.Staging]{
		{name: "table", also: []string{"identifier", "source", "path"}, must: true, read: func(d *decoder, at place, out *dataset.Staging) { out.Table = d.table(at) }},
		{name: "name", read: func(d *decoder, at place, out *dataset.Staging) { out.Name = d.name(at) }},
		{name: "ref", also: []string{"branch", "tag"}, read: func(d *decoder, at place, out *dataset.Staging) { out.Ref.Name = readRef(d, at) }},
		{name: "snapshot", also: []string{"snapshot_id", "version"}, read: func(d *decoder, at place, out *dataset.Staging) { out.Ref.Snapshot = d.snapshotID(at, 1) }},
		{name: "as_of"},
		{name: "filter", also: []string{"where", "predicate"}, read: func(d *decoder, at place, out *dataset.Staging) { out.Filter = d.filter(at) }},
		{name: "key", also: meantByKey(), read: func(d *decoder, at place, out *dataset.Staging) { out.Key = readKeyPairs(d, at) }},
		{name: "columns", also: []string{"select", "features", "fields"}, read: func(d *decoder, at place, out *dataset.Staging) {
			out.Columns = list(d, at, maxColumns, readStagingColumn)
		}},
		{name: "prefix", read: func(d *decoder, at place, out *dataset.Staging) { out.Prefix = readPrefix(d, at) }},
		{name: "limits", also: []string{"expectations", "checks"}, read: func(d *decoder, at place, out *dataset.Staging) { out.Limits = readValueLimits(d, at) }},
	}
}

// matchFields are the fields that define the result for a training row with one match, several
// matches or no match.
func matchFields() []field[dataset.Staging] {
	return []field[dataset.Staging]{
		{name: "join", also: []string{"how", "type", "join_type"}, read: func(d *decoder, at place, out *dataset.Staging) {
			out.Join = word(d, at, rule.Kinds())
		}},
		{name: "nulls", read: func(d *decoder, at place, out *dataset.Staging) {
			out.Nulls = word(d, at, rule.AllNulls())
		}},
		{name: "missing", also: []string{"on_missing", "fill", "default", "defaults", "fillna"}, read: func(d *decoder, at place, out *dataset.Staging) { out.Missing, out.Defaults = readMissing(d, at) }},
		{name: "duplicates", also: []string{"dedup", "deduplicate", "on_duplicate"}, read: func(d *decoder, at place, out *dataset.Staging) {
			out.Duplicates = word(d, at, rule.AllDuplicates())
		}},
		{name: "order_by", also: []string{"sort", "sort_by"}, read: func(d *decoder, at place, out *dataset.Staging) { out.OrderBy = readOrderBy(d, at) }},
		{name: "min_match", read: func(d *decoder, at place, out *dataset.Staging) {
			out.MinMatch = d.number(at, 0, 1)
			out.AnyMatch = out.MinMatch == 0
		}},
		{name: "matched_as", also: []string{"indicator"}, read: func(d *decoder, at place, out *dataset.Staging) { out.MatchedAs = d.name(at) }},
	}
}

func checkRef(d *decoder, at place, ref dataset.Ref) {
	if ref.Name != "" && ref.Snapshot != 0 {
		d.fail(at.pathOf("snapshot"), "ref and snapshot cannot be combined; keep one of them")
	}
}

// checkOutputs reports columns that would have the same name in the stream.
func checkOutputs(d *decoder, path, prefix string, columns []dataset.Column) {
	first := map[string]int{}
	for i, c := range columns {
		name := c.Output()
		if c.Name == "" {
			name = prefix + name
		}
		before, ok := first[name]
		if ok && c.Output() != "" { // an empty name has a fault already
			d.fail(path+indexed(i), "columns[%d] already has the name %q; rename one of them", before, name)
			continue
		}
		first[name] = i
	}
}

// table decodes the name of a table, [catalog.]namespace.table.
func (d *decoder) table(at place) string {
	name := d.name(at)
	parts := strings.Split(name, ".")
	switch {
	case at.kind != kindText || name == "":
	case len(parts) < 2:
		d.fail(at.path, "%q has no namespace; write namespace.table, as `penstock tables` lists it", fault.Shorten(name, 80))
	case slices.Contains(parts, ""):
		d.fail(at.path, "%q has an empty part; write namespace.table", fault.Shorten(name, 80))
	case strings.ContainsAny(name, " \"`"):
		d.fail(at.path, "%q has spaces or quotes, which table names cannot contain", fault.Shorten(name, 80))
	}
	return name
}

// readRef decodes the name of a branch or tag. It returns "" for main.
func readRef(d *decoder, at place) string {
	name := d.name(at)
	if name == dataset.MainBranch {
		return ""
	}
	return name
}

func readPrefix(d *decoder, at place) string {
	if at.kind == kindText && at.text == "" {
		return ""
	}
	return d.name(at)
}

// key decodes the names of key columns that are the same in both tables.
func (d *decoder) key(at place) []string {
	names := list(d, at, maxKeys, (*decoder).name)
	if at.kind == kindList && len(at.items) == 0 {
		d.fail(at.path, "must name at least one column")
	}
	for i, name := range names {
		if first := slices.Index(names, name); first < i {
			d.fail(at.path+indexed(i), "%q is already a key column", name)
		}
	}
	return names
}

// readKeyPairs decodes the key of a staging table: a list of names, or an object from training
// columns to staging columns. The order of the object's members is kept.
func readKeyPairs(d *decoder, at place) []dataset.KeyPair {
	if at.kind != kindObject {
		var pairs []dataset.KeyPair
		for _, name := range d.key(at) {
			pairs = append(pairs, dataset.KeyPair{Training: name, Staging: name})
		}
		return pairs
	}
	if len(at.members) == 0 || len(at.members) > maxKeys {
		d.fail(at.path, "must have 1 to %d columns, not %d", maxKeys, len(at.members))
		return nil
	}
	var pairs []dataset.KeyPair
	for _, m := range at.members {
		p := dataset.KeyPair{Training: m.name, Staging: d.name(at.member(m))}
		if p.Training == "" || len(p.Training) > maxName || strings.ContainsFunc(p.Training, isControl) {
			d.fail(at.member(m).path, "a column's name has 1 to %d bytes and no control characters", maxName)
		}
		if slices.ContainsFunc(pairs, func(o dataset.KeyPair) bool { return o.Staging == p.Staging }) {
			d.fail(at.member(m).path, "%q is already a key column", p.Staging)
		}
		pairs = append(pairs, p)
	}
	return pairs
}

// faulty reports whether there is a fault at exactly this path. Faults of values inside the value
// do not count.
func (d *decoder) faulty(path string) bool {
	return slices.ContainsFunc(d.faults, func(f fault.Field) bool { return f.Field == path })
}
