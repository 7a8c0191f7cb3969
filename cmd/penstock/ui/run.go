package ui

import (
	"cmp"

	"github.com/penstock/penstock/cmd/penstock/children"
	"github.com/penstock/penstock/internal/fault"
)

// commandRun is a command that a page has started, as pages show it.
type commandRun struct {
	What            string // "promotion" or "stage"
	Running         bool
	Facts           []fact
	step            fact
	Failure, Remedy string
	Said            []string
	Stop, StopToken string // the path of the form that stops it, and its token
}

// runOf returns a command as pages show it, without its counts.
func runOf(what string, at children.State) commandRun {
	out := commandRun{
		What: what, Running: at.Running, Facts: []fact{{"Began", moment(at.Began)}}, step: fact{"Step", cmp.Or(at.Progress.Step, "start")},
		Failure: fault.Redact(at.Failure), Remedy: fault.Redact(at.Remedy),
	}
	if !at.Running {
		out.Facts = append(out.Facts, fact{"Ended", moment(at.Ended)})
	}
	for _, line := range at.Said {
		out.Said = append(out.Said, fault.Redact(line))
	}
	return out
}

// succeeded reports whether the command has ended with a result.
func (r commandRun) succeeded(at children.State) bool { return !at.Running && at.Failure == "" }
