package expr

import (
	"io"
	"sync"

	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"

	"github.com/penstock/penstock/internal/fault"
)

// The grammar, as the parser library reads it. The next token alone decides
// each step, so parsing is linear in the text. Precedence is in the nesting:
// OR binds weakest, then AND, then NOT.
type (
	disjunction struct {
		Terms []*conjunction `parser:"@@ ( 'OR':Keyword @@ )*"`
	}

	conjunction struct {
		Terms []*negation `parser:"@@ ( 'AND':Keyword @@ )*"`
	}

	// A run of NOT is a list, not a recursion: it may be as long as the text.
	negation struct {
		Nots      []string   `parser:"@'NOT':Keyword*"`
		Predicate *predicate `parser:"@@"`
	}

	predicate struct {
		Pos     lexer.Position
		Group   *disjunction `parser:"( '(':Punct @@ ')':Punct"`
		Operand *term        `parser:"| @@ )"`
		Tail    *tail        `parser:"@@?"`
	}

	tail struct {
		Pos     lexer.Position
		Compare *comparisonTail `parser:"( @@"`
		Is      *isTail         `parser:"| 'IS':Keyword @@"`
		Ranged  *rangedTail     `parser:"| @@ )"`
	}

	comparisonTail struct {
		Operator string `parser:"@Operator"`
		Right    *term  `parser:"@@"`
	}

	isTail struct {
		Not bool `parser:"@'NOT':Keyword? 'NULL':Keyword"`
	}

	rangedTail struct {
		Not  bool     `parser:"@'NOT':Keyword?"`
		In   []*value `parser:"( 'IN':Keyword '(':Punct @@ ( ',':Punct @@ )* ')':Punct"`
		Low  *term    `parser:"| 'BETWEEN':Keyword @@"`
		High *term    `parser:"  'AND':Keyword @@"`
		Like *value   `parser:"| 'LIKE':Keyword @@ )"`
	}

	term struct {
		Pos    lexer.Position
		Column *path  `parser:"( @@"`
		Value  *value `parser:"| @@ )"`
	}

	path struct {
		Parts []string `parser:"@( Name | Quoted ) ( '.':Punct @( Name | Quoted ) )*"`
	}

	value struct {
		Pos    lexer.Position
		Sign   string  `parser:"( @( '-':Punct | '+':Punct )?"`
		Number *string `parser:"  @Number"`
		Text   *string `parser:"| @Text"`
		Typed  *string `parser:"| @Typed"`
		Truth  *string `parser:"| @( 'TRUE':Keyword | 'FALSE':Keyword ) )"`
	}
)

// tokens hands a scanned text to the parser, and names the kinds of token to
// the library; it never scans for it.
type tokens struct {
	list []lexer.Token
}

// Symbols implements lexer.Definition.
func (t *tokens) Symbols() map[string]lexer.TokenType {
	return map[string]lexer.TokenType{
		"EOF": lexer.EOF, "Keyword": tokenKeyword, "Name": tokenName, "Quoted": tokenQuoted, "Number": tokenNumber,
		"Text": tokenText, "Typed": tokenTyped, "Operator": tokenOperator, "Punct": tokenPunct,
	}
}

// Lex implements lexer.Definition.
func (t *tokens) Lex(string, io.Reader) (lexer.Lexer, error) {
	return nil, fault.New(fault.Internal, "filters are scanned before they are parsed")
}

// Next implements lexer.Lexer; the last token is the end, again and again.
func (t *tokens) Next() (lexer.Token, error) {
	next := t.list[0]
	if len(t.list) > 1 {
		t.list = t.list[1:]
	}
	return next, nil
}

//nolint:gochecknoglobals // built once from the constant grammar above; immutable and safe for concurrent use
var parser = sync.OnceValues(func() (*participle.Parser[disjunction], error) {
	return participle.Build[disjunction](participle.Lexer(&tokens{}), participle.UseLookahead(0))
})
