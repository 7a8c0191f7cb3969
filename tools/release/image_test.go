package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"
)

// needed returns what a variable names, which make test-packages sets.
func needed(t *testing.T, variable string) string {
	t.Helper()
	value := os.Getenv(variable)
	require.NotEmpty(t, value, variable+" is not set: run make test-packages")
	return value
}

// The same files give the same layer, whatever the machine.
func TestLayersAreReproducible(t *testing.T) {
	at := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	first, err := layer(systemFiles(), at)
	require.NoError(t, err)
	second, err := layer(systemFiles(), at)
	require.NoError(t, err)
	one, err := first.Digest()
	require.NoError(t, err)
	other, err := second.Digest()
	require.NoError(t, err)
	require.Equal(t, one, other)
	plain, err := first.Uncompressed()
	require.NoError(t, err)
	defer func() { require.NoError(t, plain.Close()) }()
	modes := map[string]int64{}
	for files := tar.NewReader(plain); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.True(t, at.Equal(h.ModTime))
		modes[h.Name] = h.Mode
		require.Equal(t, map[bool]int{true: imageUser}[h.Name == "var/lib/penstock/"], h.Uid, h.Name)
	}
	require.Equal(t, int64(0o1777), modes["tmp/"])
	require.Equal(t, int64(0o644), modes["etc/passwd"])
}

// The certificate authorities are those of a browser, and can be read.
func TestImagesTrustCertificateAuthorities(t *testing.T) {
	pool, rest, n := x509.NewCertPool(), authorities(), 0
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		require.True(t, certificate.IsCA)
		pool.AddCert(certificate)
		n++
	}
	require.Empty(t, rest)
	require.Greater(t, n, 80)
}

// unpack unpacks the image of this machine into a folder, and returns how a container of it runs.
func unpack(t *testing.T, folder, root string) v1.Config {
	t.Helper()
	index, err := layout.ImageIndexFromPath(folder)
	require.NoError(t, err)
	require.NoError(t, validate.Index(index), "sizes and digests")
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 1, "one image of all platforms")
	all, err := index.ImageIndex(manifest.Manifests[0].Digest)
	require.NoError(t, err)
	images, err := partial.FindImages(all, match.Platforms(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	require.NoError(t, err)
	require.Len(t, images, 1, runtime.GOARCH)
	layers, err := images[0].Layers()
	require.NoError(t, err)
	for _, l := range layers {
		plain, err := l.Uncompressed()
		require.NoError(t, err)
		tar := exec.CommandContext(t.Context(), "tar", "--extract", "--preserve-permissions", "--numeric-owner", "--directory", root)
		tar.Stdin = plain
		said, err := tar.CombinedOutput()
		require.NoError(t, err, string(said))
		require.NoError(t, plain.Close())
	}
	config, err := images[0].ConfigFile()
	require.NoError(t, err)
	return config.Config
}

// confine runs a program of an image as its user, on a root that cannot be written: bash confine ROOT TABLES USER PROGRAM…
// It is what a container runtime does, as far as this test needs it.
const confine = `
root=$0 tables=$1 user=$2; shift 2
mkdir -p "$root/proc"
mount --make-rprivate /
mount --bind "$root" "$root"
mount --rbind /proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o "mode=700,uid=${user%:*},gid=${user#*:}" tmpfs "$root/var/lib/penstock"
mkdir -p "$root$tables" # after /tmp, where the tables may be
mount --bind "$tables" "$root$tables"
mount -o remount,bind,ro "$root$tables"
mount -o remount,bind,ro "$root"
if touch "$root/written" 2> /dev/null; then echo "the root can be written" >&2; exit 1; fi
exec chroot --userspec="$user" "$root" "$@"
`

// A container of the image serves the demo: as its user, from a root that cannot be written, the rows that a program outside
// reads of the same tables.
func TestImageServesTheDemo(t *testing.T) {
	image, demo, program := needed(t, "PENSTOCK_IMAGE"), needed(t, "PENSTOCK_DEMO"), needed(t, "PENSTOCK_BIN")
	root := t.TempDir()
	config := unpack(t, image, root)
	file := filepath.Join(demo, "penstock.yaml")
	want, err := exec.CommandContext(t.Context(), program, "cat", "movielens", "--config", file, "--limit", "1000").Output()
	require.NoError(t, err)
	require.Greater(t, bytes.Count(want, []byte("\n")), 1000)

	command := append(append([]string{}, config.Entrypoint...), config.Cmd...)
	var server *exec.Cmd
	confined := os.Geteuid() == 0 && exec.CommandContext(t.Context(), "unshare", "--mount", "mount", "--make-rprivate", "/").Run() == nil
	if confined {
		args := append([]string{"--mount", "bash", "-euc", confine, root, demo, config.User}, command...)
		server = exec.CommandContext(t.Context(), "unshare", append(args, "--listen", "127.0.0.1:0", "--memory", "128MiB")...)
	} else {
		t.Log("this user may not mount: the program runs as this user, from a root that it could write")
		server = exec.CommandContext(t.Context(), filepath.Join(root, command[0]), append(command[1:], "--listen", "127.0.0.1:0", "--spool", t.TempDir())...)
	}
	server.Env = append(append([]string{}, config.Env...), "PENSTOCK_CONFIG="+file)
	if confined {
		server.Env = append(server.Env, "PATH="+os.Getenv("PATH"))
	}
	address, log := begin(t, server)
	if confined {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", server.Process.Pid))
		require.NoError(t, err)
		require.Contains(t, string(status), "\nUid:\t65532\t65532\t65532\t65532\n")
	}
	got, err := exec.CommandContext(t.Context(), program, "cat", "movielens", "--uri", "grpc://"+address, "--limit", "1000").Output()
	require.NoError(t, err, log())
	require.Equal(t, string(want), string(got))
	require.NoError(t, server.Process.Signal(os.Interrupt))
	require.NoError(t, server.Wait(), log())
}
