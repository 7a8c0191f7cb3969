package deptest

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// moduleRoot is the module's root, relative to this package's folder, where go test runs
// its tests.
const moduleRoot = "../.."

func TestImportsFollowTheTable(t *testing.T) {
	root := os.DirFS(moduleRoot)
	faults, err := Check(root, moduleName(t, root), Graph())
	require.NoError(t, err)
	for _, fault := range faults {
		t.Error(fault)
	}
}

func TestReadFoldersFindsThisModule(t *testing.T) {
	folders, err := readFolders(os.DirFS(moduleRoot))
	require.NoError(t, err)
	var seen []string
	for _, f := range folders {
		seen = append(seen, f.path)
	}
	require.Subset(t, seen, []string{"internal/deptest", "internal/fault", "internal/invariant", "joiner", "loader/dataset"})
}

func TestRecordsAreNumberedInOrder(t *testing.T) {
	faults, err := CheckRecords(os.DirFS(moduleRoot), "docs/adr")
	require.NoError(t, err)
	for _, fault := range faults {
		t.Error(fault)
	}
}

// moduleName reads the module's name from its go.mod.
func moduleName(t *testing.T, root fs.FS) string {
	t.Helper()
	text, err := fs.ReadFile(root, "go.mod")
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(text), "\n")
	name, found := strings.CutPrefix(first, "module ")
	require.True(t, found, "go.mod begins with %q", first)
	return name
}

// TestFaultsAreFound breaks a small valid tree in one way at a time, to show that the check
// fails if it must.
func TestFaultsAreFound(t *testing.T) {
	cases := map[string]struct {
		file, src string // added to the sound tree, or in place of its file
		want      []string
	}{
		"nothing": {},
		"an edge against the direction": {
			"low/more.go", "package low\n\nimport \"example.org/m/high\"\n",
			[]string{"low/more.go:3: low imports example.org/m/high: it may import nothing of ours"},
		},
		"an edge that the row lacks": {
			"high/more.go", "package high\n\nimport (\n\t\"fmt\"\n\n\t\"example.org/m/side\"\n)\n",
			[]string{"high/more.go:6: high imports example.org/m/side: of ours it may import only low"},
		},
		"an edge behind a build tag": {
			"low/on.go", "//go:build never\n\npackage low\n\nimport _ \"example.org/m/high\"\n",
			[]string{"low/on.go:5: low imports example.org/m/high: it may import nothing of ours"},
		},
		"production code that imports a kit": {
			"high/more.go", "package high\n\nimport \"example.org/m/kit\"\n",
			[]string{"high/more.go:3: high imports example.org/m/kit: of ours it may import only low"},
		},
		"a package with a star may not be imported by a star": {
			"top/more.go", "package main\n\nimport \"example.org/m/kit\"\n",
			[]string{"top/more.go:3: top imports example.org/m/kit: of ours it may import only *"},
		},
		"a closed library": {
			"low/more.go", "package low\n\nimport \"github.com/apache/arrow-go/v18/arrow/flight/gen/flight\"\n",
			[]string{"low/more.go:3: low imports github.com/apache/arrow-go/v18/arrow/flight/gen/flight: " +
				"only high may use that library"},
		},
		"a library that is not listed": {
			"low/more.go", "package low\n\nimport \"example.com/new\"\n",
			[]string{"low/more.go:3: low imports example.com/new: " +
				"the library is not in internal/deptest/table.go: say there who may use it"},
		},
		"an open library":                 {"low/more.go", "package low\n\nimport \"github.com/apache/arrow-go/v18/arrow/array\"\n", nil},
		"a test file may import anything": {"low/low_test.go", "package low\n\nimport _ \"example.org/m/high\"\n", nil},
		"a folder without a row": {
			"extra/extra.go", "// Package extra is new.\npackage extra\n",
			[]string{"extra is not in the import table: add a row to internal/deptest/table.go"},
		},
		"an edge to a folder without a row": {
			"high/more.go", "package high\n\nimport \"example.org/m/extra\"\n",
			[]string{"high/more.go:3: high imports example.org/m/extra: there is no row for it in internal/deptest/table.go"},
		},
		"a package without a package comment": {
			"low/low.go", "// Low.\npackage low\n",
			[]string{"low: no file has a package comment: say what it is for and what it promises"},
		},
		"an empty name": {
			"util/util.go", "// Package util has it all.\npackage util\n",
			[]string{
				`util: "util" does not say what the package holds: name it after that`,
				"util is not in the import table: add a row to internal/deptest/table.go",
			},
		},
		"another module":      {"low/other/go.mod", "module other\n", nil},
		"testdata is skipped": {"low/testdata/x.go", "package broken\n\nimport \"example.org/m/high\"\n", nil},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			tree := soundTree()
			if test.file != "" {
				tree[test.file] = &fstest.MapFile{Data: []byte(test.src)}
			}
			faults, err := Check(tree, "example.org/m", smallTable())
			require.NoError(t, err)
			require.Equal(t, test.want, faults)
		})
	}
}

func TestUnreadableSourcesAndTablesAreErrors(t *testing.T) {
	tree := soundTree()
	tree["low/more.go"] = &fstest.MapFile{Data: []byte("packag low")}
	_, err := Check(tree, "example.org/m", smallTable())
	require.ErrorContains(t, err, "low/more.go:1:1")

	_, err = Check(soundTree(), "example.org/m", append(smallTable(), Row{Folder: "x", Imports: "lwo"}))
	require.EqualError(t, err, "the import table's row x names lwo, which has no row")

	_, err = Check(soundTree(), "example.org/m", append(smallTable(), Row{Folder: "x/low"}))
	require.EqualError(t, err, "the import table has low and x/low: a name would mean both")
}

// TestKitsAreClosed: without a star, a kit could be imported by all rows with one.
func TestKitsAreClosed(t *testing.T) {
	for _, row := range Graph() {
		name := path.Base(row.Folder)
		if strings.HasSuffix(name, "test") || name == "errstore" || strings.HasPrefix(row.Folder, "internal/scenario") {
			require.Contains(t, strings.Fields(row.Imports), "*", row.Folder)
		}
	}
}

func TestRowsWithoutFoldersAreFound(t *testing.T) {
	faults, err := Check(soundTree(), "example.org/m", append(smallTable(), Row{Folder: "gone"}))
	require.NoError(t, err)
	require.Equal(t, []string{
		"gone is in the import table, and there is no such folder: delete its row",
	}, faults)
}

// TestUnusedImportsAreFound: stars are not checked, imports of tests do not count, and a
// row without a folder is reported only once.
func TestUnusedImportsAreFound(t *testing.T) {
	table := smallTable()
	table[1].Imports = "low"
	table[2].Imports = "low side"
	table[4].Imports = "* top"
	tree := soundTree()
	tree["side/side_test.go"] = &fstest.MapFile{Data: []byte("package side\n\nimport _ \"example.org/m/low\"\n")}
	faults, err := Check(tree, "example.org/m", append(table, Row{Folder: "gone", Imports: "low"}))
	require.NoError(t, err)
	require.Equal(t, []string{
		"gone is in the import table, and there is no such folder: delete its row",
		"side may import low, and no file of it does: take that out of its row",
		"high may import side, and no file of it does: take that out of its row",
		"kit may import top, and no file of it does: take that out of its row",
	}, faults)
}

func smallTable() []Row {
	return []Row{
		{Folder: "low"},
		{Folder: "side"},
		{Folder: "high", Imports: "low", Outside: libArrowFlight},
		{Folder: "top", Imports: "*"},
		{Folder: "kit", Imports: "*"},
	}
}

// soundTree is a small module without faults. Its nested module would have some if it
// were not skipped.
func soundTree() fstest.MapFS {
	return fstest.MapFS{
		"go.mod":              {Data: []byte("module example.org/m\n")},
		"low/low.go":          {Data: []byte("// Package low is below.\npackage low\n")},
		"low/other/go.mod":    {Data: []byte("module other\n")},
		"low/other/other.go":  {Data: []byte("package other\n\nimport \"example.org/m/high\"\n")},
		"high/high.go":        {Data: []byte("// Package high is above.\npackage high\n\nimport \"example.org/m/low\"\n")},
		"side/side.go":        {Data: []byte("// Package side is beside.\npackage side\n")},
		"top/main.go":         {Data: []byte("// Top runs.\npackage main\n\nimport \"example.org/m/high\"\n")},
		"kit/kit.go":          {Data: []byte("// Package kit tests.\npackage kit\n\nimport \"example.org/m/high\"\n")},
		".bench/generated.go": {Data: []byte("package generated\n")},
	}
}

func TestRecordFaultsAreFound(t *testing.T) {
	const head = "# 0001. Keep it\n\nDate: 2026-11-21\nStatus: accepted\n"
	cases := map[string]struct {
		files map[string]string
		want  []string
	}{
		"sound": {map[string]string{"0001-keep-it.md": head}, nil},
		"a gap": {
			map[string]string{"0002-keep-it.md": strings.Replace(head, "0001", "0002", 1)},
			[]string{"0002-keep-it.md: the next record is number 0001"},
		},
		"a twin": {
			map[string]string{"0001-keep-it.md": head, "0001-or-not.md": head},
			[]string{"0001-or-not.md: the next record is number 0002"},
		},
		"a name out of form": {
			map[string]string{"1-keep.md": head},
			[]string{"1-keep.md: a record is named 0001-what-was-decided.md"},
		},
		"no date": {
			map[string]string{"0001-keep-it.md": "# 0001. Keep it\n\nStatus: accepted\n"},
			[]string{"0001-keep-it.md: its first lines are not those of TEMPLATE.md, with number 0001"},
		},
		"not listed": {
			map[string]string{"0001-lost.md": head},
			[]string{"0001-lost.md: README.md does not list it"},
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			tree := fstest.MapFS{
				"adr/README.md":   {Data: []byte("[a](0001-keep-it.md) [b](0002-keep-it.md) [c](0001-or-not.md)")},
				"adr/TEMPLATE.md": {Data: []byte("# NNNN. What was decided\n")},
			}
			for file, text := range test.files {
				tree["adr/"+file] = &fstest.MapFile{Data: []byte(text)}
			}
			faults, err := CheckRecords(tree, "adr")
			require.NoError(t, err)
			require.Equal(t, test.want, faults)
		})
	}
}
