package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// place is where a mutant's code is: some bytes of a file.
type place struct {
	file     string
	source   []byte
	from, to int
}

// replaced returns the file's source with other code in this place.
func (p place) replaced(code string) []byte {
	return slices.Concat(p.source[:p.from], []byte(code), p.source[p.to:])
}

// find returns the one place of a mutant's code in a tree. The mutant is stale if there is
// none, or several.
func find(m mutant, root string) (place, error) {
	files, err := filepath.Glob(filepath.Join(root, m.pkg, "*.go"))
	if err != nil {
		return place{}, err
	}
	var found []place
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return place{}, err
		}
		for _, d := range declared(source, m.declaration) {
			for _, at := range search(source[d.from:d.to], m.code) {
				found = append(found, place{file: file, source: source, from: d.from + at.from, to: d.from + at.to})
			}
		}
	}
	if len(found) != 1 {
		return place{}, fmt.Errorf("STALE: its code is found %d times in %s of %s", len(found), m.declaration, m.pkg)
	}
	return found[0], nil
}

// span is a range of bytes.
type span struct{ from, to int }

// declared returns where a source declares a name.
func declared(source []byte, name string) []span {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil // the compiler says so
	}
	var found []span
	add := func(node ast.Node, declares string) {
		if declares == name {
			found = append(found, span{files.Position(node.Pos()).Offset, files.Position(node.End()).Offset})
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			add(d, functionName(d))
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					add(s, s.Name.Name)
				case *ast.ValueSpec:
					add(s, s.Names[0].Name)
				}
			}
		}
	}
	return found
}

// functionName returns a function's name, after that of its receiver's type if it has one.
func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	for {
		switch t := receiver.(type) {
		case *ast.StarExpr:
			receiver = t.X
		case *ast.IndexExpr:
			receiver = t.X
		case *ast.IndexListExpr:
			receiver = t.X
		case *ast.Ident:
			return t.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

// search returns where the tokens of a piece of code are in a source.
func search(source []byte, code string) []span {
	all, wanted := tokens(source), tokens([]byte(code))
	var found []span
	for i := 0; len(wanted) > 0 && i+len(wanted) <= len(all); i++ {
		if slices.EqualFunc(all[i:i+len(wanted)], wanted, func(a, b word) bool { return a.text == b.text }) {
			found = append(found, span{all[i].at.from, all[i+len(wanted)-1].at.to})
		}
	}
	return found
}

// word is a token and where it is.
type word struct {
	text string
	at   span
}

// tokens returns the tokens of a piece of code, without comments and without the
// semicolons that line ends stand for.
func tokens(source []byte) []word {
	var s scanner.Scanner
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(source))
	s.Init(file, source, func(token.Position, string) {}, 0) // a piece may be cut anywhere
	var all []word
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return all
		}
		if tok == token.SEMICOLON && text != ";" {
			continue
		}
		if text == "" {
			text = tok.String()
		}
		at := file.Offset(pos)
		all = append(all, word{text: text, at: span{at, at + len(text)}})
	}
}
