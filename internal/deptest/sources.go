package deptest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// imported is an import of a file.
type imported struct {
	path string
	at   token.Position
}

// folder is a package: its name, its comment and the imports of its files except tests.
type folder struct {
	path    string // from the module's root
	name    string // of the package
	doc     string // its comment; "" if no file has one
	imports []imported
}

// readFolders parses the imports of every Go file below root, regardless of build tags,
// and returns one folder per directory in lexical order. It skips testdata, hidden
// folders and other modules, and ignores the imports of _test.go files. A folder with
// nothing but tests still counts.
func readFolders(root fs.FS) ([]*folder, error) {
	var folders []*folder
	err := fs.WalkDir(root, ".", func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		skipped, err := isSkipped(root, dir)
		if err != nil {
			return err
		}
		if skipped {
			return fs.SkipDir
		}
		found, err := readFolder(root, dir)
		if found != nil {
			folders = append(folders, found)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the sources: %w", err)
	}
	return folders, nil
}

// isSkipped reports whether the walk skips dir.
func isSkipped(root fs.FS, dir string) (bool, error) {
	if dir == "." {
		return false, nil
	}
	base := path.Base(dir)
	if base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true, nil
	}
	switch _, err := fs.Stat(root, path.Join(dir, "go.mod")); {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	default:
		return false, err
	}
}

// readFolder parses the Go files of a directory; nil if it has none.
func readFolder(root fs.FS, dir string) (*folder, error) {
	names, err := fs.Glob(root, path.Join(dir, "*.go"))
	if err != nil || len(names) == 0 {
		return nil, err
	}
	found := &folder{path: dir}
	for _, name := range names {
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, src, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return nil, err
		}
		if err := found.add(set, file, strings.HasSuffix(name, "_test.go")); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// add adds a parsed file to the folder.
func (f *folder) add(set *token.FileSet, file *ast.File, test bool) error {
	if test && f.name != "" {
		return nil
	}
	if f.doc == "" && file.Doc != nil {
		f.doc = strings.TrimSpace(file.Doc.Text())
	}
	if test {
		return nil
	}
	f.name = file.Name.Name
	for _, spec := range file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", set.Position(spec.Pos()), err)
		}
		f.imports = append(f.imports, imported{path: name, at: set.Position(spec.Pos())})
	}
	return nil
}
