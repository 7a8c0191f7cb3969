package exchange

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/scenario"
)

// Writer is a program that turns folders into Iceberg tables.
type Writer struct {
	Name        string
	Interpreter string // Python interpreter
	Program     string
	Formats     []int    // format versions in which tables are created; upgrades end at the last version
	Lacks       []string // regular expressions for types that it cannot write, or writes as other types
	Apart       []string // partitions that it cannot write: transforms of types
	// Once: the writer refuses specs with two fields of one column.
	Once bool
	// Voids: the writer writes tables of format version 1 whose spec has a void field beside
	// another field of the same column.
	Voids bool
	// Defaults: the writer adds columns with initial defaults, in format version 3.
	Defaults bool
	// Adds: the writer adds files of other writers, without field ids, to tables without
	// partitions.
	Adds bool
	// Groups are the table properties for small row groups and files of few row groups.
	Groups, Files map[string]string
}

// PyIceberg writes with PyIceberg.
func PyIceberg(interpreter, program string) Writer {
	return Writer{
		Name: "PyIceberg", Interpreter: interpreter, Program: program, Formats: []int{1, 2},
		// PyIceberg does not write format version 3, which nanoseconds need. It casts a null struct
		// as a struct of nulls, which fails for required fields. It turns a null map whose values
		// are structs into an empty map.
		Lacks:  []string{`_ns\b`, "!", `map<\w+,struct`},
		Apart:  []string{"bucket of time", "identity of uuid", "void of uuid"},
		Once:   true,
		Adds:   true,
		Groups: map[string]string{"write.parquet.row-group-limit": "3"},
		Files:  map[string]string{"write.target-file-size-bytes": "300"},
	}
}

// Spark writes with Spark and Iceberg's Java library.
func Spark(interpreter, program string) Writer {
	return Writer{
		Name: "Spark", Interpreter: interpreter, Program: program, Formats: []int{1, 2, 3},
		Lacks: []string{`\btime\b`, "uuid", "fixed", `_ns\b`, "!"}, // Spark has no such types
		Voids: true, Defaults: true,
		Groups: map[string]string{
			"write.parquet.row-group-size-bytes": "1", "write.parquet.row-group-check-min-record-count": "3", "write.parquet.row-group-check-max-record-count": "3",
		},
	}
}

// Takes returns the reason why the writer cannot write a case, or "".
func (w Writer) Takes(c *scenario.Case) string {
	for _, t := range c.Tables() {
		for _, spec := range t.Specs {
			if fields := fieldsOf(spec); w.Once && len(distinct(fields, sourceOf)) < len(fields) {
				return "two fields of one column"
			}
		}
		for word := range strings.FieldsSeq(t.Header) {
			column := columnOf(word)
			for _, lacking := range w.Lacks {
				if regexp.MustCompile(lacking).MatchString(column.Type) {
					return "type " + lacking
				}
			}
			for _, field := range fieldsOf(strings.Join(t.Specs, " ")) {
				transform, _, transformed := strings.Cut(field, "(")
				if !transformed {
					transform = "identity"
				}
				if made := transform + " of " + column.Type; sourceOf(field) == column.Name && slices.Contains(w.Apart, made) {
					return made
				}
			}
		}
	}
	return ""
}

// distinct returns the distinct names of fields.
func distinct(fields []string, of func(string) string) []string {
	var out []string
	for _, f := range fields {
		out = append(out, of(f))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Write runs the writer once for many folders, since starting it takes longer than writing them.
func (w Writer) Write(ctx context.Context, folders []*Folder) error {
	arguments := []string{w.Program}
	for _, f := range folders {
		arguments = append(arguments, f.Dir)
	}
	output, err := exec.CommandContext(ctx, w.Interpreter, arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", w.Name, err, output)
	}
	return nil
}
