package prosetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// goPassages returns a Go file's comments, those of its strings that have several words,
// and the names that it declares.
func goPassages(name, src string) ([]passage, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var out []passage
	line := func(at token.Pos) int { return files.Position(at).Line }
	for _, group := range file.Comments {
		from, to := files.Position(group.Pos()).Offset, files.Position(group.End()).Offset
		out = append(out, passage{line(group.Pos()), src[from:to], false})
	}
	declared := func(idents ...*ast.Ident) {
		for _, ident := range idents {
			out = append(out, passage{line(ident.Pos()), wordsOf(ident.Name), true})
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && strings.Contains(text, " ") {
				out = append(out, passage{line(n.Pos()), text, false})
			}
		case *ast.FuncDecl:
			declared(n.Name)
		case *ast.TypeSpec:
			declared(n.Name)
		case *ast.ValueSpec:
			declared(n.Names...)
		case *ast.Field:
			declared(n.Names...)
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				declared(identsOf(n.Key, n.Value)...)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				declared(identsOf(n.Lhs...)...)
			}
		}
		return true
	})
	return out, nil
}

func identsOf(expressions ...ast.Expr) []*ast.Ident {
	var out []*ast.Ident
	for _, e := range expressions {
		if ident, ok := e.(*ast.Ident); ok {
			out = append(out, ident)
		}
	}
	return out
}

// wordsOf returns the words of a name in camel or snake case.
func wordsOf(name string) string {
	var out strings.Builder
	letters := []rune(name)
	for i, r := range letters {
		switch begins := i > 0 && unicode.IsUpper(r); {
		case r == '_':
			out.WriteByte(' ')
			continue
		case begins && (!unicode.IsUpper(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1])):
			out.WriteByte(' ')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return strings.TrimSpace(out.String())
}

// pythonTexts are a Python file's comments and strings; the longer forms come first.
var pythonTexts = regexp.MustCompile(`(?s)"""(?:[^\\]|\\.)*?"""|'''(?:[^\\]|\\.)*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|(?-s:(?:[ \t]*#.*\n?)+)`)

// pythonNames are the names that a line of Python declares.
var pythonNames = regexp.MustCompile(`(?m)^\s*(?:(?:async )?def|class) (\w+)|^\s*(\w+)(?:: [^=\n]+)? = `)

// pythonPassages returns a Python file's comments, those of its strings that have several
// words, and the functions, classes and variables that it declares.
func pythonPassages(_, src string) ([]passage, error) {
	var out []passage
	lineAt := func(offset int) int { return 1 + strings.Count(src[:offset], "\n") }
	for _, at := range pythonTexts.FindAllStringIndex(src, -1) {
		text := src[at[0]:at[1]]
		if strings.Contains(text, " ") {
			out = append(out, passage{lineAt(at[0]), strings.Trim(text, `"'`), false})
		}
	}
	for _, at := range pythonNames.FindAllStringSubmatchIndex(src, -1) {
		from, to := max(at[2], at[4]), max(at[3], at[5])
		out = append(out, passage{lineAt(from), wordsOf(src[from:to]), true})
	}
	return out, nil
}

// fenced is a block of code of a page.
var fenced = regexp.MustCompile("(?ms)^ *```.*?^ *```")

// pagePassages returns a page's paragraphs, without blocks of code.
func pagePassages(_, src string) ([]passage, error) {
	src = fenced.ReplaceAllStringFunc(src, blanked)
	var out []passage
	line := 1
	for paragraph := range strings.SplitSeq(src, "\n\n") {
		out = append(out, passage{line, paragraph, false})
		line += strings.Count(paragraph, "\n") + 2
	}
	return out, nil
}
