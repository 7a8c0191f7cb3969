package main

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

// queryFlags make a query as JSON, the form in which clients write it. What
// they say is judged where queries are read, by a server or in process.
type queryFlags struct {
	command *cobra.Command
	query   *string
}

func newQueryFlags(c *cobra.Command) queryFlags {
	f := c.Flags()
	q := newRowFlags(c)
	textFlag(c, "columns", "a,b", "the columns, by their output names (default: all)")
	textFlag(c, "order", "ORDER", "stored or shuffled (default stored)")
	textFlag(c, "shuffle", "WHAT", "what a shuffled order permutes beside splits: requests, rows, or splits alone (default requests)")
	f.Int64("shuffle-window", 0, "within how many stored rows (default 131072)")
	f.Int64("seed", 0, "of a shuffled order")
	f.Int64("epoch", 0, "of a shuffled order")
	f.Int("lanes", 0, "how many lanes (default: the number of shards)")
	textFlag(c, "shard", "i/n", "one shard of n, from 0 on; /n reads all n, one after the other")
	textFlag(c, "every", "w/n", "the steps of one worker of n, from 0 on")
	f.Int("batch-rows", 0, "rows per batch")
	f.Int("batch-requests", 0, "requests per batch, in place of rows")
	textFlag(c, "tail", "TAIL", "keep or drop the rows that fill no last step (default keep)")
	textFlag(c, "count", "COUNT", "estimate, or exact: count the rows first (default estimate)")
	textFlag(c, "cursor", "JSON", "where to go on, or @FILE")
	return q
}

// newRowFlags adds the flags that say which rows, and no others.
func newRowFlags(c *cobra.Command) queryFlags {
	q := queryFlags{command: c, query: textFlag(c, "query,q", "JSON", "a whole query, or @FILE, or - for standard input; the other flags win over it")}
	textFlag(c, "filter", "SQL", "which rows, such as \"day >= DATE '2026-10-01' AND label = 1\"")
	return q
}

// text returns a flag's JSON, which may lie in a file or come from standard
// input.
func (p process) text(name, given string) ([]byte, error) {
	var out []byte
	var err error
	switch file, isFile := strings.CutPrefix(given, "@"); {
	case given == "-":
		out, err = io.ReadAll(p.stdin)
	case isFile:
		out, err = os.ReadFile(file)
	default:
		out = []byte(given)
	}
	if err != nil {
		return nil, fault.InvalidField("--"+name, "it cannot be read: %v", err).
			WithRemedy("name a file that is there behind the @, or write the JSON itself")
	}
	return out, nil
}

// json builds the query of a command line.
func (p process) json(q queryFlags, args []string) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if *q.query != "" {
		text, err := p.text("query", *q.query)
		if err != nil {
			return nil, err
		}
		if len(args) == 0 && !q.anyGiven() {
			return text, nil
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		if err := decoder.Decode(&fields); err != nil {
			return nil, fault.InvalidField("--query", "it is not a JSON object: %v", err).
				WithRemedy(`write names and texts in double quotes, as in '{"dataset": "homefeed", "lanes": 4}'`)
		}
	}
	put := func(name string, v any) {
		text, err := json.Marshal(v)
		if err == nil {
			fields[name] = text
		}
	}
	if len(args) > 0 {
		put("dataset", args[0])
	}
	if _, named := fields["dataset"]; !named {
		return nil, usage("name a DATASET, or give a --query that does")
	}
	if err := p.flags(q, put); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

// anyGiven says whether a flag beside --query says something about the query.
func (q queryFlags) anyGiven() bool {
	for _, name := range []string{"columns", "filter", "order", "shuffle", "shuffle-window", "seed", "epoch", "lanes", "shard", "every", "batch-rows", "batch-requests", "tail", "count", "cursor"} {
		if q.command.Flags().Changed(name) {
			return true
		}
	}
	return false
}

// flags puts the fields that flags name.
func (p process) flags(q queryFlags, put func(string, any)) error {
	f := q.command.Flags()
	for _, name := range []string{"filter", "order", "shuffle", "tail", "count"} {
		if f.Changed(name) {
			put(name, f.Lookup(name).Value.String())
		}
	}
	for _, name := range []string{"shuffle-window", "seed", "epoch", "lanes", "batch-rows", "batch-requests"} {
		if f.Changed(name) {
			put(strings.ReplaceAll(name, "-", "_"), json.Number(f.Lookup(name).Value.String()))
		}
	}
	if f.Changed("columns") {
		columns := strings.Split(f.Lookup("columns").Value.String(), ",")
		for i := range columns {
			columns[i] = strings.TrimSpace(columns[i])
		}
		put("columns", columns)
	}
	if f.Changed("cursor") {
		text, err := p.text("cursor", f.Lookup("cursor").Value.String())
		if err != nil {
			return err
		}
		if !json.Valid(text) {
			return fault.InvalidField("--cursor", "it is not JSON").
				WithRemedy("give the cursor that came with a batch, as it is, or @ and a file that holds it")
		}
		put("cursor", json.RawMessage(text))
	}
	if f.Changed("shard") {
		shard, err := parseShard(f.Lookup("shard").Value.String())
		if err != nil {
			return err
		}
		put("shard", shard)
	}
	if f.Changed("every") {
		every, err := parseEvery(f.Lookup("every").Value.String())
		if err != nil {
			return err
		}
		put("every", every)
	}
	return nil
}

// parseShard reads i/n, or /n for all.
func parseShard(text string) (map[string]int, error) {
	index, of, _ := strings.Cut(text, "/")
	n, err := strconv.Atoi(of)
	if err != nil {
		return nil, usage("--shard %s: want i/n, such as 0/4, or /4 for all four", text)
	}
	if index == "" {
		return map[string]int{"of": n}, nil
	}
	i, err := strconv.Atoi(index)
	if err != nil {
		return nil, usage("--shard %s: want i/n, such as 0/4, or /4 for all four", text)
	}
	return map[string]int{"index": i, "of": n}, nil
}

// parseEvery reads w/n.
func parseEvery(text string) (map[string]int, error) {
	step, of, _ := strings.Cut(text, "/")
	w, err := strconv.Atoi(step)
	n, notOf := strconv.Atoi(of)
	if err != nil || notOf != nil {
		return nil, usage("--every %s: want w/n, such as 0/4", text)
	}
	return map[string]int{"step": w, "of": n}, nil
}
