package spectest

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// folder is this package's, from the module's root.
const folder = "internal/spectest"

func TestEverySentenceIsCitedAndEveryCitationExists(t *testing.T) {
	faults, err := Check(os.DirFS("../.."), folder)
	require.NoError(t, err)
	for _, fault := range faults {
		t.Error(fault)
	}
}

func TestFaultsAreFound(t *testing.T) {
	cases := map[string]struct {
		file, text string // added to the sound tree, or in place of its file
		want       []string
	}{
		"nothing": {},
		"a sentence without a citation": {
			"docs/spec/join.md", "- **join-1** One.\n\nWhy.\n\n- **join-4** Four,\n  and more.\n- **join-5** Five.\n",
			[]string{"docs/spec/join.md:7: no test cites join-5"},
		},
		"a citation of no sentence": {
			"a/a_test.go", "package a\n\n// spec: join-1, join-4, join-9\n",
			[]string{"a/a_test.go:3: no page of docs/spec has join-9"},
		},
		"a citation in the name of a subtest": {"a/a_test.go", "t.Run(\"spec: join-1,join-4 holds\", f)\n", nil},
		"a citation in a kit":                 {"b/btest/suite.go", "// spec: join-9\n", []string{"b/btest/suite.go:1: no page of docs/spec has join-9"}},
		"a citation in Python":                {"python/tests/test_a.py", "# spec: join-9\n", []string{"python/tests/test_a.py:1: no page of docs/spec has join-9"}},
		"a citation in a scenario":            {"a/testdata/b/c.txt", "# spec: join-9\n", []string{"a/testdata/b/c.txt:1: no page of docs/spec has join-9"}},
		"what looks like one, in production":  {"a/a.go", "x{spec: join-9}\n", nil},
		"a hidden folder":                     {".venv/x/test_a.py", "# spec: join-9\n", nil},
		"a struct field of that name":         {"b/b_test.go", "x{spec: table.Spec, n: 1}\n", nil},
		"this package's own tests":            {folder + "/x_test.go", "// spec: join-9\n", nil},
		"a citation out of form": {
			"b/b_test.go", "package b\n\n// spec: join 1\n",
			[]string{"b/b_test.go:3: a citation reads \"spec: page-1, page-2\""},
		},
		"a sentence out of form": {
			"docs/spec/join.md", "- **join-1** One.\n- **join-4** Four.\n- **Join-5** Five.\n**join-6** Six.\n",
			[]string{
				"docs/spec/join.md:3: a sentence must begin with \"- **join-5** \", followed by its text",
				"docs/spec/join.md:4: a sentence must begin with \"- **join-5** \", followed by its text",
			},
		},
		"numbers that fall": {
			"docs/spec/join.md", "- **join-4** Four.\n- **join-1** One.\n",
			[]string{"docs/spec/join.md:2: the numbers of sentences must increase; the previous number is 4"},
		},
		"a number used twice": {
			"docs/spec/join.md", "- **join-1** One.\n- **join-4** Four.\n- **join-4** Again.\n",
			[]string{"docs/spec/join.md:3: the numbers of sentences must increase; the previous number is 4"},
		},
		"another page's id": {
			"docs/spec/join.md", "- **join-1** One.\n- **order-4** Four.\n",
			[]string{
				"a/a_test.go:3: no page of docs/spec has join-4",
				"docs/spec/join.md:2: ids on this page begin with join-",
				"docs/spec/join.md:2: no test cites order-4",
			},
		},
		"an empty page": {
			"docs/spec/order.md", "Words.\n",
			[]string{
				"docs/spec/order.md: README.md does not list the page",
				"docs/spec/order.md: the page has no sentence",
			},
		},
		"a listed page that is not there": {
			"docs/spec/README.md", "[join](join.md) [order](order.md)\n",
			[]string{"docs/spec/README.md lists order.md, which does not exist"},
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			tree := soundTree()
			if test.file != "" {
				tree[test.file] = &fstest.MapFile{Data: []byte(test.text)}
			}
			faults, err := Check(tree, folder)
			require.NoError(t, err)
			require.Equal(t, test.want, faults)
		})
	}
}

func TestWithoutPagesThereIsAnError(t *testing.T) {
	_, err := Check(fstest.MapFS{}, folder)
	require.ErrorContains(t, err, "read the list of pages")
}

// soundTree has two sentences, both cited.
func soundTree() fstest.MapFS {
	return fstest.MapFS{
		"docs/spec/README.md": {Data: []byte("| [join](join.md) | what a row becomes |\n")},
		"docs/spec/join.md":   {Data: []byte("# Join\n\n- **join-1** One.\n- **join-4** Four.\n")},
		"a/a_test.go":         {Data: []byte("package a\n\n// spec: join-1, join-4\nfunc TestA() {}\n")},
	}
}
