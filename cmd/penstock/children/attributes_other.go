//go:build !linux

package children

import "syscall"

// attributes are those of a child: a process group of its own. It may outlive a program that is killed.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
