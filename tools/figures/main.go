// Command figures prints the size and shape of the product's Go code as a table: that of the
// module in the root folder, without tests and test kits.
//
//	go run ./tools/figures [-root .] [-long 12] [-files 24]
//
// A field is mutable if a method assigns it through its receiver, a function through a
// parameter, both by =, op=, ++ and through an index, or if it is atomic. Functions whose names
// begin with new, open or make are constructors and do not count. Assignments through
// other variables are not seen, since the sources are read without types.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

func main() {
	root := flag.String("root", ".", "the repository")
	long := flag.Int("long", 12, "also list the structs with more mutable fields than this")
	files := flag.Int("files", 24, "also list the packages with more files than this")
	flag.Parse()
	if err := run(os.Stdout, *root, *long, *files); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// run prints the table of a repository, and its structs and packages above the limits.
func run(out io.Writer, root string, long, files int) error {
	f, err := measure(os.DirFS(root))
	if err != nil {
		return err
	}
	if f.lines == 0 {
		return errors.New("there is no Go code outside of tests in " + root)
	}
	subjects, err := exec.CommandContext(context.Background(), "git", "-C", root, "log", "--format=%s").Output()
	if err != nil {
		return fmt.Errorf("read the commits of %s: %w", root, err)
	}
	over, all := longSubjects(string(subjects))
	lines := []string{f.table() + fmt.Sprintf("| commit subjects over %d characters | %d of %d |\n", maxSubject, over, all)}
	for _, s := range f.structs {
		if s.mutable > long {
			lines = append(lines, fmt.Sprintf("%s: %d mutable fields of %d", s.name, s.mutable, s.fields))
		}
	}
	for _, p := range f.packages {
		if p.files > files {
			lines = append(lines, fmt.Sprintf("%s: %d files", p.folder, p.files))
		}
	}
	_, err = fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

// maxSubject is the largest number of characters of a commit's subject.
const maxSubject = 72

// longSubjects returns how many lines exceed maxSubject, and how many there are.
func longSubjects(text string) (over, all int) {
	for line := range strings.Lines(text) {
		all++
		if len([]rune(strings.TrimSuffix(line, "\n"))) > maxSubject {
			over++
		}
	}
	return over, all
}

// table returns the figures as lines of Markdown.
func (f *figures) table() string {
	var out strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&out, "| %s | "+format+" |\n", append([]any{name}, args...)...)
	}
	row("non-test Go", "")
	out.WriteString("|---|---|\n")
	row("lines", "%d", f.lines)
	row("file p50/p90 (max)", "%s", percentiles(f.files, 50, 90))
	row("function p50/p90/p99 (max)", "%s", percentiles(f.functions, 50, 90, 99))
	row("interface p50/p90 (max)", "%s", percentiles(f.interfaces, 50, 90))
	row("exported types documented", "%d %%", percent(f.documented, f.exported))
	row("comment lines per 100 of code", "%d", percent(f.comments, f.code))
	var files []int
	for _, p := range f.packages {
		files = append(files, p.files)
	}
	row("files per package p90 (max)", "%s", percentiles(files, 90))
	row("lines of test per line", "%.2f", float64(f.testLines)/float64(f.lines))
	var mutable []int
	for _, s := range f.structs {
		mutable = append(mutable, s.mutable)
	}
	row("mutable fields per struct p50/p90/p99 (max)", "%s", percentiles(mutable, 50, 90, 99))
	return out.String()
}

func percent(n, of int) int {
	if of == 0 {
		return 0
	}
	return (100*n + of/2) / of
}

// percentiles returns percentiles of values, divided by slashes, and the maximum.
func percentiles(values []int, at ...int) string {
	if len(values) == 0 {
		return "none"
	}
	values = slices.Sorted(slices.Values(values))
	var parts []string
	for _, p := range at {
		parts = append(parts, strconv.Itoa(values[(len(values)-1)*p/100]))
	}
	return fmt.Sprintf("%s (%d)", strings.Join(parts, "/"), values[len(values)-1])
}
