package cell

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/dataset/datasettest"
)

// Filter is the syntax tree of a filter. It shares no code with the product's parser:
// String writes the text of a filter for the product, and ParseFilter parses that text
// and any other filter.
type Filter struct {
	Op       string // one of the constants, or a comparison: = <> != < <= > >=
	Negated  bool   // for OpIn, OpBetween, OpNull and OpLike
	Terms    []*Filter
	Operands []Operand
}

// The operators other than comparisons.
const (
	OpAnd     = "AND"
	OpOr      = "OR"
	OpNot     = "NOT"
	OpTruth   = "TRUTH" // a single operand: a boolean column, TRUE or FALSE
	OpIn      = "IN"
	OpBetween = "BETWEEN"
	OpNull    = "NULL"
	OpLike    = "LIKE"
)

// Operand is a column, by its path, or the text of a literal.
type Operand struct {
	Path    string // joined by dots: the columns of random tables need no quotes
	Literal string
}

func (o Operand) String() string {
	if o.Path != "" {
		return o.Path
	}
	return o.Literal
}

// Parsed returns the filter in the form that datasets and queries have.
func (t *Filter) Parsed() dataset.Filter { return datasettest.Filter(t.String()) }

// String returns the filter's text. Terms that are AND, OR or NOT are in parentheses, so
// that parsing the text yields the same tree.
func (t *Filter) String() string {
	not := ""
	if t.Negated {
		not = "NOT "
	}
	texts := make([]string, len(t.Operands))
	for i, o := range t.Operands {
		texts[i] = o.String()
	}
	switch t.Op {
	case OpAnd, OpOr:
		for _, term := range t.Terms {
			texts = append(texts, term.within())
		}
		return strings.Join(texts, " "+t.Op+" ")
	case OpNot:
		return "NOT " + t.Terms[0].within()
	case OpTruth:
		return texts[0]
	case OpIn:
		return texts[0] + " " + not + "IN (" + strings.Join(texts[1:], ", ") + ")"
	case OpBetween:
		return texts[0] + " " + not + "BETWEEN " + texts[1] + " AND " + texts[2]
	case OpNull:
		return texts[0] + " IS " + not + "NULL"
	case OpLike:
		return texts[0] + " " + not + "LIKE " + texts[1]
	default:
		return texts[0] + " " + t.Op + " " + texts[1]
	}
}

func (t *Filter) within() string {
	if len(t.Terms) > 0 {
		return "(" + t.String() + ")"
	}
	return t.String()
}

// Conjuncts returns the conditions that are joined by AND, including those in parentheses and after
// a double NOT. A nil filter has no conditions.
func (t *Filter) Conjuncts() []*Filter {
	switch {
	case t == nil:
		return nil
	case t.Op == OpNot && t.Terms[0].Op == OpNot:
		return t.Terms[0].Terms[0].Conjuncts()
	case t.Op != OpAnd:
		return []*Filter{t}
	}
	var all []*Filter
	for _, term := range t.Terms {
		all = append(all, term.Conjuncts()...)
	}
	return all
}

// Columns returns the paths of the filter's columns, sorted.
func (t *Filter) Columns() []string {
	if t == nil {
		return nil
	}
	var names []string
	for _, o := range t.Operands {
		if o.Path != "" {
			names = append(names, o.Path)
		}
	}
	for _, term := range t.Terms {
		names = append(names, term.Columns()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Smaller returns all filters that are one step smaller.
func (t *Filter) Smaller() []*Filter {
	var all []*Filter
	all = append(all, t.Terms...)
	for i, term := range t.Terms {
		if len(t.Terms) > 2 {
			all = append(all, &Filter{Op: t.Op, Terms: slices.Delete(slices.Clone(t.Terms), i, i+1)})
		}
		for _, less := range term.Smaller() {
			other := &Filter{Op: t.Op, Terms: slices.Clone(t.Terms)}
			other.Terms[i] = less
			all = append(all, other)
		}
	}
	for i := range t.Operands {
		if t.Op == OpIn && i > 0 && len(t.Operands) > 2 {
			all = append(all, &Filter{Op: t.Op, Negated: t.Negated, Operands: slices.Delete(slices.Clone(t.Operands), i, i+1)})
		}
	}
	return all
}

// filterToken matches a token: a typed literal, a string or quoted name, a name or
// keyword, a number, an operator or punctuation.
var filterToken = regexp.MustCompile(`^(?:(?i:DATE|TIME|TIMESTAMP)\s*'(?:[^']|'')*'|[xX]?'(?:[^']|'')*'|"(?:[^"]|"")*"|[\pL_][\pL_0-9]*|[+-]?\s*(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|<>|!=|<=|>=|[=<>(),.])`)

// ParseFilter parses a filter. It returns nil if the text is empty.
func ParseFilter(text string) (*Filter, error) {
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
	t := p.joined(OpOr)
	if p.wrong || len(p.tokens) > 0 {
		return nil, fmt.Errorf("the oracle cannot read filter %q from %v on", text, p.tokens)
	}
	return t, nil
}

// treeText is the rest of a filter's tokens.
type treeText struct {
	tokens []string
	wrong  bool
}

// accept consumes the next token if it is the given keyword or mark.
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

// joined parses terms joined by OR or, within these, by AND.
func (p *treeText) joined(op string) *Filter {
	term := p.negation
	if op == OpOr {
		term = func() *Filter { return p.joined(OpAnd) }
	}
	terms := []*Filter{term()}
	for p.accept(op) {
		terms = append(terms, term())
	}
	if len(terms) == 1 {
		return terms[0]
	}
	return &Filter{Op: op, Terms: terms}
}

func (p *treeText) negation() *Filter {
	if p.accept(OpNot) {
		return &Filter{Op: OpNot, Terms: []*Filter{p.negation()}}
	}
	if p.accept("(") {
		t := p.joined(OpOr)
		p.expect(")")
		return t
	}
	return p.condition()
}

func (p *treeText) condition() *Filter {
	t := &Filter{Op: OpTruth, Operands: []Operand{p.operand()}}
	if p.accept("IS") {
		t.Op, t.Negated = OpNull, p.accept(OpNot)
		p.expect("NULL")
		return t
	}
	t.Negated = p.accept(OpNot)
	add := func() { t.Operands = append(t.Operands, p.operand()) }
	switch {
	case p.accept(OpIn):
		t.Op = OpIn
		p.expect("(")
		for add(); p.accept(","); add() {
		}
		p.expect(")")
	case p.accept(OpBetween):
		t.Op = OpBetween
		add()
		p.expect(OpAnd)
		add()
	case p.accept(OpLike):
		t.Op = OpLike
		add()
	case t.Negated:
		p.wrong = true
	case len(p.tokens) > 0 && strings.ContainsAny(p.tokens[0][:1], "=<>!"):
		t.Op, p.tokens = p.tokens[0], p.tokens[1:]
		add()
	}
	return t
}

func (p *treeText) operand() Operand {
	if len(p.tokens) == 0 {
		p.wrong = true
		return Operand{}
	}
	token := p.tokens[0]
	p.tokens = p.tokens[1:]
	isName := regexp.MustCompile(`^(?:"|[\pL_][\pL_0-9]*$)`).MatchString(token)
	if !isName || strings.EqualFold(token, "TRUE") || strings.EqualFold(token, "FALSE") {
		return Operand{Literal: token}
	}
	path := []string{unquoted(token)}
	for p.accept(".") {
		path = append(path, p.operand().Path)
	}
	return Operand{Path: strings.Join(path, ".")}
}

// unquoted returns a name or text without its quotes.
func unquoted(token string) string {
	if len(token) < 2 || token[0] != '"' && token[0] != '\'' {
		return token
	}
	quote := token[:1]
	return strings.ReplaceAll(token[1:len(token)-1], quote+quote, quote)
}
