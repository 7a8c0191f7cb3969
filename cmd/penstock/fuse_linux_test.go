package main

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// deadMount is a file system that this test serves with the kernel's protocol fuse(4). It has the
// files of the folder that it is mounted on. After stop, no request returns, as on a network mount
// whose server is gone.
type deadMount struct {
	kernel *os.File
	nodes  []node // by node id; the root has id 1
}

type node struct {
	path    string // relative to the folder; "." is the root
	content []byte
	folder  bool
}

// mountOver mounts a file system with the files of a folder on that folder. It skips the test if
// mounts are not allowed.
func mountOver(t *testing.T, folder string) *deadMount {
	t.Helper()
	fd, err := syscall.Open("/dev/fuse", syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("this machine has no FUSE: %v", err)
	}
	m := &deadMount{nodes: []node{{}}}
	require.NoError(t, fs.WalkDir(os.DirFS(folder), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		n := node{path: path, folder: e.IsDir()}
		if !n.folder {
			n.content, err = os.ReadFile(filepath.Join(folder, path))
		}
		m.nodes = append(m.nodes, n)
		return err
	}))
	if err := syscall.Mount("test", folder, "fuse", syscall.MS_NOSUID|syscall.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)); err != nil {
		require.NoError(t, syscall.Close(fd))
		t.Skipf("this user may not mount: %v", err)
	}
	m.kernel = os.NewFile(uintptr(fd), "fuse") // only after the mount: NewFile starts to poll the descriptor
	var serving sync.WaitGroup
	serving.Go(m.serve)
	t.Cleanup(func() {
		m.stop(t)
		serving.Wait()
		require.NoError(t, syscall.Unmount(folder, syscall.MNT_DETACH))
		require.NoError(t, m.kernel.Close()) // ends requests that still wait
	})
	return m
}

// stop makes every later request hang.
func (m *deadMount) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, m.kernel.SetReadDeadline(time.Unix(1, 0)))
}

// Constants of fuse(4): operations, and sizes in bytes.
const (
	fuseLookup, fuseForget, fuseGetattr, fuseOpen, fuseRead = 1, 2, 3, 14, 15
	fuseRelease, fuseInit, fuseOpendir                      = 18, 26, 27
	fuseReleasedir, fuseInterrupt, fuseBatchForget          = 29, 36, 42

	fuseHeader  = 40
	fuseAnswer  = 16
	fuseLargest = 1 << 17
	fuseLongest = 1 << 20 // how long attributes are cached, in seconds
)

func (m *deadMount) serve() {
	request := make([]byte, fuseLargest+4096)
	for {
		n, err := m.kernel.Read(request)
		if err != nil {
			return // it was stopped
		}
		operation, id := binary.NativeEndian.Uint32(request[4:]), binary.NativeEndian.Uint64(request[16:])
		if operation == fuseForget || operation == fuseBatchForget || operation == fuseInterrupt {
			continue
		}
		body, failure := m.answer(operation, id, request[fuseHeader:n])
		out := binary.NativeEndian.AppendUint32(nil, uint32(fuseAnswer+len(body)))
		out = binary.NativeEndian.AppendUint32(out, uint32(-int32(failure)))
		out = append(out, request[8:16]...)
		_, _ = m.kernel.Write(append(out, body...))
	}
}

func (m *deadMount) answer(operation uint32, id uint64, body []byte) ([]byte, syscall.Errno) {
	e := binary.NativeEndian
	switch operation {
	case fuseInit:
		out := make([]byte, 64)
		e.PutUint32(out, 7)
		e.PutUint32(out[4:], 31)
		e.PutUint32(out[8:], fuseLargest) // read ahead
		e.PutUint32(out[20:], fuseLargest)
		return out, 0
	case fuseLookup:
		path := filepath.Join(m.nodes[id].path, strings.TrimRight(string(body), "\x00"))
		for i := range m.nodes[1:] {
			if m.nodes[i+1].path == path {
				out := e.AppendUint64(nil, uint64(i+1))
				out = e.AppendUint64(out, 0)
				out = e.AppendUint64(e.AppendUint64(out, fuseLongest), fuseLongest)
				return append(append(out, make([]byte, 8)...), m.attributes(uint64(i+1))...), 0
			}
		}
		return nil, syscall.ENOENT
	case fuseGetattr:
		return append(append(e.AppendUint64(nil, fuseLongest), make([]byte, 8)...), m.attributes(id)...), 0
	case fuseOpen, fuseOpendir:
		// Direct I/O sends every read to this file system. Closing a file sends no flush, because
		// an exiting process would wait for the answer.
		const directly, noFlush = 1, 1 << 5
		return append(append(make([]byte, 8), directly|noFlush, 0, 0, 0), make([]byte, 4)...), 0
	case fuseRead:
		content, from, size := m.nodes[id].content, e.Uint64(body[8:]), uint64(e.Uint32(body[16:]))
		from = min(from, uint64(len(content)))
		return content[from:min(from+size, uint64(len(content)))], 0
	case fuseRelease, fuseReleasedir:
		return nil, 0
	default:
		return nil, syscall.ENOSYS
	}
}

// attributes returns the attributes of a node as a fuse_attr.
func (m *deadMount) attributes(id uint64) []byte {
	e, n := binary.NativeEndian, m.nodes[id]
	out := make([]byte, 88)
	e.PutUint64(out, id)
	e.PutUint64(out[8:], uint64(len(n.content)))
	mode := uint32(syscall.S_IFREG | 0o644)
	if n.folder {
		mode = syscall.S_IFDIR | 0o755
	}
	e.PutUint32(out[60:], mode)
	e.PutUint32(out[64:], 1)
	return out
}
