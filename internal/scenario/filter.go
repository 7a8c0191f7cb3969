package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/penstock/penstock/loader/dataset"
)

// tree is a filter as the oracle holds it. It shares no code with the
// product's parser: String writes it as a filter that the product reads, and
// parseTree reads that text, and any other filter, back.
type tree struct {
	op       string // see the constants, or a comparison: = <> != < <= > >=
	negated  bool   // of opIn, opBetween, opNull and opLike
	terms    []*tree
	operands []operand
}

// The operators other than comparisons.
const (
	opAnd     = "AND"
	opOr      = "OR"
	opNot     = "NOT"
	opTruth   = "TRUTH" // of one operand alone: a boolean column, TRUE or FALSE
	opIn      = "IN"
	opBetween = "BETWEEN"
	opNull    = "NULL"
	opLike    = "LIKE"
)

// operand is a column, by its path, or a literal as it is written.
type operand struct {
	path    string // parts joined by dots: the columns of random worlds have plain names
	literal string
}

func (o operand) String() string {
	if o.path != "" {
		return o.path
	}
	return o.literal
}

// given is the filter as datasets and queries have it.
func (t *tree) given() dataset.Filter { return dataset.MustFilter(t.String()) }

// String writes the filter. Terms of AND and OR that are AND, OR or NOT stand
// in parentheses, so that the tree is what its text says.
func (t *tree) String() string {
	not := ""
	if t.negated {
		not = "NOT "
	}
	texts := make([]string, len(t.operands))
	for i, o := range t.operands {
		texts[i] = o.String()
	}
	switch t.op {
	case opAnd, opOr:
		for _, term := range t.terms {
			texts = append(texts, term.within())
		}
		return strings.Join(texts, " "+t.op+" ")
	case opNot:
		return "NOT " + t.terms[0].within()
	case opTruth:
		return texts[0]
	case opIn:
		return texts[0] + " " + not + "IN (" + strings.Join(texts[1:], ", ") + ")"
	case opBetween:
		return texts[0] + " " + not + "BETWEEN " + texts[1] + " AND " + texts[2]
	case opNull:
		return texts[0] + " IS " + not + "NULL"
	case opLike:
		return texts[0] + " " + not + "LIKE " + texts[1]
	default:
		return texts[0] + " " + t.op + " " + texts[1]
	}
}

func (t *tree) within() string {
	if len(t.terms) > 0 {
		return "(" + t.String() + ")"
	}
	return t.String()
}

// conjuncts are the conditions that are joined by AND, in parentheses or not,
// or behind two NOT, which say nothing. Nil has none.
func (t *tree) conjuncts() []*tree {
	switch {
	case t == nil:
		return nil
	case t.op == opNot && t.terms[0].op == opNot:
		return t.terms[0].terms[0].conjuncts()
	case t.op != opAnd:
		return []*tree{t}
	}
	var all []*tree
	for _, term := range t.terms {
		all = append(all, term.conjuncts()...)
	}
	return all
}

// columns names the columns of the filter, with their paths.
func (t *tree) columns() []string {
	if t == nil {
		return nil
	}
	var names []string
	for _, o := range t.operands {
		if o.path != "" {
			names = append(names, o.path)
		}
	}
	for _, term := range t.terms {
		names = append(names, term.columns()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// smaller are all filters that are one step smaller.
func (t *tree) smaller() []*tree {
	var all []*tree
	all = append(all, t.terms...)
	for i, term := range t.terms {
		if len(t.terms) > 2 {
			all = append(all, &tree{op: t.op, terms: slices.Delete(slices.Clone(t.terms), i, i+1)})
		}
		for _, less := range term.smaller() {
			other := &tree{op: t.op, terms: slices.Clone(t.terms)}
			other.terms[i] = less
			all = append(all, other)
		}
	}
	for i := range t.operands {
		if t.op == opIn && i > 0 && len(t.operands) > 2 {
			all = append(all, &tree{op: t.op, negated: t.negated, operands: slices.Delete(slices.Clone(t.operands), i, i+1)})
		}
	}
	return all
}

// filterToken is what a filter's text consists of: typed literals, strings and
// quoted names, names and keywords, numbers, operators and punctuation.
var filterToken = regexp.MustCompile(`^(?:(?i:DATE|TIME|TIMESTAMP)\s*'(?:[^']|'')*'|[xX]?'(?:[^']|'')*'|"(?:[^"]|"")*"|[\pL_][\pL_0-9]*|[+-]?\s*(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|<>|!=|<=|>=|[=<>(),.])`)

// parseTree reads a filter; nil of the empty one.
func parseTree(text string) (*tree, error) {
	p := &treeText{}
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		token := filterToken.FindString(rest)
		if token == "" {
			return nil, fmt.Errorf("the oracle cannot read %q of filter %q", rest, text)
		}
		p.tokens = append(p.tokens, token)
		rest = rest[len(token):]
	}
	if len(p.tokens) == 0 {
		return nil, nil //nolint:nilnil // no filter
	}
	t := p.joined(opOr)
	if p.wrong || len(p.tokens) > 0 {
		return nil, fmt.Errorf("the oracle cannot read filter %q from %v on", text, p.tokens)
	}
	return t, nil
}

// treeText is what is left of a filter's tokens.
type treeText struct {
	tokens []string
	wrong  bool
}

// accept takes a keyword or mark if it comes next.
func (p *treeText) accept(what string) bool {
	if len(p.tokens) == 0 || !strings.EqualFold(p.tokens[0], what) {
		return false
	}
	p.tokens = p.tokens[1:]
	return true
}

func (p *treeText) expect(what string) {
	p.wrong = !p.accept(what) || p.wrong
}

// joined reads terms between OR, and within these between AND.
func (p *treeText) joined(op string) *tree {
	term := p.negation
	if op == opOr {
		term = func() *tree { return p.joined(opAnd) }
	}
	terms := []*tree{term()}
	for p.accept(op) {
		terms = append(terms, term())
	}
	if len(terms) == 1 {
		return terms[0]
	}
	return &tree{op: op, terms: terms}
}

func (p *treeText) negation() *tree {
	if p.accept(opNot) {
		return &tree{op: opNot, terms: []*tree{p.negation()}}
	}
	if p.accept("(") {
		t := p.joined(opOr)
		p.expect(")")
		return t
	}
	return p.condition()
}

func (p *treeText) condition() *tree {
	t := &tree{op: opTruth, operands: []operand{p.operand()}}
	if p.accept("IS") {
		t.op, t.negated = opNull, p.accept(opNot)
		p.expect("NULL")
		return t
	}
	t.negated = p.accept(opNot)
	add := func() { t.operands = append(t.operands, p.operand()) }
	switch {
	case p.accept(opIn):
		t.op = opIn
		p.expect("(")
		for add(); p.accept(","); add() {
		}
		p.expect(")")
	case p.accept(opBetween):
		t.op = opBetween
		add()
		p.expect(opAnd)
		add()
	case p.accept(opLike):
		t.op = opLike
		add()
	case t.negated:
		p.wrong = true
	case len(p.tokens) > 0 && strings.ContainsAny(p.tokens[0][:1], "=<>!"):
		t.op, p.tokens = p.tokens[0], p.tokens[1:]
		add()
	}
	return t
}

func (p *treeText) operand() operand {
	if len(p.tokens) == 0 {
		p.wrong = true
		return operand{}
	}
	token := p.tokens[0]
	p.tokens = p.tokens[1:]
	isName := regexp.MustCompile(`^(?:"|[\pL_][\pL_0-9]*$)`).MatchString(token)
	if !isName || strings.EqualFold(token, "TRUE") || strings.EqualFold(token, "FALSE") {
		return operand{literal: token}
	}
	path := []string{unquoted(token)}
	for p.accept(".") {
		path = append(path, p.operand().path)
	}
	return operand{path: strings.Join(path, ".")}
}

// unquoted is a quoted name or text without its quotes.
func unquoted(token string) string {
	if len(token) < 2 || token[0] != '"' && token[0] != '\'' {
		return token
	}
	quote := token[:1]
	return strings.ReplaceAll(token[1:len(token)-1], quote+quote, quote)
}
