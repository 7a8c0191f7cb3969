package policy

import (
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/identity"
	"github.com/penstock/penstock/loader/dataset"
)

// Permission is something that a rule allows besides reading.
type Permission string

// Reading is what read and inline give. It is no word of allow.
const Reading Permission = "read"

// The actions that allow has words for.
const (
	Explain Permission = "explain" // show what a plan reads
	Verify  Permission = "verify"  // check the tables of a dataset
	Cache   Permission = "cache"   // list and drop what the server keeps in memory and on disk
	Stage   Permission = "stage"   // send rows to the tables that the rule has in write, and compact, restore and clean these
	Publish Permission = "publish" // move main of these tables to a branch, and back
	Promote Permission = "promote" // add columns to the training tables that the rule has in write, and drop these
	Status  Permission = "status"  // see the streams of all clients, and what the server has of memory and slots
)

// Actions returns the actions that rules allow.
func Actions() []Permission {
	return []Permission{Explain, Verify, Cache, Status, Stage, Publish, Promote}
}

// Writes reports whether an action changes tables, so that it needs a table in the rule's write.
func (p Permission) Writes() bool { return p == Stage || p == Publish || p == Promote }

// Policy is a list of access rules. It is immutable.
type Policy struct {
	// Groups has the patterns of the subjects of each group.
	Groups map[string][]string
	Rules  []AccessRule
	// Names completes the names of tables.
	Names Names
}

// AccessRule lists the rights of some clients.
type AccessRule struct {
	// Subjects, Groups and Claims select the clients: one of them must name the client. Subjects are patterns.
	Subjects []string
	Groups   []string
	Claims   map[string][]string // of a JWT: the values, one of which it has
	Read     []string            // patterns of the names of configured datasets
	Inline   []string            // patterns of the tables of datasets that clients send; see Names.Pattern
	Write    []string            // patterns of the tables that Stage, Publish and Promote of Allow are for; see Names.Pattern
	Allow    []Permission
	Tables   []TableLimits // that are not read whole, in any dataset of the rule
}

// TableLimits is what a rule does not let clients read of a table.
type TableLimits struct {
	Name     string         // [catalog.]namespace.table
	Withheld []string       // columns
	Filter   dataset.Filter // of the rows that may be read; zero: all
	Line     int            // of the policy's file; 0: unknown
}

// IsZero reports whether the whole table may be read.
func (t TableLimits) IsZero() bool { return len(t.Withheld) == 0 && t.Filter.IsZero() }

// Open returns the policy of a server without a policy file: every client may do everything, but may send its own datasets
// and write to tables only if inline is true.
func Open(inline bool) *Policy {
	r := AccessRule{Subjects: []string{"*"}, Read: []string{"*"}, Allow: Actions()}
	if inline {
		r.Inline, r.Write = []string{"*"}, []string{"*"}
	}
	return &Policy{Rules: []AccessRule{r}}
}

// Read returns the rights of a client to a configured dataset; false if it may not read it.
func (p *Policy) Read(who identity.Caller, name string) (Rights, bool) {
	r, may := p.readRule(who, name)
	if !may {
		return Rights{}, false
	}
	return p.rights(r), true
}

// readRule returns the rule that decides about a client and a configured dataset; false if there is none.
func (p *Policy) readRule(who identity.Caller, name string) (AccessRule, bool) {
	for _, r := range p.Rules {
		if p.names(r, who) && matchesOne(r.Read, name) {
			return r, true
		}
	}
	return AccessRule{}, false
}

// Inline returns the rights of a client to a dataset that it sends; false if it may not send one of these tables.
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

// Adds reports whether a client may add tables to a configured dataset: the rule that decides about the dataset decides.
func (p *Policy) Adds(who identity.Caller, name string, tables []string) bool {
	r, may := p.readRule(who, name)
	return may && !slices.ContainsFunc(tables, func(table string) bool { return !matchesOne(r.Inline, p.Names.Full(table)) })
}

// Write reports whether a client may change a table: the first rule that names both decides alone. Some catalogs do not
// distinguish cases: a rule that refuses a table refuses its name in another case too.
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

// Has reports whether a dataset names a table.
func (p *Policy) Has(d dataset.Dataset, table string) bool {
	return slices.ContainsFunc(tablesOf(d), func(name string) bool { return p.Names.Full(name) == p.Names.Full(table) })
}

// May reports whether some rule allows an action to a client.
func (p *Policy) May(who identity.Caller, action Permission) bool {
	return slices.ContainsFunc(p.Rules, func(r AccessRule) bool { return p.names(r, who) && slices.Contains(r.Allow, action) })
}

// Unmatched returns the patterns of read that match none of the given datasets, each once. It never returns "*", which also
// stands for datasets that are added later.
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

// names reports whether a rule is for a client.
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

// Matches reports whether a pattern matches a name: a "*" in the pattern stands for any characters, also none.
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
