package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/catalog"
	"github.com/penstock/penstock/loader/dataset"
	"github.com/penstock/penstock/loader/resolve"
)

// initFile is what init writes, unless --output says otherwise.
const initFile = "penstock.yaml"

func (p process) initCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "init NAME=VALUE…", Short: "Write a config file for the tables of a catalog",
		Long: "Write a config file for the tables of a catalog: its properties as they are given, and\n" +
			"datasets of tables that look as if they belonged together, by names and buckets.\n\n" +
			"Properties are those of docs/catalogs.md, as PyIceberg has them; a URI alone is the uri.\n" +
			"Secrets are written as ${VARIABLES} of the environment. Nothing but metadata is read,\n" +
			"and no file is written over.",
		Example: "  penstock init sqlite:////var/lib/penstock/catalog.db\n" +
			"  penstock init type=rest uri=https://catalog.example.com warehouse=prod token=$TOKEN --output prod.yaml",
	}
	output := textFlag(c, "output,o", "FILE", "the file to write, or - for standard output (default "+initFile+")")
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage("%s needs the properties of a catalog, such as uri=sqlite:////path/to/catalog.db", c.CommandPath())
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if *output == "" {
			*output = initFile
		}
		given, err := properties(args)
		if err != nil {
			return err
		}
		ctx, stop := interruptible(c.Context())
		defer stop()
		return p.begin(ctx, given, *output)
	}
	return c
}

// properties reads NAME=VALUE.
func properties(args []string) ([]dataset.Property, error) {
	var out []dataset.Property
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if scheme := strings.Index(arg, "://"); scheme >= 0 && (!ok || len(name) > scheme) {
			name, value, ok = "uri", arg, true
		}
		if !ok || name == "" {
			return nil, usage("%q is not of the form NAME=VALUE, such as uri=sqlite:////path/to/catalog.db", fault.Redact(arg))
		}
		for _, other := range out {
			if other.Name == name {
				return nil, usage("%s is given twice: leave one of them out", name)
			}
		}
		out = append(out, dataset.Property{Name: name, Value: value})
	}
	return out, nil
}

// begin reads the catalog and writes the file.
func (p process) begin(ctx context.Context, given []dataset.Property, output string) error {
	if _, err := os.Lstat(output); output != "-" && !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Conflict, "%s is there already, and is not written over", output).
			WithRemedy("name another file with --output, or - for standard output")
	}
	written, secrets := withoutSecrets(given)
	c, err := p.configOf(written, secrets, output)
	if err != nil {
		return err
	}
	e, err := assemble(ctx, c)
	if err != nil {
		return err
	}
	defer e.Close()
	found, err := e.survey(ctx)
	if err != nil {
		return err
	}
	text := found.config(written)
	if output == "-" {
		_, err = io.WriteString(p.stdout, text)
	} else {
		err = create(output, text)
	}
	if err != nil {
		return err
	}
	p.say("%s of %s\n", fault.Count(len(found.datasets), "dataset"), fault.Count(len(found.tables), "table"))
	if output != "-" {
		p.say("  → read %s, change it, and see what it gives: penstock datasets --config %[1]s\n", output)
	}
	for _, s := range secrets {
		p.say("  → set %s where Penstock starts: it is %s\n", s.variable, s.property)
	}
	return nil
}

// configOf reads the catalog's block as a config file, beside the one that is written:
// what is wrong with it is told as it would be of that.
func (p process) configOf(written []dataset.Property, secrets []secret, output string) (_ *config.Config, err error) {
	folder := filepath.Dir(output)
	file, err := os.CreateTemp(folder, ".penstock-init-*.yaml")
	if err != nil {
		return nil, fault.New(fault.Unavailable, "write into %s: %w", folder, errors.Unwrap(err)).
			WithRemedy("name a file with --output in a folder that is there and that this user may write")
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	_, err = file.WriteString(catalogText(written))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fault.New(fault.Unavailable, "write into %s: %w", folder, err)
	}
	env := func(name string) (string, bool) {
		for _, s := range secrets {
			if s.variable == name {
				return s.value, true
			}
		}
		if p.env == nil {
			return "", false
		}
		return p.env(name)
	}
	c, err := config.Load(config.Origin{File: file.Name(), Env: env, Memory: machineMemory()})
	if err != nil {
		e := *fault.As(err)
		e.File = ""
		return nil, &e
	}
	c.File = filepath.Join(folder, filepath.Base(output))
	return c, nil
}

// create writes a file that must not be there.
func create(path, text string) error {
	const readable = 0o644
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, readable)
	if err != nil {
		return fault.New(fault.Unavailable, "write %s: %w", path, errors.Unwrap(err)).WithRemedy("name another file with --output")
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return fault.New(fault.Unavailable, "write %s: %w", path, errors.Join(err, os.Remove(path)))
	}
	return nil
}

// survey is what init found in a catalog.
type survey struct {
	tables   []string // all names
	known    map[string]*catalog.Table
	rows     map[string]int64 // of those that were counted
	datasets []dataset.Dataset
	left     []string // what was left out, and why
}

// mostSurveyed bounds how many tables are looked at.
const mostSurveyed = 2000

// survey looks at the tables of the only catalog, and proposes datasets that can be planned.
func (e *engine) survey(ctx context.Context) (*survey, error) {
	of := e.catalogs[0]
	names, err := of.List(ctx)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fault.New(fault.NotFound, "the catalog has no tables").
			WithRemedy("correct its properties: name is what the catalog's writers call it, warehouse the one that is asked for")
	}
	s := &survey{tables: names, known: map[string]*catalog.Table{}, rows: map[string]int64{}}
	var tables []*catalog.Table
	for i, name := range names {
		if i == mostSurveyed {
			s.left = append(s.left, fmt.Sprintf("%s and all behind it: there are more than %d tables", name, mostSurveyed))
			break
		}
		if strings.ContainsFunc(name, unnameable) {
			s.left = append(s.left, name+": a dataset cannot name it: it holds blanks, quotes or control characters")
			continue
		}
		t, err := of.Table(ctx, name, dataset.Ref{})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			s.left = append(s.left, name+": "+oneLine(err))
			continue
		}
		s.known[name] = t
		tables = append(tables, t)
	}
	s.datasets = resolve.Propose(tables, func(t *catalog.Table) int64 { return s.count(ctx, of, t) })
	if len(s.datasets) == 0 {
		s.datasets = alone(tables)
	}
	return s, s.keepPlanned(ctx, e)
}

// unnameable says whether a name with a character in it can be no table's in a dataset.
func unnameable(r rune) bool { return r <= ' ' || r == 0x7f || r == '"' || r == '`' }

// count returns the rows of a table as its files have them; 0 where they cannot be listed.
func (s *survey) count(ctx context.Context, of catalog.Catalog, t *catalog.Table) int64 {
	if rows, ok := s.rows[t.Name]; ok {
		return rows
	}
	rows := int64(0)
	files, err := of.Files(ctx, t, nil, nil)
	if err == nil {
		for _, f := range files {
			rows += f.Rows
		}
	}
	s.rows[t.Name] = rows
	return rows
}

// mostAlone bounds how many tables are datasets of their own.
const mostAlone = 20

// alone are datasets of one table each, where no two belong together.
func alone(tables []*catalog.Table) []dataset.Dataset {
	var out []dataset.Dataset
	for _, t := range tables[:min(len(tables), mostAlone)] {
		out = append(out, dataset.Dataset{Name: strings.ReplaceAll(t.Name, ".", "_"), Training: dataset.Training{Table: t.Name}})
	}
	return out
}

// keepPlanned leaves out datasets that cannot be planned, with the reason.
func (s *survey) keepPlanned(ctx context.Context, e *engine) error {
	var kept []dataset.Dataset
	for _, d := range s.datasets {
		_, err := e.Plan(ctx, dataset.Query{Rows: dataset.Rows{Inline: new(d.Defaults())}})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			s.left = append(s.left, "dataset "+d.Name+": "+oneLine(err))
			continue
		}
		kept = append(kept, d)
	}
	s.datasets = kept
	return nil
}

// oneLine is a failure as a comment has it.
func oneLine(err error) string {
	return cutText(strings.Join(strings.Fields(fault.Redact(fault.As(err).Error())), " "))
}

// mostComment bounds a comment, in characters.
const mostComment = 300

func cutText(text string) string {
	if runes := []rune(text); len(runes) > mostComment {
		return string(runes[:mostComment]) + " …"
	}
	return text
}
