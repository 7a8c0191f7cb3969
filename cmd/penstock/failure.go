package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/internal/fault"
)

// finish prints why a command failed, if it did, and returns the exit code.
func (p process) finish(command *cobra.Command, err error) int {
	var mistake cmdline.Error
	switch {
	case err == nil, isBrokenPipe(err):
		return exitOK
	case errors.Is(err, findingsError{}):
		return exitFindings
	case errors.As(err, &mistake):
		p.note("penstock: %s\n\nSee: %s --help\n", fault.Redact(mistake.Error()), command.CommandPath())
		return exitUsage
	case errors.Is(err, context.Canceled):
		p.note("penstock: interrupted\n")
		return exitInterrupted
	}
	p.note("%s", fault.Redact(describe(fault.As(err))))
	if _, unverified := errors.AsType[unverifiedError](err); unverified {
		return exitUnverified
	}
	return exitFailure
}

// note prints to standard error, and ignores its errors.
func (p process) note(format string, args ...any) {
	_, _ = fmt.Fprintf(p.stderr, format, args...)
}

// isBrokenPipe reports whether an error means that the reader of the output has closed it, as
// after "| head". That is not a failure.
func isBrokenPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}

// describe renders a failure as text, a line for each of its parts.
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
