package cmdline

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/internal/fault"
	"github.com/penstock/penstock/loader/dataset"
)

// Query holds the flags of a command that form a query.
type Query struct {
	command *cobra.Command
	query   *string
	with    *[]string
	fields  []dataset.About // the fields for which this command has a flag
}

// NewQuery adds the flag --query to a command, and the flags for all fields of a query.
func NewQuery(c *cobra.Command) Query { return newQuery(c, func(string) bool { return true }) }

// NewRows adds the flag --query to a command, and of the flags for fields only --with and --filter.
func NewRows(c *cobra.Command) Query {
	return newQuery(c, func(field string) bool { return field == "with" || field == "filter" })
}

// newQuery adds the flag --query to a command, and the flags for the fields for which has returns
// true.
func newQuery(c *cobra.Command, has func(field string) bool) Query {
	q := Query{command: c, query: Text(c, "query,q", "JSON", "a whole query, or @FILE, or - for standard input; other flags override its fields")}
	for _, field := range dataset.QueryFields() {
		name, flag := flagOf(field.About), field.Flag
		if flag.Help == "" || !has(field.Name) {
			continue
		}
		q.fields = append(q.fields, field.About)
		switch {
		case field.Name == "with":
			q.with = Texts(c, name, flag.Shape, flag.Help)
		case flag.Shape == "int":
			c.Flags().Int(name, 0, flag.Help)
		case field.Number:
			c.Flags().Int64(name, 0, flag.Help)
		default:
			Text(c, name, flag.Shape, flag.Help)
		}
	}
	return q
}

// flagOf returns the name of the flag that sets a field.
func flagOf(field dataset.About) string { return strings.ReplaceAll(field.Name, "_", "-") }

// Read returns the text that the value of a flag stands for. The value @FILE stands for the content
// of a file, the value - for standard input, and any other value for itself.
func Read(name, given string, stdin io.Reader) ([]byte, error) {
	var out []byte
	var err error
	switch file, isFile := strings.CutPrefix(given, "@"); {
	case given == "-":
		out, err = io.ReadAll(stdin)
	case isFile:
		out, err = os.ReadFile(file)
	default:
		out = []byte(given)
	}
	if err != nil {
		return nil, fault.InvalidField("--"+name, "it cannot be read: %v", err).
			WithRemedy("name an existing file after the @, or write the text itself")
	}
	return out, nil
}

// JSON returns the query that a command line describes. The query or its cursor is read from stdin
// if the value of the flag is -.
func (q Query) JSON(args []string, stdin io.Reader) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if *q.query != "" {
		text, err := Read("query", *q.query, stdin)
		if err != nil {
			return nil, err
		}
		if len(args) == 0 && !q.anyGiven() {
			return text, nil
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		if err := decoder.Decode(&fields); err != nil {
			return nil, fault.InvalidField("--query", "it is not a JSON object: %v", err).
				WithRemedy(`write names and strings in double quotes, as in '{"dataset": "homefeed", "lanes": 4}'`)
		}
	}
	set := func(name string, v any) {
		text, err := json.Marshal(v)
		if err == nil {
			fields[name] = text
		}
	}
	if len(args) > 0 {
		set("dataset", args[0])
	}
	if _, named := fields["dataset"]; !named {
		return nil, Errorf("name a DATASET, or give a --query that does")
	}
	if err := q.put(set, stdin); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

// anyGiven reports whether a flag other than --query sets a field of the query.
func (q Query) anyGiven() bool {
	return slices.ContainsFunc(q.fields, func(f dataset.About) bool { return q.command.Flags().Changed(flagOf(f)) })
}

// put calls set with each field that a flag sets, and the field's value.
func (q Query) put(set func(string, any), stdin io.Reader) error {
	for _, field := range q.fields {
		flag := q.command.Flags().Lookup(flagOf(field))
		if !flag.Changed {
			continue
		}
		value, err := q.value(field, flag.Value.String(), stdin)
		if err != nil {
			return err
		}
		set(field.Name, value)
	}
	return nil
}

// value converts the text of a flag to the value of its field.
func (q Query) value(field dataset.About, text string, stdin io.Reader) (any, error) {
	switch {
	case field.Number:
		return json.Number(text), nil
	case field.Name == "with":
		return entriesOf(*q.with)
	case field.Name == "columns":
		return parseColumns(text)
	case field.Name == "cursor":
		return parseCursor(text, stdin)
	case field.Name == "shard":
		return parseShard(text)
	case field.Name == "every":
		return parseEvery(text)
	}
	return text, nil
}

// parseColumns returns the columns that the value of --columns names: an array as in a query, or names between commas. Commas inside
// parentheses do not count, so that the error for an expression, which is no name, has all of it.
func parseColumns(text string) (any, error) {
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		if !json.Valid([]byte(text)) {
			return nil, fault.InvalidField("--columns", "%s is not JSON", fault.Shorten(text, 80)).
				WithRemedy(`name columns with commas between them, or write an array such as '["label", {"column": "ratio", "expr": "clicks / shows"}]'`)
		}
		return json.RawMessage(text), nil
	}
	var columns []string
	depth := 0
	for part := range strings.SplitSeq(text, ",") {
		if depth > 0 {
			columns[len(columns)-1] += "," + part
		} else {
			columns = append(columns, part)
		}
		depth = max(0, depth+strings.Count(part, "(")-strings.Count(part, ")"))
	}
	for i := range columns {
		columns[i] = strings.TrimSpace(columns[i])
	}
	return columns, nil
}

// parseCursor returns the cursor that the value of --cursor contains, or that is in the file or
// standard input that the value names.
func parseCursor(given string, stdin io.Reader) (json.RawMessage, error) {
	text, err := Read("cursor", given, stdin)
	if err != nil {
		return nil, err
	}
	if !json.Valid(text) {
		return nil, fault.InvalidField("--cursor", "it is not JSON").
			WithRemedy("give the cursor that came with a batch unchanged, or @ and the file that holds it")
	}
	return text, nil
}

// entriesOf returns the staging entries that the values of --with describe. A value is either an
// entry as a JSON object, or the name of a table.
func entriesOf(given []string) ([]any, error) {
	out := make([]any, len(given))
	for i, text := range given {
		if !strings.HasPrefix(strings.TrimSpace(text), "{") {
			out[i] = map[string]string{"table": text}
			continue
		}
		out[i] = json.RawMessage(text)
		if !json.Valid([]byte(text)) {
			return nil, fault.InvalidField("--with", "%s is not JSON", fault.Shorten(text, 80)).
				WithRemedy(`name a table, or write an entry such as '{"table": "features.ctr_v2", "ref": "trial"}'`)
		}
	}
	return out, nil
}

// parseShard parses a value of --shard: i/n is shard i of n shards, and /n is all n shards.
func parseShard(text string) (map[string]int, error) {
	index, of, _ := strings.Cut(text, "/")
	n, err := strconv.Atoi(of)
	if err != nil {
		return nil, Errorf("--shard %s: want i/n, such as 0/4, or /4 for all four", text)
	}
	if index == "" {
		return map[string]int{"of": n}, nil
	}
	i, err := strconv.Atoi(index)
	if err != nil {
		return nil, Errorf("--shard %s: want i/n, such as 0/4, or /4 for all four", text)
	}
	return map[string]int{"index": i, "of": n}, nil
}

// parseEvery parses a value of --every, w/n.
func parseEvery(text string) (map[string]int, error) {
	step, of, _ := strings.Cut(text, "/")
	w, err := strconv.Atoi(step)
	n, notOf := strconv.Atoi(of)
	if err != nil || notOf != nil {
		return nil, Errorf("--every %s: want w/n, such as 0/4", text)
	}
	return map[string]int{"step": w, "of": n}, nil
}
