package docstest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/loader/dataset"
)

// sources returns the parsed files of a package of the module, without its tests.
func sources(t *testing.T, folder string) []*ast.File {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	require.NoError(t, err)
	var out []*ast.File
	for _, path := range found {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		file, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		require.NoError(t, err)
		out = append(out, file)
	}
	require.NotEmpty(t, out, folder)
	return out
}

// decoded returns the decoder's fields by type, each with whether it is served: the rows of
// every []field[T] of loader/dataset/decode, and the fields of queries, cursors and
// commands that loader/dataset describes.
func decoded(t *testing.T) map[string]map[string]bool {
	t.Helper()
	out := map[string]map[string]bool{}
	for _, file := range sources(t, "loader/dataset/decode") {
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			if list, isList := literal.Type.(*ast.ArrayType); isList {
				if of := fieldOf(list.Elt); of != "" {
					for _, element := range literal.Elts {
						if one, isOne := element.(*ast.CompositeLit); isOne {
							note(out, of, one)
						}
					}
				}
			} else if of := fieldOf(literal.Type); of != "" {
				note(out, of, literal)
			}
			return true
		})
	}
	for _, f := range dataset.QueryFields() {
		out["Query"][f.Name] = true
	}
	for _, f := range dataset.WriteFields() {
		out["TableWrite"][f.Name] = true
	}
	for _, f := range dataset.RowsFields() {
		out["Cursor"][f.Name] = true
	}
	return out
}

// fieldOf returns T of field[T], without the package of values, or "".
func fieldOf(expression ast.Expr) string {
	index, ok := expression.(*ast.IndexExpr)
	if !ok {
		return ""
	}
	if name, isName := index.X.(*ast.Ident); !isName || name.Name != "field" {
		return ""
	}
	return strings.ReplaceAll(types.ExprString(index.Index), "dataset.", "")
}

// note adds a row of the decoder's table.
func note(into map[string]map[string]bool, of string, literal *ast.CompositeLit) {
	name, served := "", false
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch key, _ := pair.Key.(*ast.Ident); key.Name {
		case "name":
			if text, isText := pair.Value.(*ast.BasicLit); isText {
				name, _ = strconv.Unquote(text.Value)
			}
		case "read":
			served = true
		}
	}
	if name == "" {
		return
	}
	if into[of] == nil {
		into[of] = map[string]bool{}
	}
	into[of][name] = into[of][name] || served
}

// packages returns the folders of packages with documented structs.
func packages() map[string]string {
	return map[string]string{"flight": "flight", "failure": "flight/failure", "slowness": "flight/slowness", "loader": "loader", "stream": "loader/stream", "verify": "loader/verify", "coverage": "loader/plan/coverage", "joiner": "joiner", "statistics": "loader/statistics", "entries": "loader/statistics/entries", "stats": "internal/stats", "drift": "internal/drift"}
}

// jsonFields returns the JSON names of the fields of a struct such as stream.Report,
// including those of embedded structs.
func jsonFields(t *testing.T, name string) []string {
	t.Helper()
	of, name, found := strings.Cut(name, ".")
	require.True(t, found)
	var out []string
	for _, file := range sources(t, packages()[of]) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != name {
				return true
			}
			form, isStruct := spec.Type.(*ast.StructType)
			require.True(t, isStruct, name)
			for _, field := range form.Fields.List {
				if len(field.Names) == 0 {
					embedded := types.ExprString(field.Type)
					if !strings.Contains(embedded, ".") {
						embedded = of + "." + embedded
					}
					out = append(out, jsonFields(t, embedded)...)
				}
				if field.Tag != nil {
					text, err := strconv.Unquote(field.Tag.Value)
					require.NoError(t, err)
					tag, _, _ := strings.Cut(reflect.StructTag(text).Get("json"), ",")
					out = append(out, tag)
				}
			}
			return false
		})
	}
	require.NotEmpty(t, out, name)
	slices.Sort(out)
	return out
}

// constant returns the value of an integer constant of a package.
func constant(t *testing.T, folder, name string) string {
	t.Helper()
	for _, file := range sources(t, folder) {
		for _, declaration := range file.Decls {
			general, ok := declaration.(*ast.GenDecl)
			if !ok || general.Tok != token.CONST {
				continue
			}
			for _, spec := range general.Specs {
				values, isValue := spec.(*ast.ValueSpec)
				if !isValue || values.Names[0].Name != name || len(values.Values) != 1 {
					continue
				}
				found, err := types.Eval(token.NewFileSet(), nil, token.NoPos, types.ExprString(values.Values[0]))
				require.NoError(t, err, name)
				return found.Value.ExactString()
			}
		}
	}
	require.FailNow(t, "there is no such constant", "%s of %s", name, folder)
	return ""
}
