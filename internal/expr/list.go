package expr

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock/penstock/internal/expr/function"
)

// List is a fitted list: values that a function takes as an argument instead of a literal list. An
// expression names it, and its canonical text has the digest of the values, as in FITTED 'sha256:…', so
// that the text is short however many values there are. A List is immutable and safe for concurrent use.
type List struct {
	value  arrow.Array // one value, of a list type
	digest string
	index  *function.Index // nil for floats
}

// IndexBytes is the memory of a List for each value, in addition to the values themselves.
const IndexBytes = function.IndexBytes

// NewList returns the list of items, which are int64, float64 or string, without nulls, in memory that
// is never freed. All expressions share the index of the items, which the list has from the beginning.
// It fails as Invalid if texts or whole numbers are not distinct.
func NewList(items arrow.Array) (*List, error) {
	l := &List{digest: digestOf(items)}
	if items.DataType().ID() != arrow.FLOAT64 {
		var err error
		if l.index, err = function.NewIndex(items); err != nil {
			return nil, err
		}
	}
	offsets := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes([]int32{0, int32(items.Len())}))
	data := array.NewData(arrow.ListOf(items.DataType()), 1, []*memory.Buffer{nil, offsets}, []arrow.ArrayData{items.Data()}, 0, 0)
	defer data.Release()
	l.value = array.NewListData(data)
	return l, nil
}

// Digest returns the digest of the type and the values, as sha256:….
func (l *List) Digest() string { return l.digest }

// Len returns the number of values.
func (l *List) Len() int { return l.value.(*array.List).ListValues().Len() } //nolint:forcetypeassert // see NewList

// digestOf returns the digest of items: of the name of their type, and of each value in 8 bytes, or as
// its length in 8 bytes and its text.
func digestOf(items arrow.Array) string {
	h := sha256.New()
	h.Write([]byte(items.DataType().Name()))
	word := make([]byte, 0, 8)
	for i := range items.Len() {
		switch items := items.(type) {
		case *array.Int64:
			writeWord(h, word, uint64(items.Value(i)))
		case *array.Float64:
			writeWord(h, word, math.Float64bits(items.Value(i)))
		case *array.String:
			writeWord(h, word, uint64(len(items.Value(i))))
			h.Write([]byte(items.Value(i)))
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

func writeWord(to hash.Hash, word []byte, value uint64) {
	to.Write(binary.BigEndian.AppendUint64(word, value))
}

// Lists are fitted lists by name.
type Lists map[string]*List

// Unnamed returns the lists without their names: expressions find them by their digests only.
func (l Lists) Unnamed() Lists {
	out := Lists{}
	for _, one := range l {
		out[one.digest] = one
	}
	return out
}

// of returns the list that an operand means, or nil.
func (l Lists) of(o operand) *List {
	if len(o.column) == 1 {
		return l[o.column[0]]
	}
	if o.isLiteral() && o.literal.kind == fittedLiteral {
		for _, one := range l {
			if one.digest == o.literal.text {
				return one
			}
		}
	}
	return nil
}

// WithLists returns the expression with lists in the places of their names and digests. A list that is
// not an argument of bucketize or lookup is Invalid: other functions would take time for each value and row. A digest that no list has stays in the
// expression, which Bind then refuses.
func (v *ValueExpr) WithLists(lists Lists) (*ValueExpr, error) {
	root, err := lists.in(v.root, "expression")
	if err != nil || root == v.root {
		return v, err
	}
	return newValue(root)
}

// WithLists returns the filter with lists in the places of their names and digests, as
// ValueExpr.WithLists does.
func (e *Expr) WithLists(lists Lists) (*Expr, error) {
	if e == nil {
		return nil, nil
	}
	root, err := lists.in(e.root, "filter")
	if err != nil || root == e.root {
		return e, err
	}
	return &Expr{root: root}, nil
}

// in returns an expression with lists. noun is the word for its text in messages.
func (l Lists) in(root node, noun string) (node, error) {
	found := false
	root.operands(func(o operand) { found = found || l.of(o) != nil })
	if !found {
		return root, nil
	}
	var faults faultList
	out := rewrite(root, func(o operand, of string) node {
		list := l.of(o)
		if list == nil {
			return nil
		}
		if of != "bucketize" && of != "lookup" {
			p := &printer{}
			p.operand(o, lowest)
			faults.fail(o.position, "%s is a fitted list, which only bucketize and lookup take", p)
		}
		return &single{operand: operand{literal: literal{kind: fittedLiteral, position: o.position, text: list.digest, list: list}}}
	})
	if err := faults.err(); err != nil {
		return nil, err
	}
	return out, checkSize(out, noun)
}

// fittedWord precedes the digest of a fitted list.
const fittedWord = "FITTED"

// isFitted reports whether a token is FITTED with a text.
func isFitted(t token) bool {
	return t.kind == typedToken && strings.HasPrefix(strings.ToUpper(t.text), fittedWord)
}

var listDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// fitted returns the literal of a token such as FITTED 'sha256:…'. Its list is not known yet.
func (p *parser) fitted(t token) literal {
	l := literal{kind: fittedLiteral, position: t.column}
	l.text = unquote(t.text[strings.IndexByte(t.text, '\''):])
	if !listDigest.MatchString(l.text) {
		p.fail(t.column, "FITTED takes the digest of a list, as explain prints it; write the name of the list")
	}
	return l
}

// Lists returns the fitted lists of an expression, each once.
func (v *ValueExpr) Lists() []*List {
	var out []*List
	v.root.operands(func(o operand) {
		if l := o.literal.list; l != nil && !slices.Contains(out, l) {
			out = append(out, l)
		}
	})
	return out
}
