// Command penstock serves joined Iceberg tables to trainers over Arrow Flight, and prints
// what a server would serve.
//
// This package has the commands. Package engine names the concrete types of all that reads and
// writes tables, serve.go and local.go those of the servers. What the commands share is in the
// packages below it.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock/penstock/cmd/penstock/cmdline"
	"github.com/penstock/penstock/cmd/penstock/rowformat"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailure     = 1
	exitFindings    = 1 // of verify, which fails with exitUnverified
	exitUnverified  = 3
	exitUsage       = 2
	exitInterrupted = 130 // as in shells, for SIGINT
)

// process is the environment of the program, which tests replace.
type process struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            func(string) (string, bool)
	clock          func() time.Time
	width          int // characters per line of the terminal; 0: stdout is none
}

func main() {
	p := process{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: os.LookupEnv, clock: time.Now, width: rowformat.TerminalWidth(os.Stdout)}
	os.Exit(p.run(context.Background(), os.Args[1:]))
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
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		// An error before a command runs is a mistake in its use.
		PersistentPreRun: func(*cobra.Command, []string) { started = true },
		Version:          version(),
	}
	root.SetVersionTemplate(versionText())
	root.SetArgs(append([]string{}, args...)) // nil would be those of the process
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.AddCommand(p.commands()...) //nolint:contextcheck // cobra hands ctx to the commands
	root.SetFlagErrorFunc(cmdline.FlagError)
	if command, err := cmdline.CheckDashes(root, args); err != nil {
		return p.finish(command, err)
	}
	command, err := root.ExecuteContextC(ctx)
	if err != nil && !started {
		err = cmdline.Error{Err: err}
	}
	return p.finish(command, err)
}

// interruptible returns a context that also ends with a signal to terminate.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, terminations()...)
}

// terminations returns the signals that terminate the program: SIGTERM, and SIGINT and SIGHUP
// unless it was started to ignore them, as by nohup.
func terminations() []os.Signal {
	all := serverTerminations()
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// serverTerminations returns the signals that terminate a server, which loads its files again after SIGHUP.
func serverTerminations() []os.Signal {
	if signal.Ignored(os.Interrupt) {
		return []os.Signal{syscall.SIGTERM}
	}
	return []os.Signal{syscall.SIGTERM, os.Interrupt}
}

// commands returns the commands of the program.
func (p process) commands() []*cobra.Command {
	return []*cobra.Command{
		p.serveCommand(), p.explainCommand(), p.catCommand(), p.verifyCommand(),
		p.stageCommand(), p.publishCommand(), p.undoCommand(), p.compactCommand(), p.restoreCommand(), p.promoteCommand(), p.demoteCommand(), p.orphansCommand(),
		p.datasetsCommand(), p.healthCommand(), p.statusCommand(), p.cacheCommand(), p.initCommand(), p.tokenCommand(), p.versionCommand(),
	}
}
