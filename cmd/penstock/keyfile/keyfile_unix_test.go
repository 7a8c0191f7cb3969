//go:build unix

package keyfile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock/penstock/internal/fault"
)

// owned is the FileInfo of a file that belongs to a user.
type owned struct {
	os.FileInfo
	user uint32
}

func (o owned) Sys() any { return &syscall.Stat_t{Uid: o.user} }

func TestKeyFilesBelongToRootOrThisUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tickets.keys")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	file, err := os.Stat(path)
	require.NoError(t, err)
	require.Empty(t, writers(file))
	require.Empty(t, writers(owned{file, 0}))
	require.Equal(t, "user 4242", writers(owned{file, 4242}))
}

// moded is the FileInfo of a file with a mode, a user and a group.
type moded struct {
	os.FileInfo
	mode        os.FileMode
	user, group uint32
}

func (m moded) Mode() os.FileMode { return m.mode }
func (m moded) Sys() any          { return &syscall.Stat_t{Uid: m.user, Gid: m.group} }

// TestRootMayGiveAFileToTheGroup checks that permissions of a group are accepted only if root owns
// the file and the group is one of the process's groups and may only read.
//
// spec: access-4
func TestRootMayGiveAFileToTheGroup(t *testing.T) {
	process := processIDs{user: 1000, groups: []int{1000, 2000}}
	for name, c := range map[string]struct {
		file    moded
		process processIDs
		reads   bool
	}{
		"a secret with fsGroup":      {moded{mode: 0o440, group: 2000}, process, true},
		"with root's own writing":    {moded{mode: 0o640, group: 2000}, process, true},
		"the first group":            {moded{mode: 0o440, group: 1000}, process, true},
		"a group of others":          {moded{mode: 0o440, group: 3000}, process, false},
		"root's group":               {moded{mode: 0o440}, process, false},
		"the group may write":        {moded{mode: 0o460, group: 2000}, process, false},
		"the group may execute":      {moded{mode: 0o450, group: 2000}, process, false},
		"all may read":               {moded{mode: 0o444, group: 2000}, process, false},
		"all may execute":            {moded{mode: 0o441, group: 2000}, process, false},
		"this user's, for its group": {moded{mode: 0o440, user: 1000, group: 1000}, process, false},
		"another user's":             {moded{mode: 0o440, user: 1001, group: 2000}, process, false},
		"for root, who needs none":   {moded{mode: 0o440, group: 2000}, processIDs{groups: []int{0, 2000}}, false},
	} {
		require.Equal(t, c.reads, c.process.readsByGroup(c.file), name)
	}
	require.Contains(t, currentProcess().groups, os.Getegid())
	require.Equal(t, os.Geteuid(), currentProcess().user)
}

// spec: access-4
func TestFilesThatOthersMayUseAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.key")
	require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
	for mode, refused := range map[os.FileMode]struct{ secret, public bool }{
		0o600: {}, 0o400: {}, 0o640: {secret: true}, 0o604: {secret: true}, 0o601: {secret: true}, 0o444: {secret: true},
		0o620: {secret: true, public: true}, 0o602: {secret: true, public: true}, 0o666: {secret: true, public: true},
	} {
		require.NoError(t, os.Chmod(path, mode))
		for use, want := range map[Use]bool{Secret: refused.secret, Public: refused.public} {
			text, err := Read("tls_key", path, use)
			if !want {
				require.NoError(t, err, mode)
				require.Equal(t, "text", string(text))
				continue
			}
			require.Equal(t, fault.Invalid, fault.KindOf(err), mode)
			require.Contains(t, fault.As(err).Remedy, "chmod 600", mode)
		}
	}
}

func TestFilesThatCannotBeReadAreRefused(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for _, path := range []string{filepath.Join(dir, "none"), dir, pipe} {
		_, err := Read("tls_key", path, Secret)
		require.Equal(t, fault.Invalid, fault.KindOf(err), path)
		require.Contains(t, fault.As(err).Remedy, "set tls_key to a file", path)
	}
}
