package cmdline

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/internal/fault"
)

// Query is the flags that make a query, as JSON.
type Query struct {
	command *cobra.Command
	query   *string
	with    *repeatedText
}

// NewQuery adds the flags of a whole query.
func NewQuery(c *cobra.Command) Query {
	f := c.Flags()
	q := NewRows(c)
	Text(c, "columns", "a,b", "the columns, by output name (default: all)")
	Text(c, "order", "ORDER", "stored or shuffled (default stored)")
	Text(c, "shuffle", "WHAT", "what a shuffled order permutes besides splits: requests, rows, or splits alone (default requests)")
	f.Int64("shuffle-window", 0, "how many stored rows are shuffled together (default 131072)")
	f.Int64("shuffle-parts", 0, "from how many places of a bucket they come (default 8)")
	f.Int64("seed", 0, "the seed of a shuffled order")
	f.Int64("epoch", 0, "the epoch of a shuffled order, each with an order of its own")
	f.Int("lanes", 0, "the number of lanes (default: the number of shards)")
	Text(c, "shard", "i/n", "shard i of n, counted from 0; /n reads all n, one after the other")
	Text(c, "every", "w/n", "the steps of DataLoader worker w of n, counted from 0")
	f.Int("batch-rows", 0, "rows per batch")
	f.Int("batch-requests", 0, "requests per batch, instead of rows")
	Text(c, "tail", "TAIL", "keep or drop the rows that do not fill a last step (default keep)")
	Text(c, "count", "COUNT", "estimate, or exact: count the rows first (default estimate)")
	Text(c, "cursor", "JSON", "the cursor to resume from, or @FILE")
	Text(c, "job", "LABEL", "a label for the stream in penstock status, logs and metrics")
	return q
}

// NewRows adds only the flags that select rows.
func NewRows(c *cobra.Command) Query {
	q := Query{command: c, with: &repeatedText{shape: "TABLE"}, query: Text(c, "query,q", "JSON", "a whole query, or @FILE, or - for standard input; other flags override its fields")}
	c.Flags().Var(q.with, "with", "a staging table to add to the dataset, by name, or a whole staging entry as JSON; repeat it for several")
	Text(c, "filter", "SQL", "the rows to read, such as \"day >= DATE '2026-10-01' AND label = 1\"")
	return q
}

// read returns the JSON of a flag: the text itself, a file's, or standard input's.
func read(name, given string, stdin io.Reader) ([]byte, error) {
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
			WithRemedy("name an existing file after the @, or write the JSON itself")
	}
	return out, nil
}

// JSON returns the query of a command line. A flag may read it, or a part of it, from stdin.
func (q Query) JSON(args []string, stdin io.Reader) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if *q.query != "" {
		text, err := read("query", *q.query, stdin)
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
	for _, name := range []string{"with", "columns", "filter", "order", "shuffle", "shuffle-window", "shuffle-parts", "seed", "epoch", "lanes", "shard", "every", "batch-rows", "batch-requests", "tail", "count", "cursor", "job"} {
		if q.command.Flags().Changed(name) {
			return true
		}
	}
	return false
}

// put calls set for each field that a flag sets.
func (q Query) put(set func(string, any), stdin io.Reader) error {
	f := q.command.Flags()
	for _, name := range []string{"filter", "order", "shuffle", "tail", "count", "job"} {
		if f.Changed(name) {
			set(name, f.Lookup(name).Value.String())
		}
	}
	for _, name := range []string{"shuffle-window", "shuffle-parts", "seed", "epoch", "lanes", "batch-rows", "batch-requests"} {
		if f.Changed(name) {
			set(strings.ReplaceAll(name, "-", "_"), json.Number(f.Lookup(name).Value.String()))
		}
	}
	if err := q.putEntries(set); err != nil {
		return err
	}
	if f.Changed("columns") {
		columns := strings.Split(f.Lookup("columns").Value.String(), ",")
		for i := range columns {
			columns[i] = strings.TrimSpace(columns[i])
		}
		set("columns", columns)
	}
	if f.Changed("cursor") {
		text, err := read("cursor", f.Lookup("cursor").Value.String(), stdin)
		if err != nil {
			return err
		}
		if !json.Valid(text) {
			return fault.InvalidField("--cursor", "it is not JSON").
				WithRemedy("give the cursor that came with a batch unchanged, or @ and the file that holds it")
		}
		set("cursor", json.RawMessage(text))
	}
	return q.putShares(set)
}

// putShares calls set for --shard and --every.
func (q Query) putShares(set func(string, any)) error {
	f := q.command.Flags()
	if f.Changed("shard") {
		shard, err := parseShard(f.Lookup("shard").Value.String())
		if err != nil {
			return err
		}
		set("shard", shard)
	}
	if f.Changed("every") {
		every, err := parseEvery(f.Lookup("every").Value.String())
		if err != nil {
			return err
		}
		set("every", every)
	}
	return nil
}

// putEntries calls set for --with.
func (q Query) putEntries(set func(string, any)) error {
	if len(q.with.values) == 0 {
		return nil
	}
	entries, err := entriesOf(q.with.values)
	if err != nil {
		return err
	}
	set("with", entries)
	return nil
}

// entriesOf returns the staging entries of --with: JSON objects, or names of tables.
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

// parseShard reads i/n, or /n for all.
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

// parseEvery reads w/n.
func parseEvery(text string) (map[string]int, error) {
	step, of, _ := strings.Cut(text, "/")
	w, err := strconv.Atoi(step)
	n, notOf := strconv.Atoi(of)
	if err != nil || notOf != nil {
		return nil, Errorf("--every %s: want w/n, such as 0/4", text)
	}
	return map[string]int{"step": w, "of": n}, nil
}
