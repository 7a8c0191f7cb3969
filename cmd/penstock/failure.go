package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/internal/fault"
)

// usageError is a command line that makes no sense.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// ended tells the user how a command ended and returns the exit code.
func (p process) ended(command *cobra.Command, err error) int {
	var wrong usageError
	switch {
	case err == nil, brokenPipe(err):
		return exitOK
	case errors.Is(err, findingsError{}):
		return exitFindings
	case errors.As(err, &wrong):
		p.say("penstock: %s\n\nSee: %s --help\n", fault.Redact(wrong.Error()), command.CommandPath())
		return exitUsage
	case errors.Is(err, context.Canceled):
		p.say("penstock: interrupted\n")
		return exitInterrupted
	}
	p.say("%s", fault.Redact(describe(fault.As(err))))
	if _, unverified := errors.AsType[unverifiedError](err); unverified {
		return exitUnverified
	}
	return exitFailure
}

// say tells the user something. Where standard error is gone, nobody listens.
func (p process) say(format string, args ...any) {
	_, _ = fmt.Fprintf(p.stderr, format, args...)
}

// brokenPipe says whether nobody reads any more what the program writes, as
// after "| head". That is no failure.
func brokenPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}

// describe renders a failure for people, one thing a line.
func describe(e *fault.Error) string {
	var b strings.Builder
	message := e.Message
	if len(e.Faults) > 1 {
		message = fmt.Sprintf("%d faults", len(e.Faults))
		if e.File != "" {
			message += " in " + e.File
		}
	}
	if e.Op != "" {
		message = e.Op + ": " + message
	}
	fmt.Fprintf(&b, "penstock: %s\n", message)
	said := message
	line := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		said += text
		fmt.Fprintf(&b, "  %s\n", strings.ReplaceAll(text, "\n", "\n  "))
	}
	for _, f := range e.Faults {
		switch {
		case len(e.Faults) > 1:
			line("%s", f)
		case f.Nearest != "" && !strings.Contains(message+e.Remedy, f.Nearest):
			line("did you mean %q?", f.Nearest)
		}
	}
	if e.Table != "" && !strings.Contains(said, e.Table) {
		line("table: %s", e.Table)
	}
	if e.File != "" && !strings.Contains(said, e.File) {
		line("file: %s", e.File)
	}
	if e.RowGroup != nil {
		line("row group: %d", *e.RowGroup)
	}
	for _, d := range e.Differs {
		if !strings.Contains(said, d) {
			line("differs: %s", d)
		}
	}
	if e.Remedy != "" {
		line("→ %s", e.Remedy)
	}
	return b.String()
}
