package disk

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
)

// faultySystem is the operating system, of which chosen calls fail or hang.
type faultySystem struct {
	mu    sync.Mutex
	fail  map[string]error         // by call
	hang  map[string]chan struct{} // by call: it waits until the channel is closed
	calls map[string]int
}

func newFaultySystem() *faultySystem {
	return &faultySystem{fail: map[string]error{}, hang: map[string]chan struct{}{}, calls: map[string]int{}}
}

// at runs before a call.
func (s *faultySystem) at(call string) error {
	s.mu.Lock()
	s.calls[call]++
	err, gate := s.fail[call], s.hang[call]
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return err
}

func (s *faultySystem) failing(call string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail[call] = err
}

// hanging makes a call hang until the result is called.
func (s *faultySystem) hanging(call string) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gate := make(chan struct{})
	s.hang[call] = gate
	return func() {
		s.mu.Lock()
		delete(s.hang, call)
		s.mu.Unlock()
		close(gate)
	}
}

func (s *faultySystem) calledTimes(call string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[call]
}

func (s *faultySystem) system() *systemCalls {
	under := realSystem()
	open := func(call string, open func(string) (diskFile, error)) func(string) (diskFile, error) {
		return func(path string) (diskFile, error) {
			if err := s.at(call); err != nil {
				return nil, err
			}
			f, err := open(path)
			if err != nil {
				return nil, err
			}
			return faultyFile{f, s, call}, nil
		}
	}
	return &systemCalls{
		create: open("create", under.create), open: open("open", under.open),
		rename: func(from, to string) error {
			if err := s.at("rename"); err != nil {
				return err
			}
			return under.rename(from, to)
		},
		remove: func(path string) error {
			if err := s.at("remove"); err != nil {
				return err
			}
			return under.remove(path)
		},
	}
}

type faultyFile struct {
	diskFile
	system *faultySystem
	from   string // create or open
}

func (f faultyFile) ReadAt(p []byte, at int64) (int, error) {
	if at > 0 {
		if err := f.system.at("read"); err != nil {
			return 0, err
		}
	}
	return f.diskFile.ReadAt(p, at)
}

func (f faultyFile) WriteAt(p []byte, at int64) (int, error) {
	if err := f.system.at("write"); err != nil {
		n, _ := f.diskFile.WriteAt(p[:len(p)/2], at)
		return n, err
	}
	return f.diskFile.WriteAt(p, at)
}

func (f faultyFile) Close() error {
	if err := f.system.at("close after " + f.from); err != nil {
		_ = f.diskFile.Close()
		return err
	}
	return f.diskFile.Close()
}

// logLines counts the lines of a log.
type logLines struct {
	slog.Handler
	n atomic.Int64
}

func (l *logLines) Enabled(context.Context, slog.Level) bool { return true }

func (l *logLines) Handle(context.Context, slog.Record) error {
	l.n.Add(1)
	return nil
}
