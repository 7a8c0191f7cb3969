package backfill

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/penstock/penstock/cmd/penstock/proposal"
)

// Text returns the SQL of the script, followed by comments with the dataset as YAML.
func (s *Script) Text() string {
	var b strings.Builder
	b.WriteString(s.SQL)
	b.WriteString("\n")
	for line := range strings.Lines(s.YAML()) {
		b.WriteString("-- " + line)
	}
	return b.String()
}

// YAML returns the dataset as a block of the config file.
func (s *Script) YAML() string {
	var of struct {
		Training json.RawMessage   `json:"training"`
		Key      json.RawMessage   `json:"key"`
		Staging  []json.RawMessage `json:"staging"`
	}
	if err := json.Unmarshal(s.Dataset.Canonical(), &of); err != nil {
		return "" // unreachable: check has decoded the same JSON without an error
	}
	var b strings.Builder
	b.WriteString("# The dataset for the config file. It replaces any dataset of the same name.\ndatasets:\n  " + proposal.Plainly(s.Dataset.Name) + ":\n")
	b.WriteString("    training: " + flow(of.Training) + "\n")
	if len(of.Key) > 0 {
		b.WriteString("    key: " + flow(of.Key) + "\n")
	}
	if len(of.Staging) > 0 {
		b.WriteString("    staging:\n")
	}
	for i, entry := range of.Staging {
		if s.added && i == len(of.Staging)-1 {
			b.WriteString("      # new\n")
		}
		b.WriteString("      - " + flow(entry) + "\n")
	}
	return b.String()
}

// flow converts JSON to YAML on one line, with quotes only where necessary.
func flow(text []byte) string {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var b strings.Builder
	type level struct {
		object bool
		n      int // how many names and values of this list or object came so far
	}
	var open []level
	for {
		token, err := d.Token()
		if err != nil {
			return b.String() // the end of the JSON
		}
		if delimiter, ok := token.(json.Delim); ok && (delimiter == ']' || delimiter == '}') {
			b.WriteString(delimiter.String())
			open = open[:len(open)-1]
			continue
		}
		if len(open) > 0 {
			top := &open[len(open)-1]
			switch {
			case top.object && top.n%2 == 1:
				b.WriteString(": ")
			case top.n > 0:
				b.WriteString(", ")
			}
			top.n++
		}
		switch v := token.(type) {
		case json.Delim:
			b.WriteString(v.String())
			open = append(open, level{object: v == '{'})
		case string:
			b.WriteString(proposal.Plainly(v))
		case json.Number:
			b.WriteString(v.String())
		case bool:
			b.WriteString(strconv.FormatBool(v))
		case nil:
			b.WriteString("null")
		}
	}
}
