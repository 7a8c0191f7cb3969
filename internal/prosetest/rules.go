package prosetest

import (
	"regexp"
	"strings"
)

// rule is one wrong form.
type rule struct {
	wrong   string // a regular expression
	instead string // what to write
	bad     string // a text with one finding
	good    string // the same text without one
	not     string // a regular expression of what is allowed, taken out of a text first
	unless  string // a regular expression: a file that has it may break the rule
}

// phrases are the rules for comments, messages and pages. They ignore case and see a
// sentence whole, also where it is broken into lines.
func phrases() []rule {
	return []rule{
		{`\bwho (asks?|reads?|finds?|has|holds?|knows?|looks?|says?|waits?|goes|gives?|takes?)\b`, "name the component: the caller, the client, the stream", "who asks waits", "the caller waits", "", ""},
		{`\b(is|are|was|were|be|been) told\b`, "returns, reports, logs", "the caller is told", "the call returns an error", `\btold\s+apart\b`, ""},
		{`\bstands? (in|on|at|behind|beside|before|there)\b`, "is, lies, follows, points to", "the field stands in the table", "the field is in the table", "", ""},
		{`\bgo(es)? not\b`, "cannot be combined with; does not", "limit goes not with tail", "limit cannot be combined with tail", "", ""},
		{`\b(nobody|nobodys|somebody|whoever)\b`, "name the component, or use the passive", "nobody reads it", "it is never read", "", ""},
		{`\bwhat goes\b`, "name it: fields, values", "what goes together", "fields that can be combined", "", ""},
		{`\bg(ives?|ave|iven|iving) way\b`, "is released, is dropped, yields", "the entry gives way", "the entry is evicted", "", ""},
		{`\bhas it (made|read|sent)\b`, "a passive with a subject", "has it read", "reads it", "", ""},
		{`\bto be had\b`, "available", "memory is to be had", "memory is available", "", ""},
		{`\bso (much|many|few)\b`, "up to N, at most N", "so many bytes of them", "up to n bytes", "", ""},
		{`\bwhat is left\b`, "the rest, the remaining rows", "what is left is dropped", "the remaining rows are dropped", "", ""},
		{`\bcomes? by\b`, "arrives, obtains", "batches that come by", "batches that arrive", "", ""},
		{`\bsays whether\b|^\w+ says (how|which|what|who|when|why|where)\b`, "reports whether, returns", "Full says whether there is room", "Full reports whether there is no room", "", ""},
		{`\bsays of\b`, "reports, has, lists", "what a file says of its rows", "what a file lists", "", ""},
		{`\bknows? nothing of\b`, "does not depend on, has no", "it knows nothing of tables", "it does not depend on tables", "", ""},
		{`\basked of\b`, "requested from, sent to", "what is asked of the server", "what is requested from the server", "", ""},
		{`\bof which each\b`, "each of which", "keys, of which each allows one range", "keys, each of which allows one range", "", ""},
		{`\b(that|which) (is|are|was|were) no \w+`, "is not a", "a catalog that is no database", "a catalog that is not a database", `\bno\s+(longer|more|less|later|larger|greater|earlier|smaller|older|newer)\b`, ""},
		{`\b(is|are|was|were) not to be\b`, "cannot be, must not be", "the table is not to be held", "the table cannot be held", "", ""},
		{`\bsays otherwise\b`, "overrides", "batch_rows says otherwise", "batch_rows overrides it", "", ""},
		{`\bin vain\b`, "needlessly, for nothing", "reads in vain", "reads needlessly", "", ""},
		{`\bwere (that|this|it|they) not\b`, "otherwise", "were that not known", "otherwise", "", ""},
		{`\bsake\b`, "to, so that", "for others' sake", "so that other streams get memory", "", ""},
		{`\b(tasks?|managers?|helpers?|utils?)\b`, "a word of docs/glossary.md", "a helper of the lane", "the lane's reader", "", ""},
		{`\bworkers?\b`, "worker is torch's DataLoader's alone", "a pool of workers", "a pool of readers", "", dataLoader},
		{`\banew\b`, "again", "it is read anew", "it is read again", "", ""},
		{`\b(go(es)?|went|gone|going) on\b`, "continues, resumes", "the stream goes on", "the stream resumes", "", ""},
		{`\bof before\b`, "from before, older", "files of before a column", "files from before a column", "", ""},
		{`\bfor ever\b`, "forever", "it waits for ever", "it waits forever", "", ""},
		{`\bg(ives?|ave|iven) back\b`, "releases, returns", "memory is given back", "memory is released", "", ""},
		{`\bbelieved?\b`, "trusted", "a claimed size is not believed", "a claimed size is not trusted", "", ""},
	}
}

// words are the rules for names that are declared. They see a name as its words, in
// lower case, with blanks between.
func words() []rule {
	return []rule{
		{`\b(tasks?|managers?|helpers?|utils?|common|grip|cook|met|meeting|ladder|pieces?)\b`, "a word of docs/glossary.md", "stream manager", "stream registry", "", ""},
		{`\bworkers?\b`, "worker is torch's DataLoader's alone", "worker pool", "reader pool", "", dataLoader},
		{`^info$|^info | info$`, "say what it holds", "footer info", "footer", `\b(flight|file|dir|row group|build|worker|action|torch) info\b`, ""},
		{`^data$|^data | data$`, "say what it holds", "footer data", "footer", `\b(flight|file|page|header|is) data\b|\bdata (files?|types?|pages?|body|header|fusion|loaders?|sequence|loss|frame|offset|v2)\b|\btest ?data\b`, dataOfLibraries},
		{`^(most|least|longest|largest|smallest|fewest) `, "bounds are max… and min…", "most rows", "max rows", "", ""},
	}
}

// dataLoader marks the files that speak of torch's DataLoader and its workers.
const dataLoader = `DataLoader|num_workers|\btorch\b`

// dataOfLibraries marks the files in which data is a term of Arrow, Iceberg or torch.
const dataOfLibraries = `ArrayData|NewData\(|DataFile|[Dd]ata files?\b|IterableDataset`

// matcher is a compiled rule.
type matcher struct {
	rule
	wrong, not, unless *regexp.Regexp // nil where the rule has none
}

func compile(rules []rule) []matcher {
	var out []matcher
	for _, r := range rules {
		m := matcher{rule: r, wrong: regexp.MustCompile("(?i)" + strings.ReplaceAll(r.wrong, " ", `\s+`))}
		if r.not != "" {
			m.not = regexp.MustCompile(r.not)
		}
		if r.unless != "" {
			m.unless = regexp.MustCompile(r.unless)
		}
		out = append(out, m)
	}
	return out
}

// find returns where a text breaks the rule.
func (m matcher) find(text string) [][]int {
	if m.not != nil {
		text = m.not.ReplaceAllStringFunc(text, blanked)
	}
	return m.wrong.FindAllStringIndex(text, -1)
}
