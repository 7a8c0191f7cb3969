//go:build !linux && !darwin

package socket

import (
	"context"
	"errors"
	"net"
	"os"

	"github.com/penstock/penstock/internal/release"
)

var errUnsupported = errors.New("Unix domain sockets are not supported on this system")

func lockFolder(string) (*release.Handle, error) { return nil, errUnsupported }

func bind(context.Context, string, string) (net.Listener, error) { return nil, errUnsupported }

func isOwn(os.FileInfo) bool { return false }
