package scenario

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
)

//nolint:gochecknoglobals // a test flag
var rewrite = flag.Bool("rewrite", false, "write the output of scenario files into them; review the diff")

// Run runs every scenario file that the pattern matches, each in a world of
// its own. A file is a list of commands:
//
//	> command arguments
//	input lines
//	----
//	expected output
//
// with an empty line between commands. The commands are: table NAME SPEC and
// append NAME [rows per file] (input: a header and rows), dataset NAME
// (input: YAML), explain and read (input: a query as JSON). Lines before the
// first command are comments. With -rewrite the output replaces what was
// expected.
func Run(t *testing.T, pattern string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files, "no scenario file matches %s", pattern)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			got := play(t, string(text))
			if *rewrite {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			require.Equal(t, string(text), got, "run with -rewrite and review the diff")
		})
	}
}

// play runs the commands of a file and returns it with the output they gave.
func play(t *testing.T, text string) string {
	t.Helper()
	p := &player{world: NewWorld(), tables: map[string]*catalog.Table{}}
	defer p.world.Release()
	head, rest, found := strings.Cut(text, "\n> ")
	require.True(t, found, "no command")
	out := strings.Builder{}
	out.WriteString(head + "\n")
	for block := range strings.SplitSeq(rest, "\n> ") {
		input, _, found := strings.Cut(block, "\n----")
		require.True(t, found, "no ---- in %q", block)
		lines := strings.Split(input, "\n")
		result, err := p.command(lines[0], lines[1:])
		if err != nil {
			result = fmt.Sprintf("error: %s: %v\n", fault.KindOf(err), err)
		}
		out.WriteString("> " + input + "\n----\n" + result + "\n")
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

type player struct {
	world    *World
	tables   map[string]*catalog.Table
	datasets []dataset.Dataset
}

func (p *player) command(line string, input []string) (string, error) {
	name, rest, _ := strings.Cut(line, " ")
	switch name {
	case "table":
		table, spec, _ := strings.Cut(rest, " ")
		return "", p.table(table, spec, input)
	case "append":
		table, size, _ := strings.Cut(rest, " ")
		fileRows, _ := strconv.Atoi(size)
		return "", p.append(table, fileRows, input)
	case "dataset":
		return "", p.dataset(rest, input)
	case "explain":
		return p.explain(input)
	case "read":
		return p.read(input)
	}
	return "", fmt.Errorf("scenario knows no command %q", name)
}

func (p *player) table(name, specText string, input []string) error {
	fields, err := Fields(input[0])
	if err != nil {
		return err
	}
	spec, err := Spec(specText, fields)
	if err != nil {
		return err
	}
	t, err := p.world.NewTable(name, fields, spec)
	if err != nil {
		return err
	}
	p.tables[name] = t
	return p.append(name, 0, input)
}

// NewTable makes an empty table with one partition spec, and returns it as
// Append takes it.
func (w *World) NewTable(name string, fields []catalog.Field, specs ...catalog.Spec) (*catalog.Table, error) {
	byID := map[int]catalog.Spec{}
	for i, s := range specs {
		byID[i] = s
	}
	if err := w.AddTable(name, fields, byID); err != nil {
		return nil, err
	}
	return &catalog.Table{Name: name, Fields: fields, Specs: byID}, nil
}

func (p *player) append(name string, fileRows int, input []string) error {
	t := p.tables[name]
	if t == nil {
		return fmt.Errorf("no table %s", name)
	}
	rows, err := Rows(t.Fields, input[1:])
	if err != nil || rows.NumRows() == 0 {
		return err
	}
	defer rows.Release()
	return p.world.Append(t, 0, rows, fileRows)
}

func (p *player) dataset(name string, input []string) error {
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(strings.Join(input, "\n")), &node); err != nil {
		return err
	}
	d, err := dataset.FromYAML(name, node.Content[0])
	if err != nil {
		return err
	}
	p.datasets = append(p.datasets, d)
	return nil
}

func (p *player) loader() *loader.Loader {
	return loader.New(loader.Options{Datasets: p.datasets, Catalog: p.world, Scan: p.world.Scan})
}

func (p *player) explain(input []string) (string, error) {
	q, err := dataset.ParseQuery([]byte(strings.Join(input, "\n")))
	if err != nil {
		return "", err
	}
	planned, err := p.loader().Plan(context.Background(), q)
	if err != nil {
		return "", err
	}
	return planned.String(), nil
}

func (p *player) read(input []string) (string, error) {
	q, err := dataset.ParseQuery([]byte(strings.Join(input, "\n")))
	if err != nil {
		return "", err
	}
	read, err := Read(context.Background(), p.loader(), q)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, shard := range read {
		out.WriteString(Format(shard.Schema, shard.Rows()))
		r := shard.Report
		fmt.Fprintf(&out, "shard %d of %d: rows %d, steps %d, at %v\n", r.Cursor.Shard.Index, r.Cursor.Shard.Of, r.Rows, r.Steps, r.Cursor.At)
		for _, name := range slices.Sorted(maps.Keys(r.Staging)) {
			fmt.Fprintf(&out, "  %s: %+v\n", name, r.Staging[name])
		}
	}
	return out.String(), nil
}
