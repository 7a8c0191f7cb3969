// Package openpage records the address of the pages that penstock ui of a user shows, for the other commands of that user.
//
// While pages are shown, a file in the user's runtime folder has their address, without a key: the browser that has opened the link
// can load it, and others cannot. A file that a killed program has left is recognized by a connection.
package openpage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/fault"
)

const (
	// connectTime bounds the check whether pages are still shown.
	connectTime = 200 * time.Millisecond
	maxAddress  = 256 // bytes
	folderMode  = 0o700
	fileMode    = 0o600
)

// Announce writes the address of pages about several sources to files in a folder, which it creates: the URIs of servers, or the
// path of a config file. The newest pages of a source replace those before. The caller calls remove when the pages end.
func Announce(folder string, sources []string, address string) (remove func(), err error) {
	if err := os.MkdirAll(folder, folderMode); err != nil {
		return nil, fault.New(fault.Unavailable, "make the folder of open pages: %w", err)
	}
	remove = func() {
		for _, source := range sources {
			path := fileOf(folder, source)
			if text, err := os.ReadFile(path); err == nil && string(text) == address {
				_ = os.Remove(path) // what stays is recognized by a connection
			}
		}
	}
	for _, source := range sources {
		if err := write(fileOf(folder, source), address); err != nil {
			remove()
			return nil, fault.New(fault.Unavailable, "write the address of the pages: %w", err)
		}
	}
	return remove, nil
}

// write replaces a file.
func write(path, text string) error {
	file, err := os.CreateTemp(filepath.Dir(path), "new-") // which only the user can read
	if err != nil {
		return err
	}
	_, err = io.WriteString(file, text)
	if err = errors.Join(err, file.Chmod(fileMode), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// Find returns the address of pages about a source; "" if none are shown.
func Find(ctx context.Context, folder, source string) string {
	file, err := os.Open(fileOf(folder, source))
	if err != nil {
		return ""
	}
	defer file.Close() //nolint:errcheck // it is only read
	text, err := io.ReadAll(io.LimitReader(file, maxAddress))
	if err != nil {
		return ""
	}
	at, err := url.Parse(string(text))
	if err != nil || at.Scheme != "http" || at.String() != "http://"+at.Host {
		return ""
	}
	host, err := netip.ParseAddrPort(at.Host)
	if err != nil || !host.Addr().IsLoopback() {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at.Host)
	if err != nil {
		return ""
	}
	_ = conn.Close() // nothing was sent
	return at.String()
}

// fileOf returns the path of the file of a source.
func fileOf(folder, source string) string {
	if !strings.Contains(source, "://") && !filepath.IsAbs(source) {
		source = "grpc://" + source
	}
	sum := sha256.Sum256([]byte(source))
	return filepath.Join(folder, hex.EncodeToString(sum[:16])) //nolint:mnd // enough to differ
}
