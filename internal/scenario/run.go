package scenario

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
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
	"github.com/penstock/penstock/loader/dataset/decode"
	"github.com/penstock/penstock/loader/plan/explain"
)

// zero matches a count of 0. Such counts are not shown.
var zero = regexp.MustCompile(`,"\w+":0\b`)

//nolint:gochecknoglobals // a test flag
var rewrite = flag.Bool("rewrite", false, "write the output of scenario files into them; review the diff")

// Run runs every scenario file that matches the pattern, each in its own world. A file
// is a list of commands:
//
//	> command arguments
//	input lines
//	----
//	expected output
//
// with an empty line between commands. The commands are table NAME SPEC and append NAME
// [rows per file] (input: a header and rows), spec NAME SPEC (the partition spec of
// later appends), dataset NAME (input: YAML), and explain, read and oracle (input: a
// query as JSON; oracle compares the rows and counts of read with those of nested
// loops). Lines before the first command are comments. With -rewrite the output replaces
// the expected output.
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
			want, have := strings.Split(string(text), "\n> "), strings.Split(got, "\n> ")
			if os.Getenv(rowsAlone) != "" {
				requireRows(t, want, have)
				return
			}
			for i := range min(len(want), len(have)) { // one command at a time, for readable differences
				require.Equal(t, want[i], have[i], "run with -rewrite and review the diff")
			}
			require.Equal(t, string(text), got, "run with -rewrite and review the diff")
		})
	}
}

// rowsAlone is an environment variable, which make mutants sets. If it is set, only rows and the
// kinds of errors are compared; the output of explain and the texts of errors are not.
const rowsAlone = "PENSTOCK_ROWS_ALONE"

// requireRows compares the commands of a file by rows and the kinds of errors.
func requireRows(t *testing.T, want, have []string) {
	t.Helper()
	require.Len(t, have, len(want))
	for i := range want {
		require.Equal(t, rowsAndKind(want[i]), rowsAndKind(have[i]))
	}
}

// rowsAndKind returns a command with its output, but without the output of explain and without the
// text after the kind of an error.
func rowsAndKind(command string) string {
	input, output, _ := strings.Cut(command, "\n----")
	if kind, refused := strings.CutPrefix(strings.TrimSpace(output), "error: "); refused {
		kind, _, _ = strings.Cut(kind, ":")
		return input + "\n----\nerror: " + kind
	}
	if strings.HasPrefix(input, "explain") {
		return input
	}
	return command
}

// play runs the commands of a file, and returns the file with their output.
func play(t *testing.T, text string) string {
	t.Helper()
	head, rest, found := strings.Cut(text, "\n> ")
	require.True(t, found, "no command")
	p := &player{world: NewWorld(), tables: map[string]*catalog.Table{}, specs: map[string][]string{}, current: map[string]int{}, headers: map[string]string{}}
	defer p.world.Release()
	for line := range strings.SplitSeq(rest, "\n") { // first collect the specs: tables in memory are made with all their specs
		if later, ok := strings.CutPrefix(line, "> spec "); ok {
			name, spec, _ := strings.Cut(later, " ")
			p.specs[name] = append(p.specs[name], spec)
		}
	}
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
	specs    map[string][]string // by table: the specs after the first
	headers  map[string]string
	current  map[string]int // by table: index of the spec for appends
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
	case "spec":
		table, _, _ := strings.Cut(rest, " ")
		p.current[table]++
		return "", nil
	case "dataset":
		return "", p.dataset(rest, input)
	case "explain":
		return p.explain(input)
	case "read":
		return p.read(input)
	case "oracle":
		return p.oracle(input)
	}
	return "", fmt.Errorf("scenario knows no command %q", name)
}

func (p *player) table(name, specText string, input []string) error {
	fields, err := Fields(input[0])
	if err != nil {
		return err
	}
	var specs []catalog.Spec
	for _, text := range append([]string{specText}, p.specs[name]...) {
		spec, err := Spec(text, fields)
		if err != nil {
			return err
		}
		specs = append(specs, spec)
	}
	t, err := p.world.NewTable(name, fields, specs...)
	if err != nil {
		return err
	}
	p.tables[name], p.headers[name] = t, input[0]
	return p.append(name, 0, input)
}

// NewTable makes an empty table, and returns it for Append.
func (w *World) NewTable(name string, fields []catalog.Field, specs ...catalog.Spec) (*catalog.Table, error) {
	byID := map[int]catalog.Spec{}
	for i, s := range specs {
		byID[i] = s
	}
	if err := w.AddTable(name, fields, byID); err != nil {
		return nil, err
	}
	w.columns[name] = fields
	return &catalog.Table{Name: name, Fields: fields, Specs: byID}, nil
}

func (p *player) append(name string, fileRows int, input []string) error {
	t := p.tables[name]
	if t == nil {
		return fmt.Errorf("no table %s", name)
	}
	return p.world.appendLines(t, p.current[name], input[1:], fileRows)
}

func (p *player) dataset(name string, input []string) error {
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(strings.Join(input, "\n")), &node); err != nil {
		return err
	}
	d, err := decode.Dataset(name, node.Content[0])
	if err != nil {
		return err
	}
	p.datasets = append(p.datasets, d)
	return nil
}

func (p *player) loader() *loader.Loader {
	return loader.New(loader.Options{Datasets: p.datasets, Catalog: p.world, Scan: p.world.Scan})
}

// screen is the maximum number of lines of a plan's summary. It is the same as in the server.
const screen = 40

// explain returns the summary and the full text of a plan.
func (p *player) explain(input []string) (string, error) {
	q, err := decode.Query([]byte(strings.Join(input, "\n")))
	if err != nil {
		return "", err
	}
	planned, err := p.loader().Plan(context.Background(), q)
	if err != nil {
		return "", err
	}
	return explain.Summary(planned.Plan, q, nil, screen) + "\n" + explain.Text(planned.Plan, q, nil), nil
}

func (p *player) read(input []string) (string, error) {
	q, err := decode.Query([]byte(strings.Join(input, "\n")))
	if err != nil {
		return "", err
	}
	read, err := Read(context.Background(), p.loader(), q)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, shard := range read {
		out.WriteString(Format(Expanded(shard.Schema), shard.Rows()))
		r := shard.Report
		fmt.Fprintf(&out, "shard %d of %d: rows %d, steps %d, at %v\n", r.Cursor.Shard.Index, r.Cursor.Shard.Of, r.Rows, r.Steps, positions(r.Cursor))
		for _, name := range slices.Sorted(maps.Keys(r.Staging)) {
			counts, err := json.Marshal(r.Staging[name])
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&out, "  %s: %s\n", name, zero.ReplaceAllString(string(counts), ""))
		}
		if r.Unread != nil {
			fmt.Fprintf(&out, "  unread: %s\n", strings.Join(r.Unread, ", "))
		}
		if r.Request != nil {
			fmt.Fprintf(&out, "  request: sent %d, ratio %g\n", r.Request.Sent, r.Request.Ratio)
		}
		if r.Indexed != nil {
			fmt.Fprintf(&out, "  indexed: %s\n", strings.Join(r.Indexed, ", "))
		}
	}
	return out.String(), nil
}

// oracle compares a read with the result of nested loops over the same tables.
func (p *player) oracle(input []string) (string, error) {
	q, err := decode.Query([]byte(strings.Join(input, "\n")))
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(p.datasets, func(d dataset.Dataset) bool { return d.Name == q.Dataset })
	if at < 0 {
		return "", fmt.Errorf("no dataset %s", q.Dataset)
	}
	c := &Case{Dataset: p.datasets[at], Query: q, Training: p.header(p.datasets[at].Training.Table), Workers: q.Every.Of, Drops: q.Tail.Drops()}
	for _, s := range c.Dataset.Staging {
		c.Staging = append(c.Staging, p.header(s.Table))
	}
	if _, d := c.readAgainst(c.Expect(p.world), p.loader()); d != (Difference{}) {
		return d.Kind + "\n" + d.Text + "\n", nil
	}
	return agrees + "\n", nil
}

// agrees is the output of the command oracle if a read returns the expected rows.
const agrees = "agrees"

// header returns a table for the oracle. It has no commits, because its rows are in the world.
func (p *player) header(name string) Table { return Table{Name: name, Header: p.headers[name]} }

// positions returns the positions of a cursor: lane, range, window if any, and row.
func positions(c dataset.Cursor) []string {
	at := make([]string, len(c.At))
	for i, p := range c.At {
		at[i] = fmt.Sprintf("{%d %d %d}", p.Lane, p.Range, p.Row)
		if c.ShuffleWindow > 0 {
			at[i] = fmt.Sprintf("{%d %d %d %d}", p.Lane, p.Range, p.Window, p.Row)
		}
	}
	return at
}
