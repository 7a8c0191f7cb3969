package deptest

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// emptyNames are package names that do not describe the contents.
const emptyNames = "base common data helper helpers info lib manager misc shared task tasks util utils worker workers"

// Check reads the Go sources of a module below root, and returns one sentence per fault,
// in the order of folders: an import that is not in the rows, a library that is closed
// to the package or not listed, a folder without a row, a row without a folder, an
// import of a row that no file has, a package without a comment or with an empty name.
// An error means that sources could not be read or that rows are inconsistent.
func Check(root fs.FS, module string, rows []Row) ([]string, error) {
	g, err := newGraph(module, rows)
	if err != nil {
		return nil, err
	}
	folders, err := readFolders(root)
	if err != nil {
		return nil, err
	}
	var faults []string
	for _, f := range folders {
		faults = append(faults, introduction(f)...)
		row, known := g.row(f.path)
		if !known {
			faults = append(faults, f.path+" is not in the import table: add a row to internal/deptest/table.go")
			continue
		}
		for _, edge := range f.imports {
			if fault := g.fault(row, edge.path); fault != "" {
				faults = append(faults, fmt.Sprintf("%s:%d: %s imports %s: %s",
					edge.at.Filename, edge.at.Line, f.path, edge.path, fault))
			}
		}
	}
	return slices.Concat(faults, g.absent(folders), g.unused(folders)), nil
}

// absent returns the rows without a folder.
func (g *graph) absent(folders []*folder) []string {
	var faults []string
	for _, row := range g.rows {
		if !slices.ContainsFunc(folders, func(f *folder) bool {
			found, _ := g.row(f.path)
			return found.Folder == row.Folder
		}) {
			faults = append(faults, row.Folder+" is in the import table, and there is no such folder: delete its row")
		}
	}
	return faults
}

// unused returns the imports of rows that no file has. An unused edge would allow an
// import later without a decision.
func (g *graph) unused(folders []*folder) []string {
	used := map[string]map[string]bool{} // by the row's folder: the folders of the rows that it imports
	for _, f := range folders {
		row, _ := g.row(f.path)
		if used[row.Folder] == nil {
			used[row.Folder] = map[string]bool{}
		}
		for _, edge := range f.imports {
			if dir, ours := strings.CutPrefix(edge.path, g.module+"/"); ours {
				target, _ := g.row(dir)
				used[row.Folder][target.Folder] = true
			}
		}
	}
	var faults []string
	for _, row := range g.rows {
		for name := range strings.FieldsSeq(row.Imports) {
			if name != "*" && used[row.Folder] != nil && !used[row.Folder][g.named[name].Folder] {
				faults = append(faults, row.Folder+" may import "+name+", and no file of it does: take that out of its row")
			}
		}
	}
	return faults
}

// introduction returns the faults of a package's name and comment.
func introduction(f *folder) []string {
	var faults []string
	base := path.Base(f.path)
	if slices.Contains(strings.Fields(emptyNames), base) {
		faults = append(faults, fmt.Sprintf("%s: %q does not say what the package holds: name it after that", f.path, base))
	}
	begins := "Package " + f.name + " "
	if f.name == "main" || f.name == "" {
		begins = "" // the comment of a command begins with what it does
	}
	if f.doc == "" || !strings.HasPrefix(f.doc, begins) {
		faults = append(faults, f.path+": no file has a package comment: say what it is for and what it promises")
	}
	return faults
}

// graph is the table, indexed.
type graph struct {
	module string
	rows   []Row
	named  map[string]Row  // by the last element of the folder
	closed map[string]bool // true for libraries that a row lists, false for open ones
}

// newGraph indexes rows and checks that their names are unique and known.
func newGraph(module string, rows []Row) (*graph, error) {
	g := &graph{module: module, rows: rows, named: map[string]Row{}, closed: map[string]bool{}}
	for library := range strings.FieldsSeq(Open) {
		g.closed[library] = false
	}
	for _, row := range rows {
		name := path.Base(row.Folder)
		if other, twice := g.named[name]; twice {
			return nil, fmt.Errorf("the import table has %s and %s: a name would mean both", other.Folder, row.Folder)
		}
		g.named[name] = row
		for library := range strings.FieldsSeq(row.Outside) {
			g.closed[library] = true
		}
	}
	for _, row := range rows {
		for name := range strings.FieldsSeq(row.Imports) {
			if _, known := g.named[name]; !known && name != "*" {
				return nil, fmt.Errorf("the import table's row %s names %s, which has no row", row.Folder, name)
			}
		}
	}
	return g, nil
}

// row returns the row of a folder.
func (g *graph) row(dir string) (Row, bool) {
	row, known := g.named[path.Base(dir)]
	if !known || row.Folder != dir {
		return Row{}, false
	}
	return row, true
}

// fault returns why a package of row may not import target; "" if it may.
func (g *graph) fault(row Row, target string) string {
	if dir, ours := strings.CutPrefix(target, g.module+"/"); ours {
		return g.faultInside(row, dir)
	}
	if first, _, _ := strings.Cut(target, "/"); !strings.Contains(first, ".") {
		return "" // the standard library
	}
	return g.faultOutside(row, target)
}

// faultInside checks an import of the module's package in dir.
func (g *graph) faultInside(row Row, dir string) string {
	target, known := g.row(dir)
	if !known {
		return "there is no row for it in internal/deptest/table.go"
	}
	allowed := strings.Fields(row.Imports)
	named := slices.Contains(allowed, path.Base(target.Folder))
	reach := slices.Contains(strings.Fields(target.Imports), "*")
	if named || slices.Contains(allowed, "*") && !reach {
		return ""
	}
	if len(allowed) == 0 {
		return "it may import nothing of ours"
	}
	return "of ours it may import only " + strings.Join(allowed, ", ")
}

// faultOutside checks an import of a library by the longest listed prefix.
func (g *graph) faultOutside(row Row, target string) string {
	mine := strings.Fields(row.Outside)
	prefix := ""
	for library := range g.closed {
		if len(library) > len(prefix) && strings.HasPrefix(target+"/", library+"/") {
			prefix = library
		}
	}
	switch {
	case prefix == "":
		return "the library is not in internal/deptest/table.go: say there who may use it"
	case !g.closed[prefix] || slices.Contains(mine, prefix):
		return ""
	}
	var owners []string
	for _, other := range g.rows {
		if slices.Contains(strings.Fields(other.Outside), prefix) {
			owners = append(owners, other.Folder)
		}
	}
	return "only " + strings.Join(owners, ", ") + " may use that library"
}
