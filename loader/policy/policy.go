package policy

import (
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/identity"
	"github.com/penstock/penstock/loader/dataset"
)

// Permission is something that a rule allows besides reading.
type Permission string

// Reading is the permission that the read and inline fields of a rule give. The allow field cannot list it.
const Reading Permission = "read"

// The actions that the allow field of a rule can list.
const (
	Explain Permission = "explain" // show what a plan reads
	Verify  Permission = "verify"  // check the tables of a dataset
	Cache   Permission = "cache"   // list and drop what the server keeps in memory and on disk
	Stage   Permission = "stage"   // send rows to the tables in the rule's write field, compact and restore them, and remove their orphan files
	Publish Permission = "publish" // move main of these tables to a branch, and undo a stage or a publish
	Promote Permission = "promote" // add columns to the training tables in the rule's write field, and drop these columns
	Status  Permission = "status"  // see the streams of all clients, and the memory and slots of the server
)

// Actions returns the actions that rules can allow.
func Actions() []Permission {
	return []Permission{Explain, Verify, Cache, Status, Stage, Publish, Promote}
}

// Writes reports whether an action changes tables. Such an action is allowed only for tables in the rule's write field.
func (p Permission) Writes() bool { return p == Stage || p == Publish || p == Promote }

// Policy is a list of access rules. It is immutable.
type Policy struct {
	// Groups maps the name of each group to patterns of its subjects.
	Groups map[string][]string
	Rules  []AccessRule
	// Names adds the catalog to names of tables that do not have one.
	Names Names
}

// AccessRule lists the rights of some clients.
type AccessRule struct {
	// Subjects, Groups and Claims select the clients: one of them must match the client. Subjects are patterns.
	Subjects []string
	Groups   []string
	Claims   map[string][]string // for each claim of a JWT, the values that match
	Read     []string            // patterns of the names of configured datasets
	Inline   []string            // patterns of the tables of datasets that clients send; see Names.Pattern
	Write    []string            // patterns of the tables for which Allow's Stage, Publish and Promote hold; see Names.Pattern
	Allow    []Permission
	Tables   []TableLimits // tables that clients may read only in part, in any dataset of the rule
}

// TableLimits describes which part of a table a rule lets clients read.
type TableLimits struct {
	Name     string         // [catalog.]namespace.table
	Withheld []string       // columns that may not be read
	Filter   dataset.Filter // matches the rows that may be read; zero: all
	Line     int            // in the policy file; 0: unknown
}

// IsZero reports whether the whole table may be read.
func (t TableLimits) IsZero() bool { return len(t.Withheld) == 0 && t.Filter.IsZero() }

// Open returns the policy of a server without a policy file. It allows every client all actions and all configured datasets.
// Only if inline is true may clients also send datasets of their own and write to tables.
func Open(inline bool) *Policy {
	r := AccessRule{Subjects: []string{"*"}, Read: []string{"*"}, Allow: Actions()}
	if inline {
		r.Inline, r.Write = []string{"*"}, []string{"*"}
	}
	return &Policy{Rules: []AccessRule{r}}
}

// Read returns the rights of a client to a configured dataset. It returns false if the client may
// not read the dataset.
func (p *Policy) Read(who identity.Caller, name string) (Rights, bool) {
	r, may := p.readRule(who, name)
	if !may {
		return Rights{}, false
	}
	return p.rights(r), true
}

// readRule returns the first rule that lets a client read a configured dataset; false if there is none.
func (p *Policy) readRule(who identity.Caller, name string) (AccessRule, bool) {
	for _, r := range p.Rules {
		if p.names(r, who) && matchesOne(r.Read, name) {
			return r, true
		}
	}
	return AccessRule{}, false
}

// Inline returns the rights of a client to a dataset that it sends; false if no rule allows all tables of the dataset.
func (p *Policy) Inline(who identity.Caller, d dataset.Dataset) (Rights, bool) {
	for _, r := range p.Rules {
		all := len(r.Inline) > 0 && p.names(r, who)
		for _, table := range tablesOf(d) {
			all = all && matchesOne(r.Inline, p.Names.Full(table))
		}
		if all {
			return p.rights(r), true
		}
	}
	return Rights{}, false
}

// Adds reports whether a client may add tables to a configured dataset. The rule that lets the client read the dataset decides.
func (p *Policy) Adds(who identity.Caller, name string, tables []string) bool {
	r, may := p.readRule(who, name)
	return may && !slices.ContainsFunc(tables, func(table string) bool { return !matchesOne(r.Inline, p.Names.Full(table)) })
}

// Write reports whether a client may change a table. The first rule that names both decides. Some catalogs ignore case, so a
// rule that refuses a table also refuses names that differ from it only in case.
func (p *Policy) Write(who identity.Caller, table string, action Permission) bool {
	full := p.Names.Full(table)
	for _, r := range p.Rules {
		if !p.names(r, who) {
			continue
		}
		may := action.Writes() && slices.Contains(r.Allow, action)
		if matchesOne(r.Write, full) || !may && matchesOne(lowered(r.Write), strings.ToLower(full)) {
			return may
		}
	}
	return false
}

// lowered returns texts in lower case.
func lowered(texts []string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = strings.ToLower(text)
	}
	return out
}

// Has reports whether a dataset names a table. The table may be given with or without the default
// catalog.
func (p *Policy) Has(d dataset.Dataset, table string) bool {
	return slices.ContainsFunc(tablesOf(d), func(name string) bool { return p.Names.Full(name) == p.Names.Full(table) })
}

// May reports whether some rule allows an action to a client.
func (p *Policy) May(who identity.Caller, action Permission) bool {
	return slices.ContainsFunc(p.Rules, func(r AccessRule) bool { return p.names(r, who) && slices.Contains(r.Allow, action) })
}

// Unmatched returns the patterns in the read fields of rules that match none of the given datasets, without duplicates. It
// never returns "*", which also stands for datasets that are added later.
func (p *Policy) Unmatched(datasets []string) []string {
	var out []string
	for _, r := range p.Rules {
		for _, pattern := range r.Read {
			matched := slices.ContainsFunc(datasets, func(name string) bool { return Matches(pattern, name) })
			if !matched && pattern != "*" && !slices.Contains(out, pattern) {
				out = append(out, pattern)
			}
		}
	}
	return out
}

// names reports whether a rule applies to a client.
func (p *Policy) names(r AccessRule, who identity.Caller) bool {
	if matchesOne(r.Subjects, who.Subject) {
		return true
	}
	for _, group := range r.Groups {
		if matchesOne(p.Groups[group], who.Subject) {
			return true
		}
	}
	for claim, values := range r.Claims {
		if slices.ContainsFunc(values, func(v string) bool { return slices.Contains(who.Claims[claim], v) }) {
			return true
		}
	}
	return false
}

// tablesOf returns the names of a dataset's tables.
func tablesOf(d dataset.Dataset) []string {
	out := []string{d.Training.Table}
	for _, s := range d.Staging {
		out = append(out, s.Table)
	}
	return out
}

func matchesOne(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return Matches(pattern, name) })
}

// Matches reports whether a pattern matches a name: a "*" in the pattern stands for any number of characters, including none.
func Matches(pattern, name string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	name, ok := strings.CutPrefix(name, first)
	if !ok || !star {
		return ok && name == ""
	}
	for {
		part, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(name, part)
		}
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		name, rest = name[at+len(part):], after
	}
}
