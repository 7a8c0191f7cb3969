package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/engine"
	"github.com/penstock/penstock/flight/progress"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/internal/fitted"
	"github.com/penstock/penstock/internal/jsontext"
	"github.com/penstock/penstock/loader/dataset"
)

func fitCommand(p process) *cobra.Command {
	c := &cobra.Command{
		Use: "fit TABLE|DATASET", Short: "Fit quantiles and vocabularies to columns, and write them to a file",
		Long: "Fit lists of values to columns of a table or dataset, and write them to a file of JSON: quantiles, which are the\n" +
			"bounds of buckets with equally many rows, and vocabularies, which are the most frequent values. All lists are exact.\n\n" +
			"The file has the snapshots of the tables. Equal rows give equal bytes, and the command prints their digest.",
		Example: "  penstock fit ml.impressions --quantiles price=16 --vocabulary country=1000 --output fitted.json --config penstock.yaml\n" +
			"  penstock fit homefeed --quantiles ctr=8 --where \"day < '2026-11-01'\" --output fitted.json --config penstock.yaml",
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return cmdline.Errorf("%s needs one table or dataset", c.CommandPath())
		}
		return nil
	}
	file := configFlag(c)
	quantiles := cmdline.Texts(c, "quantiles", "COLUMN=N", "the bounds between N buckets of a column of numbers; may be repeated")
	vocabulary := cmdline.Texts(c, "vocabulary", "COLUMN=N", "the N most frequent values of a column of texts or whole numbers; may be repeated")
	minCount := c.Flags().Int64("min-count", 1, "leave values of vocabularies out that fewer rows have")
	where := cmdline.Text(c, "where", "FILTER", "the rows to use, as in \"day < '2026-11-01'\" (default: all)")
	output := cmdline.Text(c, "output,o", "FILE", "the file to write; it is created or replaced once it is complete")
	asJSON := c.Flags().Bool("json", false, "print the digest of the file, and the number of rows, as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		lists, err := fitLists(*quantiles, *vocabulary, *minCount)
		if err != nil {
			return err
		}
		if *output == "" || *output == "-" {
			return cmdline.Errorf("penstock fit needs --output FILE")
		}
		f := fitting{of: args[0], filter: *where, lists: lists}
		g := p.readingProgress("fit", args[0])
		path, err := p.configFile(*file)
		if err != nil {
			return err
		}
		conf, err := p.loadToFit(path, args[0])
		if err != nil {
			return err
		}
		ctx, stop := interruptible(c.Context())
		defer stop()
		err = g.end(withEngine(ctx, conf, nil, func(ctx context.Context, _ *config.Config, e *engine.Engine) error {
			ctx, entered := e.Budget.Enter(ctx, "fit")
			defer entered.Release()
			return f.fit(ctx, e, g)
		}))
		if err != nil {
			return err
		}
		content, err := f.out.Bytes()
		if err != nil {
			return err
		}
		if err := p.writeOutput(*output, func(w io.Writer) error { _, err := w.Write(content); return err }); err != nil {
			return err
		}
		digest := fitted.Digest(content)
		text := fmt.Sprintf("%s of %s\ndigest %s\n%s", fault.Count(len(f.out.Lists), "list"), rowsText(f.out.Rows), digest, f.fields(conf.Dir(), *output, digest))
		return p.printResult(*asJSON, map[string]any{"digest": digest, "rows": f.out.Rows, "lists": len(f.out.Lists)}, text)
	}
	return c
}

// loadToFit reads a config file without the fitted lists of other datasets than the given one: they are not
// needed, and their files may be those to write.
func (e environment) loadToFit(path, of string) (*config.Config, error) {
	c, err := e.load(path, nil)
	if err != nil {
		return nil, err
	}
	for i, d := range c.Datasets {
		if d.Name != of {
			c.Datasets[i].Fitted = nil
		}
	}
	return c, nil
}

// fitLists returns the lists that flags such as price=16 name.
func fitLists(quantiles, vocabularies []string, minCount int64) ([]fitted.Ask, error) {
	var out []fitted.Ask
	add := func(texts []string, kind fitted.Kind, least int) error {
		for _, text := range texts {
			at := strings.LastIndexByte(text, '=')
			n, err := strconv.Atoi(text[at+1:])
			if at < 1 || err != nil || n < least || n > kind.Most() {
				return cmdline.Errorf("--%s %s: want COLUMN=N, where N is from %d to %d", kind, text, least, kind.Most())
			}
			ask := fitted.Ask{Column: text[:at], Kind: kind, Size: n, MinCount: minCount}
			if slices.ContainsFunc(out, func(o fitted.Ask) bool { return o.Column == ask.Column && o.Kind == kind }) {
				return cmdline.Errorf("--%s names column %s twice", kind, ask.Column)
			}
			out = append(out, ask)
		}
		return nil
	}
	if err := add(quantiles, fitted.Quantiles, 2); err != nil { //nolint:mnd // one bucket has no bounds
		return nil, err
	}
	if err := add(vocabularies, fitted.Vocabulary, 1); err != nil {
		return nil, err
	}
	switch {
	case len(out) == 0:
		return nil, cmdline.Errorf("penstock fit needs --quantiles COLUMN=N or --vocabulary COLUMN=N")
	case minCount < 1:
		return nil, cmdline.Errorf("--min-count must be at least 1")
	}
	return out, nil
}

// fitting is one call of penstock fit.
type fitting struct {
	of, filter string // the table or dataset, and the filter
	lists      []fitted.Ask
	out        fitted.File
}

// query returns the query that reads the columns.
func (f *fitting) query(e *engine.Engine) ([]byte, error) {
	var columns []string
	for _, l := range f.lists {
		if !slices.Contains(columns, l.Column) {
			columns = append(columns, l.Column)
		}
	}
	query := map[string]any{"dataset": f.of, "columns": columns}
	isDataset := func(d dataset.Dataset) bool { return d.Name == f.of }
	if strings.Contains(f.of, ".") && !slices.ContainsFunc(e.Loader.Datasets(), isDataset) {
		query["dataset"] = map[string]any{"training": map[string]any{"table": f.of}}
	}
	if f.filter != "" {
		query["filter"] = f.filter
	}
	return json.Marshal(query)
}

// fit reads the rows and sets out.
func (f *fitting) fit(ctx context.Context, e *engine.Engine, g *commandProgress) error {
	query, err := f.query(e)
	if err != nil {
		return err
	}
	plan, rows, err := localTables{e}.open(ctx, query)
	if err != nil {
		return fault.Op(err, "fit lists to %s", f.of)
	}
	defer rows.Release()
	pin, err := json.Marshal(pinJSONOf(plan.Rows.Pin))
	if err != nil {
		return err
	}
	f.out = fitted.File{From: f.of, Filter: f.filter, Snapshots: pin}
	var fits []*fitted.Fit
	var columns []int
	for _, ask := range f.lists {
		at := rows.Schema().FieldIndices(ask.Column)
		if len(at) != 1 {
			return fault.New(fault.Internal, "the rows have %d columns %s", len(at), ask.Column)
		}
		one, err := fitted.New(ask, rows.Schema().Field(at[0]).Type, e.Budget)
		if err != nil {
			return err
		}
		defer one.Release()
		fits, columns = append(fits, one), append(columns, at[0])
	}
	for rows.Next() {
		b := rows.RecordBatch()
		for i, one := range fits {
			if err := one.Add(b.Column(columns[i])); err != nil {
				return err
			}
		}
		f.out.Rows += b.NumRows()
		g.report(progress.Message{Step: stepRead, Counts: progress.Counts{RowsRead: f.out.Rows, OfRowsRead: max(plan.StoredRows, f.out.Rows)}})
	}
	if err := rows.Err(); err != nil {
		return fault.Op(err, "fit lists to %s", f.of)
	}
	for _, one := range fits {
		list, err := one.List()
		if err != nil {
			return err
		}
		f.out.Lists = append(f.out.Lists, list)
	}
	return nil
}

// fields returns the lines that name the lists in a dataset of the config file, which is in a folder. The path of a
// file below the folder is relative to it.
func (f *fitting) fields(folder, file, digest string) string {
	base, err := filepath.Abs(folder)
	full, wrong := filepath.Abs(file)
	if cmp.Or(err, wrong) == nil {
		file = full
		if below, err := filepath.Rel(base, full); err == nil && filepath.IsLocal(below) {
			file = filepath.ToSlash(below)
		}
	}
	var b strings.Builder
	b.WriteString("\nIn a dataset of the config file, these lines let expressions use the lists:\n\n    fitted:\n")
	for _, l := range f.out.Lists {
		name := l.Column + "_bounds"
		if l.Kind == fitted.Vocabulary {
			name = l.Column + "_vocabulary"
		}
		fmt.Fprintf(&b, "      %s: {file: %s, digest: %s, column: %s, kind: %s}\n", plainYAML(strings.Map(wordRune, name)), plainYAML(file), digest, plainYAML(l.Column), l.Kind)
	}
	return b.String()
}

// wordRune returns the character if names can have it without quotes, and _ otherwise.
func wordRune(r rune) rune {
	if unicode.IsLetter(r) || unicode.IsDigit(r) {
		return r
	}
	return '_'
}

// plainYAML returns a text as YAML, in quotes unless it needs none.
func plainYAML(text string) string {
	if plainText.MatchString(text) {
		return text
	}
	return string(jsontext.Of(text))
}

var plainText = regexp.MustCompile(`^[A-Za-z_./][A-Za-z0-9_./-]*$`)
