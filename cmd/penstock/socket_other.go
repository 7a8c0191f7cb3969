//go:build !linux && !darwin

package main

import (
	"context"
	"errors"
	"net"
)

var errNoSockets = errors.New("sockets of the file system are not served on this system")

func lockFolder(string) (func(), error) { return nil, errNoSockets }

func bindSocket(context.Context, string) (net.Listener, error) { return nil, errNoSockets }
