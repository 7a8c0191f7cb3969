package deptest

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// TestSharesAreRunWhole: what make test tries in part, make test-random tries whole.
func TestSharesAreRunWhole(t *testing.T) {
	root := os.DirFS(moduleRoot)
	faults, err := CheckShares(root)
	require.NoError(t, err)
	for _, fault := range faults {
		t.Error(fault)
	}
	tests, err := sharedTests(root, "internal/scenario/warehouse")
	require.NoError(t, err)
	require.Subset(t, tests, []string{"TestLineage", "TestWorlds"})
}

func TestLostSharesAreFound(t *testing.T) {
	const (
		makefile = "CASES := $(GO) test -run 'Worlds|Lineage' ./a\nOTHER := $(GO) test ./b\nRACED := $(GO) test -race ./a\nPART := $(GO) test -tags invariants,share ./a\n\ntest-random: x ## all\n\t$(CASES) -timeout 15m\n\t$(RACED)\n\t$(PART)\n\nlong:\n\t$(OTHER)\n"
		without  = "//go:build !race\n\npackage a\n\nconst share = 1\n"
		lost     = " does less in make test, and make test-random does not run it: add it to a command there"
	)
	for name, c := range map[string]struct {
		folder, test string
		want         []string
	}{
		"matched":            {"a", "func TestLineage() { f(share) }", nil},
		"not matched":        {"a", "func TestCursor() { f(share) }", []string{"a: TestCursor" + lost}},
		"by a function":      {"a", "func TestCursor() { cases() }\nfunc cases() int { return 8 / share }", []string{"a: TestCursor" + lost}},
		"whole":              {"a", "func TestCursor() { f(8) }", nil},
		"of another target":  {"b", "func TestWorlds() { f(share) }", []string{"b: TestWorlds" + lost}},
		"not in the command": {"a/c", "func TestWorlds() { f(share) }", []string{"a/c: TestWorlds" + lost}},
	} {
		faults, err := CheckShares(fstest.MapFS{
			"Makefile":                       {Data: []byte(makefile)},
			c.folder + "/share_test.go":      {Data: []byte(without)},
			c.folder + "/share_race_test.go": {Data: []byte("//go:build race && linux\n\npackage a\n\nconst share = 4\n")},
			c.folder + "/a_test.go":          {Data: []byte("package a\n\n" + c.test + "\n")},
		})
		require.NoError(t, err, name)
		require.Equal(t, c.want, faults, name)
	}
	for constraint, want := range map[string][]string{
		"!race": {"a: TestCursor" + lost}, "!share": {"a: TestCursor" + lost}, "!race && !share": {"a: TestCursor" + lost}, "unix": nil,
	} {
		faults, err := CheckShares(fstest.MapFS{
			"Makefile":     {Data: []byte(makefile)},
			"a/it_test.go": {Data: []byte("//go:build " + constraint + "\n\npackage a\n\nfunc TestCursor() {}\n")},
		})
		require.NoError(t, err)
		require.Equal(t, want, faults, constraint)
	}
	_, err := CheckShares(fstest.MapFS{"Makefile": {Data: []byte("test-random:\n\techo\n")}})
	require.Error(t, err)
}
