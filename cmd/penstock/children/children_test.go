package children_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock/penstock/cmd/penstock/children"
	"github.com/penstock/penstock/internal/fault"
)

// asParent makes the test binary a program that starts a child, prints its process id, and waits.
const asParent = "PENSTOCK_TEST_AS_PARENT"

func TestMain(m *testing.M) {
	if file := os.Getenv(asParent); file != "" {
		group := children.New("/bin/sh")
		if err := group.Start(script("echo $$ > " + file + "; exec sleep 600")); err != nil {
			panic(err)
		}
		fmt.Println("started")
		select {}
	}
	goleak.VerifyTestMain(m)
}

func script(text string) children.Command {
	return children.Command{Name: "d", Args: []string{"-c", text}}
}

// ended returns the state of a command after its end.
func ended(t *testing.T, group *children.Group) children.State {
	t.Helper()
	var at children.State
	require.Eventually(t, func() bool {
		at, _ = group.State("d")
		return !at.Running
	}, time.Minute, time.Millisecond)
	return at
}

func TestOutputIsKeptWithinBounds(t *testing.T) {
	group := children.New("/bin/sh")
	defer group.Close()
	_, found := group.State("d")
	require.False(t, found)
	require.NoError(t, group.Start(script(`echo '{"a": 1}'
		echo '{"step": "rewrite", "files": 1, "of_files": 3}' >&2
		echo '{"step": "rewrite", "files": 2, "of_files": 3}' >&2
		echo '{"step": "done"}' >&2
		for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do echo "line $i" >&2; done`)))
	at := ended(t, group)
	require.Empty(t, at.Failure)
	require.Equal(t, "{\"a\": 1}\n", string(at.Result))
	require.Equal(t, []any{"rewrite", int64(2), int64(3)}, []any{at.Progress.Step, at.Progress.Files, at.Progress.OfFiles})
	require.Len(t, at.Said, 20)
	require.Equal(t, "line 25", at.Said[19])
	require.False(t, at.Ended.Before(at.Began))

	require.NoError(t, group.Start(script(`head -c 1000000 /dev/zero | tr '\0' x; head -c 1000000 /dev/zero | tr '\0' y >&2; echo >&2
		echo '{"step": "failed", "failure": {"kind": "conflict", "message": "it has moved", "remedy": "look"}}' >&2; exit 1`)))
	at = ended(t, group)
	require.Equal(t, []string{"it has moved", "look"}, []string{at.Failure, at.Remedy})
	require.Len(t, at.Result, 256<<10)
	require.Len(t, at.Said, 1)
	require.Len(t, at.Said[0], 16<<10)
	require.Empty(t, at.Progress.Step, "the one before is another command")

	require.NoError(t, group.Start(script("echo no such flag >&2; exit 2")))
	at = ended(t, group)
	require.Equal(t, []string{"the command has a mistake", ""}, []string{at.Failure, at.Remedy})
	require.Equal(t, []string{"no such flag"}, at.Said)
}

func TestOneCommandOfAName(t *testing.T) {
	group := children.New("/bin/sh")
	defer group.Close()
	require.NoError(t, group.Start(script("exec sleep 600")))
	err := group.Start(script("true"))
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	other := script("exit 3")
	other.Name, other.Env = "e", []string{"A=b"}
	require.NoError(t, group.Start(other))
	require.True(t, group.Stop("d"))
	require.False(t, group.Stop("d"))
	require.False(t, group.Stop("none"))
	at := ended(t, group)
	require.Contains(t, at.Failure, "terminated")
	require.Contains(t, at.Remedy, "start it again")
	require.NoError(t, group.Start(script("true")))
	require.Empty(t, ended(t, group).Failure)
}

// A child that has started processes of its own ends with all of them.
func TestStopEndsTheWholeProcessGroup(t *testing.T) {
	group := children.New("/bin/sh")
	defer group.Close()
	file := t.TempDir() + "/pid"
	require.NoError(t, group.Start(script("sleep 600 & echo $! > "+file+"; wait")))
	pid := pidIn(t, file)
	require.True(t, group.Stop("d"))
	gone(t, pid)
}

func TestNothingStartsAfterClose(t *testing.T) {
	group := children.New("/bin/sh")
	require.NoError(t, group.Start(script("exec sleep 600")))
	group.Close()
	at, _ := group.State("d")
	require.False(t, at.Running)
	require.Equal(t, fault.Unavailable, fault.KindOf(group.Start(script("true"))))
	require.Equal(t, fault.Unavailable, fault.KindOf(children.New("/nothing").Start(script("true"))))
}

// A child does not outlive a program that is killed.
func TestChildrenEndWithAProgramThatIsKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a child with its parent")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	file := t.TempDir() + "/pid"
	parent := exec.Command(self) //nolint:noctx // it is killed
	parent.Env = append(os.Environ(), asParent+"="+file)
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid := pidIn(t, file)
	require.NoError(t, syscall.Kill(pid, 0), "it runs")
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()
	gone(t, pid)
}

// pidIn returns the process id that a command writes to a file.
func pidIn(t *testing.T, file string) (pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(file) // it may not exist yet
		var err error
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	}, time.Minute, time.Millisecond)
	return pid
}

// gone waits until a process has ended; it may be a zombie.
func gone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil && syscall.Kill(pid, 0) != nil || strings.Contains(string(text), ") Z ")
	}, time.Minute, time.Millisecond)
}
