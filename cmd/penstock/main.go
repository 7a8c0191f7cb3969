// Command penstock serves joined Iceberg tables to trainers over Arrow Flight. Its other commands
// print and change the tables.
//
// This package contains the commands, and the packages below it contain code that the commands
// share. Package engine assembles the readers and writers of tables; serve.go and source.go
// assemble the servers.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/bar"
	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/complete"
	"github.com/penstock/penstock/cmd/penstock/rowformat"
	"github.com/penstock/penstock/internal/clock"
	"github.com/penstock/penstock/internal/fault"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailure     = 1
	exitFindings    = 1 // verify has findings; if it fails for another reason, the exit code is exitUnverified
	exitUnverified  = 3
	exitBroken      = 4 // a change of a table is made, and a dataset can no longer be read
	exitUsage       = 2
	exitInterrupted = 130 // as in shells, for SIGINT
)

// process runs the commands of the program.
type process struct {
	terminal
	environment
}

// terminal holds the input and the outputs of commands.
type terminal struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	width          int       // characters per line of stdout; 0: stdout is no terminal
	line           *bar.Line // for bars; nil: stderr is no terminal
	answers        bool      // whether stdin is a terminal, so that questions can be asked
}

func main() {
	signal.Ignore(syscall.SIGPIPE) // a write to a closed pipe returns an error, and a closed log does not end a server
	p := process{
		terminal:    terminal{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, width: rowformat.TerminalWidth(os.Stdout), answers: rowformat.TerminalWidth(os.Stdin) > 0},
		environment: environment{env: os.LookupEnv, environ: os.Environ, clock: clock.Now},
	}
	if width := func() int { return rowformat.TerminalWidth(os.Stderr) }; width() > 0 && os.Getenv("TERM") != "dumb" {
		p.terminal = p.withBars(bar.NewLine(os.Stderr, width))
	}
	os.Exit(p.run(context.Background(), os.Args[1:]))
}

// withBars returns a terminal that draws progress bars on a line. Its outputs erase the bar before
// they write anything else.
func (p terminal) withBars(line *bar.Line) terminal {
	p.line, p.stdout, p.stderr = line, line.Before(p.stdout), line.Before(p.stderr)
	return p
}

// run runs one command line and returns the exit code.
func (p process) run(ctx context.Context, args []string) int {
	started := false
	root := &cobra.Command{
		Use:   "penstock",
		Short: "Stream joined Iceberg tables to trainers",
		Long: "Penstock opens a training table and its staging tables in Apache Iceberg, joins them\n" +
			"bucket by bucket in memory, and streams the joined batches over Arrow Flight.",
		SilenceErrors: true, SilenceUsage: true,
		// run treats an error that occurs before the command starts as a mistake in the use of the
		// command.
		PersistentPreRun: func(*cobra.Command, []string) { started = true },
		Version:          version(),
	}
	root.SetVersionTemplate(versionText())
	root.SetArgs(append([]string{}, args...)) // nil would mean os.Args
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.AddCommand(p.commands()...) //nolint:contextcheck // cobra hands ctx to the commands
	root.SetFlagErrorFunc(cmdline.FlagError)
	if err := complete.Add(root, p.environment, cmp.Or(p.lookup, completionTime)); err != nil { //nolint:contextcheck // as above
		return p.finish(root, err)
	}
	completing := len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
	if command, err := cmdline.CheckDashes(root, args); err != nil && !completing {
		return p.finish(command, err)
	}
	command, err := root.ExecuteContextC(ctx)
	if err != nil && !started {
		err = cmdline.Error{Err: err}
	}
	return p.finish(command, err)
}

// interruptible returns a context that ends with ctx or at a termination signal.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, terminations()...)
}

// terminations returns the signals that terminate a command other than serve: SIGTERM, SIGINT and
// SIGHUP. It omits SIGINT or SIGHUP if the program was started with that signal ignored, as nohup
// does.
func terminations() []os.Signal {
	all := serverTerminations()
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// serverTerminations returns the signals that terminate a server. SIGHUP is not one of them: it
// makes the server reload its files.
func serverTerminations() []os.Signal {
	if signal.Ignored(os.Interrupt) {
		return []os.Signal{syscall.SIGTERM}
	}
	return []os.Signal{syscall.SIGTERM, os.Interrupt}
}

// commands returns the commands of the program.
func (p process) commands() []*cobra.Command {
	return []*cobra.Command{
		serveCommand(p), explainCommand(p), catCommand(p), countCommand(p), verifyCommand(p),
		stageCommand(p), publishCommand(p), undoCommand(p), compactCommand(p), restoreCommand(p), promoteCommand(p), demoteCommand(p), orphansCommand(p),
		datasetsCommand(p), tablesCommand(p), logCommand(p), diffCommand(p), statsCommand(p), fitCommand(p), healthCommand(p), statusCommand(p), uiCommand(p), cacheCommand(p), initCommand(p), tokenCommand(p), versionCommand(p), receiveCommand(p),
	}
}

// finish prints why a command failed, if it did, and returns the exit code.
func (p process) finish(command *cobra.Command, err error) int {
	var mistake cmdline.Error
	switch {
	case err == nil, isBrokenPipe(err):
		return exitOK
	case errors.Is(err, findingsError{}):
		return exitFindings
	case errors.Is(err, errDeclined):
		p.note("penstock: %s\n", errDeclined)
		return exitFailure
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
	if _, broken := errors.AsType[brokenError](err); broken {
		return exitBroken
	}
	return exitFailure
}

// note prints to standard error and ignores write errors.
func (p terminal) note(format string, args ...any) {
	_, _ = fmt.Fprintf(p.stderr, format, args...)
}

// isBrokenPipe reports whether an error means that the program that reads the output has closed it,
// as head does in "penstock cat | head". This is not a failure of the command.
func isBrokenPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}

// describe returns the text of a failure. Each part of the failure has a line.
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
