package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// line is one check of an attack.
type line struct {
	Attack string `json:"attack"`
	Budget string `json:"budget"`
	Check  string `json:"check"`
	Figure string `json:"figure"`
	Bound  string `json:"bound"`
	Pass   bool   `json:"pass"`
}

// report collects checks, and prints each as it is added.
type report struct {
	out   io.Writer
	lines []line
}

const form = "%-4s  %-22s %8s  %-44s %-34s %s\n"

func (r *report) head() {
	_, _ = fmt.Fprintf(r.out, form, "", "attack", "budget", "check", "figure", "bound")
}

// add adds a line.
func (r *report) add(l line) {
	r.lines = append(r.lines, l)
	word := "pass"
	if !l.Pass {
		word = "FAIL"
	}
	_, _ = fmt.Fprintf(r.out, form, word, l.Attack, l.Budget, l.Check, short(l.Figure), l.Bound)
}

// short returns the beginning of a text, as one line.
func short(text string) string {
	const most = 600
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// failed returns the number of failed checks.
func (r *report) failed() int {
	n := 0
	for _, l := range r.lines {
		if !l.Pass {
			n++
		}
	}
	return n
}

// write writes the lines as JSON.
func (r *report) write(path string) error {
	text, err := json.MarshalIndent(r.lines, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}

// sized formats a number of bytes.
func sized(n int64) string {
	if n >= gibi && n%gibi == 0 {
		return fmt.Sprintf("%d GiB", n/gibi)
	}
	return fmt.Sprintf("%d MiB", (n+mebi/2)/mebi)
}
