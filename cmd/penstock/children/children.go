// Package children runs commands of this program in processes of their own, and keeps how far each of them is and how it ended.
//
// A child has its own process group, environment and memory budget. It never outlives the program on Linux: the kernel kills it when the program
// ends in any way. So a program that is started again finds no child of an earlier one, and can start the command again. Commands
// whose work continues when they are repeated, such as promote, are the ones to run here.
//
// What a child prints is bounded: its last line of progress, the beginning of its result, and its last other lines.
package children

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

// stopTime is how long a child may take to end after SIGTERM. Then it is killed.
const stopTime = 10 * time.Second

// mistake is the exit code of a command line with a mistake.
const mistake = 2

// Command is a command of this program.
type Command struct {
	Name string // of what it changes: no two commands of a name run at the same time
	Args []string
	Env  []string // as in os.Environ; added to those of this process
}

// State is how far a command is.
type State struct {
	Running      bool
	Began, Ended time.Time
	Progress     Progress
	// Failure is why the command has failed, and Remedy what to do; "" if it runs, or has succeeded.
	Failure, Remedy string
	Result          []byte   // what it has printed on standard output, up to a bound
	Said            []string // its last lines on standard error that are no progress
}

// Group runs commands. It is safe for concurrent use.
type Group struct {
	program string
	mu      sync.Mutex
	closed  bool
	all     map[string]*child
	running sync.WaitGroup
}

// New returns a group that starts a program.
func New(program string) *Group { return &Group{program: program, all: map[string]*child{}} }

// child is a command that runs or has run.
type child struct {
	output
	command *exec.Cmd
	began   time.Time
	done    chan struct{} // closed when it has ended; then ended and err are set
	ended   time.Time
	err     error
}

// Start starts a command. It returns Conflict if one of the same name runs.
func (g *Group) Start(c Command) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return fault.New(fault.Unavailable, "the program ends")
	}
	if before := g.all[c.Name]; before != nil && !before.over() {
		return fault.New(fault.Conflict, "a command for %s runs already", c.Name).WithRemedy("wait for its end, or stop it")
	}
	one := &child{began: time.Now(), done: make(chan struct{}), command: exec.Command(g.program, c.Args...)} //nolint:noctx // stop ends it
	one.command.Env = slices.Concat(os.Environ(), c.Env)
	one.command.Stdout, one.command.Stderr = resultWriter{&one.output}, lineWriter{&one.output}
	one.command.SysProcAttr = attributes()
	one.command.WaitDelay = stopTime
	started := make(chan error, 1)
	g.running.Go(func() { one.run(started) })
	if err := <-started; err != nil {
		return fault.New(fault.Unavailable, "start %s: %w", g.program, err)
	}
	g.all[c.Name] = one
	return nil
}

// run starts the command and waits for its end. The thread is kept for as long: the kernel kills the child when it ends.
func (c *child) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.done)
	err := c.command.Start()
	started <- err
	if err == nil {
		c.err = c.command.Wait()
	}
	c.ended = time.Now()
}

// over reports whether the command has ended.
func (c *child) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// State returns how far the last command of a name is, and whether there was one.
func (g *Group) State(name string) (State, bool) {
	g.mu.Lock()
	one := g.all[name]
	g.mu.Unlock()
	if one == nil {
		return State{}, false
	}
	over := one.over() // before its output is read, so that the state of one that is over is complete
	out := one.state()
	out.Running, out.Began = !over, one.began
	if over {
		out.Ended = one.ended
		if one.err != nil && out.Failure == "" {
			out.Failure, out.Remedy = "the command ended: "+one.err.Error(), "start it again: nothing is done twice"
		}
		if exit := (*exec.ExitError)(nil); errors.As(one.err, &exit) && exit.ExitCode() == mistake {
			out.Failure, out.Remedy = "the command has a mistake", "" // Said names it
		}
	}
	return out, true
}

// Stop ends the command of a name, and waits for its end. It reports whether one ran.
func (g *Group) Stop(name string) bool {
	g.mu.Lock()
	one := g.all[name]
	g.mu.Unlock()
	if one == nil || one.over() {
		return false
	}
	one.stop()
	return true
}

// stop ends the command and all processes that it has started.
func (c *child) stop() {
	group := -c.command.Process.Pid
	_ = syscall.Kill(group, syscall.SIGTERM) // it may have ended
	patience := time.NewTimer(stopTime)
	defer patience.Stop()
	select {
	case <-c.done:
	case <-patience.C:
		_ = syscall.Kill(group, syscall.SIGKILL)
		<-c.done
	}
}

// Close ends all commands, and waits for their end. No further command starts.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	all := g.all
	g.mu.Unlock()
	var ends sync.WaitGroup
	for _, one := range all {
		if !one.over() {
			ends.Go(one.stop)
		}
	}
	ends.Wait()
	g.running.Wait()
}
