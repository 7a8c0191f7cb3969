package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/engine"
	"github.com/penstock/penstock/cmd/penstock/proposal"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// initFile is the default of init's --output.
const initFile = "penstock.yaml"

func initCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "init NAME=VALUE…", Short: "Write a config file for the tables of a catalog",
		Long: "Write a config file for the tables of a catalog: the catalog's properties as given, and\n" +
			"datasets of tables that seem to belong together, judged by names and buckets.\n\n" +
			"The properties are PyIceberg's; docs/catalogs.md lists them. A URI without NAME= is the\n" +
			"property uri.\n" +
			"Secrets are written as ${VARIABLES} of the environment. Only metadata is read, and no\n" +
			"existing file is overwritten.",
		Example: "  penstock init sqlite:////var/lib/penstock/catalog.db\n" +
			"  penstock init type=rest uri=https://catalog.example.com warehouse=prod token=$TOKEN --output prod.yaml",
	}
	output := cmdline.Text(c, "output,o", "FILE", "the file to write, or - for standard output (default "+initFile+")")
	asJSON := c.Flags().Bool("json", false, "print the proposed datasets as JSON, and what was left out")
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmdline.Errorf("%s needs the properties of a catalog, such as uri=sqlite:////path/to/catalog.db", c.CommandPath())
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
		if *asJSON && *output == "-" {
			return cmdline.Errorf("--json and --output - both print to standard output: give one of them")
		}
		return p.propose(ctx, given, *output, *asJSON)
	}
	c.AddCommand(backfillCommand(p))
	return c
}

// properties parses arguments of the form NAME=VALUE.
func properties(args []string) ([]dataset.Property, error) {
	var out []dataset.Property
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if scheme := strings.Index(arg, "://"); scheme >= 0 && (!ok || len(name) > scheme) {
			name, value, ok = "uri", arg, true
		}
		if !ok || name == "" {
			return nil, cmdline.Errorf("%q is not of the form NAME=VALUE, such as uri=sqlite:////path/to/catalog.db", fault.Redact(arg))
		}
		for _, other := range out {
			if other.Name == name {
				return nil, cmdline.Errorf("%s is given twice: remove one of them", name)
			}
		}
		out = append(out, dataset.Property{Name: name, Value: value})
	}
	return out, nil
}

// propose reads the catalog and writes the config file.
func (p process) propose(ctx context.Context, given []dataset.Property, output string, asJSON bool) error {
	if _, err := os.Lstat(output); output != "-" && !errors.Is(err, fs.ErrNotExist) {
		remedy := "name another file with --output"
		if !asJSON {
			remedy += ", or - for standard output"
		}
		return fault.New(fault.Conflict, "%s already exists, and is not overwritten", output).WithRemedy("%s", remedy)
	}
	written, secrets := proposal.WithoutSecrets(given)
	c, err := p.configOf(written, secrets, output)
	if err != nil {
		return err
	}
	e, err := engine.Assemble(ctx, c, nil)
	if err != nil {
		return err
	}
	defer e.Close()
	found, err := proposal.Survey(ctx, e.Tables.Opened[0], e.Loader)
	if err != nil {
		return err
	}
	text := found.Config(written)
	if output == "-" {
		_, err = io.WriteString(p.stdout, text)
	} else {
		err = create(output, text)
	}
	if err != nil {
		return err
	}
	if asJSON {
		if err := p.printJSON(proposalOf(output, found, secrets)); err != nil {
			return err
		}
	}
	p.note("%s of %s\n", fault.Count(len(found.Datasets), "dataset"), fault.Count(len(found.Tables), "table"))
	if output != "-" {
		p.note("  → review %s, change it, and list its datasets: penstock datasets --config %s\n", output, cmdline.Quote(output))
	}
	for _, s := range secrets {
		p.note("  → set %s in the environment of penstock: it replaces %s\n", s.Variable, s.Property)
	}
	return nil
}

// proposalJSON is the JSON form of the result of init.
type proposalJSON struct {
	File      string   `json:"file"`
	Tables    []string `json:"tables"`
	Datasets  []string `json:"datasets"`
	LeftOut   []string `json:"left_out"`
	Variables []string `json:"variables"` // environment variables that replace secrets
}

// proposalOf returns the JSON form of a proposal.
func proposalOf(file string, found *proposal.Proposal, secrets []proposal.Secret) proposalJSON {
	out := proposalJSON{File: file, Tables: append([]string{}, found.Tables...), Datasets: []string{}, LeftOut: append([]string{}, found.LeftOut()...), Variables: []string{}}
	for _, d := range found.Datasets {
		out.Datasets = append(out.Datasets, d.Name)
	}
	for _, s := range secrets {
		out.Variables = append(out.Variables, s.Variable)
	}
	return out
}

// configOf writes the catalog's properties to a temporary config file in the folder of output, and
// loads this file. So it returns the same errors as loading the final config file would return.
func (p process) configOf(written []dataset.Property, secrets []proposal.Secret, output string) (_ *config.Config, err error) {
	folder := filepath.Dir(output)
	file, err := os.CreateTemp(folder, ".penstock-init-*.yaml")
	if err != nil {
		return nil, fault.New(fault.Unavailable, "write into %s: %w", folder, errors.Unwrap(err)).
			WithRemedy("name a file with --output in a folder that exists and that this user may write")
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	_, err = file.WriteString(proposal.CatalogText(written))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fault.New(fault.Unavailable, "write into %s: %w", folder, err)
	}
	env := func(name string) (string, bool) {
		for _, s := range secrets {
			if s.Variable == name {
				return s.Value, true
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

// create writes a new file. It fails if the file exists.
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
